"""The sources of an incremental table as its declaration names them: the fact, and the dimensions joined to it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

NAME_PATTERN = r"^[a-z][a-z0-9_]{0,62}$"
_PART = r"[A-Za-z0-9_$-]{1,63}"
SOURCE_PATTERN = rf"^(cdc\.[a-z][a-z0-9_]{{0,39}}\.{_PART}\.{_PART}|silver\.(assets|edges))$"
MAX_DIMENSIONS, MAX_COLUMNS = 40, 500
_PICK = re.compile(r"latest by ([A-Za-z_][A-Za-z0-9_$]*)")

TableName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Alias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
ColumnName = Annotated[str, StringConstraints(pattern=r"^([A-Za-z]|_[A-Za-z0-9])[A-Za-z0-9_]{0,126}$")]
SourceColumn = Annotated[str, StringConstraints(pattern=r"^[^`\x00-\x1f]{1,255}$")]
SourceName = Annotated[
    str,
    StringConstraints(pattern=SOURCE_PATTERN),
    Field(
        description="`cdc.<source>.<schema>.<table>` of the tenant, `silver.assets` or `silver.edges`",
        examples=["cdc.shop.public.bills"],
    ),
]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Side(Strict):
    """One source. `alias` is what expressions call it: the last part of the source's name when not given."""

    source: SourceName
    alias: Alias = Field("", alias="as", description="What expressions call it")
    read: Literal["latest", "window"] = Field(
        "latest",
        description="`latest`: its rows as they are now. `window`: only its changes since the last refresh and of the "
        "overlap, so that a refresh costs what changed and nothing else; it needs `partial_update`",
    )
    partial_update: bool = Field(
        False, description="A missing row of this side never erases a known value; a NULL in a row does"
    )
    deletes: Literal["apply", "keep"] = Field(
        "apply", description="`keep`: a row deleted at the source is taken as missing, not as gone"
    )

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = {"source": given}
        if (
            isinstance(given, dict)
            and isinstance(given.get("source"), str)
            and not {"as", "alias"} & given.keys()
        ):
            last = given["source"].rsplit(".", 1)[-1]
            return given | {"as": re.sub(r"[^A-Za-z0-9_]", "_", last)}
        return given


class Dimension(Side):
    """A source whose rows are joined to the fact's."""

    on: dict[SourceColumn, Text] = Field(
        min_length=1,
        max_length=16,
        description="Column of this source -> column of the fact, or `<alias>.<column>` of an earlier dimension",
    )
    join: Literal["inner", "left", "full"] = "left"
    pick: str | None = Field(
        None,
        pattern=rf"^{_PICK.pattern}$",
        description="Which row counts when several match: `latest by <column>`",
    )
    aggregate: dict[ColumnName, Text] = Field(
        default_factory=dict,
        max_length=50,
        description="Instead of `pick`: what is made of the rows that match, e.g. `{paid: sum(amount)}`",
    )
    include: bool = Field(
        True,
        description="Whether its changes refresh the facts they touch; else the full refresh brings them",
    )

    @property
    def pick_column(self) -> str | None:
        match = _PICK.fullmatch(self.pick or "")
        return match[1] if match else None
