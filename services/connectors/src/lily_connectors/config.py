"""Base of every connector's configuration: a Pydantic model whose JSON Schema is the catalogue's and the console's."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

#: A namespace as OpenLineage has it, e.g. `postgres://shop-db:5432` or `bigquery`.
Namespace = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^[^\x00-\x20\x7f|]+$")]
#: How a connector comes by its data: `webhook` is called by the vendor, `pull` asks the source, `push` only sends.
Transport = Literal["webhook", "pull", "push"]


class ConnectorConfig(BaseModel):
    """What a tenant sets for one connector. Secrets are not part of it: they are stored encrypted, apart."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Whether a secret is needed for it to work, and whether Lily makes one up when none is given.
    needs_secret: ClassVar[bool] = False
    makes_secret: ClassVar[bool] = False
