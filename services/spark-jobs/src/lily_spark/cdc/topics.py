"""Topics of change data and what is called after them: `cdc.<tenant>.<source>.<schema>.<table>`."""

from __future__ import annotations

from dataclasses import dataclass

#: What the query subscribes to. Fewer parts are Debezium's own topics (schema changes, transactions): no rows.
PATTERN = r"cdc\.[^.]+\.[^.]+\.[^.]+\..+"
FOLDER = "cdc"


@dataclass(frozen=True)
class Capture:
    """One captured table. `name` is `<schema>.<table>`, of MongoDB `<database>.<collection>`."""

    tenant: str
    source: str
    name: str

    @classmethod
    def of_topic(cls, topic: str) -> Capture:
        """Raises ValueError for a topic of another form."""
        start, tenant, source, name = topic.split(".", 3)
        if start != FOLDER or "." not in name:
            raise ValueError(f"{topic} is not a topic of change data")
        return cls(tenant, source, name)

    @classmethod
    def of_path(cls, path: str) -> Capture:
        """Raises ValueError for a path of another form."""
        start, tenant, source, name = path.split("/")
        if start != FOLDER or "." not in name:
            raise ValueError(f"{path} is not a table of change data")
        return cls(tenant, source, name)

    @property
    def topic(self) -> str:
        return f"{FOLDER}.{self.tenant}.{self.source}.{self.name}"

    @property
    def path(self) -> str:
        """The table's place in the lake."""
        return f"{FOLDER}/{self.tenant}/{self.source}/{self.name}"
