"""How Monte Carlo's table names become qualified names."""

from __future__ import annotations

import string
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from lily_connectors.config import ConnectorConfig, Namespace

_PARTS = ("project", "dataset", "table")


class Config(ConnectorConfig):
    """A table is `project:dataset.table` there; here it is a dataset of `namespace` named by `name_template`."""

    needs_secret: ClassVar[bool] = True
    makes_secret: ClassVar[bool] = True

    namespace: Namespace = Field(
        description="OpenLineage namespace of the warehouse that Monte Carlo watches",
        examples=["postgres://shop-db:5432", "snowflake://acme-prod", "bigquery"],
    )
    name_template: str = Field(
        "{project}.{dataset}.{table}",
        max_length=200,
        description="Dataset name from Monte Carlo's project (database), dataset (schema) and table",
    )
    warehouses: dict[str, Namespace] = Field(
        default_factory=dict, description="Namespace by warehouse UUID, where there are several warehouses"
    )
    letter_case: Literal["keep", "lower", "upper"] = Field(
        "keep", description="Names as the warehouse writes them; Monte Carlo may report them in lower case"
    )

    @field_validator("name_template")
    @classmethod
    def _known_parts(cls, template: str) -> str:
        fields = [
            (name, spec, conversion) for _, name, spec, conversion in string.Formatter().parse(template)
        ]
        for name, spec, conversion in fields:
            if name is not None and (name not in _PARTS or spec or conversion):
                raise ValueError(f"may only use {{{'}, {'.join(_PARTS)}}}")
        if not any(name == "table" for name, _, _ in fields):
            raise ValueError("must hold {table}")
        return template
