"""What travels about lineage."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue

from lily_api.schemas import Output, example

_ORDERS = "postgres://shop-db:5432/shop/public/orders"
_MART = "spark://warehouse/marts/revenue"


class Direction(StrEnum):
    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"
    BOTH = "both"


class Level(StrEnum):
    TABLE = "table"
    COLUMN = "column"


class LineageNode(Output):
    """An asset of the graph. `distance` counts edges from the asset asked about (or its columns)."""

    qualified_name: str
    asset_type: str | None = Field(None, description="Null when only edges name it")
    name: str | None = None
    tags: list[str] = Field(default_factory=list)
    distance: int


class LineageEdge(Output):
    """Data flows from `upstream` to `downstream`."""

    upstream: str
    downstream: str
    via: str | None = Field(description="The job or query that makes the edge")
    kind: Literal["table", "column"]
    transformation: JsonValue = None


class LineageView(Output):
    model_config = example(
        {
            "root": _MART,
            "direction": "upstream",
            "depth": 3,
            "nodes": [
                {
                    "qualified_name": _MART,
                    "asset_type": "table",
                    "name": "revenue",
                    "tags": [],
                    "distance": 0,
                },
                {
                    "qualified_name": _ORDERS,
                    "asset_type": "table",
                    "name": "orders",
                    "tags": [],
                    "distance": 1,
                },
            ],
            "edges": [
                {
                    "upstream": _ORDERS,
                    "downstream": _MART,
                    "via": "spark://warehouse/jobs/marts",
                    "kind": "table",
                    "transformation": None,
                }
            ],
            "truncated": False,
        }
    )

    root: str
    direction: Direction
    depth: int
    nodes: list[LineageNode] = Field(description="By distance, then name")
    edges: list[LineageEdge]
    truncated: bool = Field(description="A limit was met: there is more than is shown")
