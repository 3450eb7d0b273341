"""Which assets bear which tags, of a whole tenant, as the lake has it."""

from __future__ import annotations

from collections import defaultdict

from lily_api.lake.tables import ASSETS, Tables, literal
from lily_common import events as ev
from lily_common.state import DELETED, SEPARATOR

_TAGS = f"tag{SEPARATOR}"
#: After every register of a tag, in the order of text.
_AFTER = _TAGS[:-1] + chr(ord(SEPARATOR) + 1)


class TagReader:
    """Reads for one process; see `Tables` for errors."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def version(self) -> int | None:
        """The version of the table that `tags` would read; None when there is none yet."""
        with self._tables.snapshot(ASSETS) as table:
            return None if table is None else int(table.version())

    def tags(self, tenant: str) -> dict[str, list[str]]:
        """Qualified name -> its effective tags by name, of the assets that have any."""
        rows = self._tables.scan(
            ASSETS,
            ["subject", "register", "type", "version"],
            f"tenant = {literal(tenant)} AND (register = {literal(DELETED)}"
            f" OR (register >= {literal(_TAGS)} AND register < {literal(_AFTER)}))",
        )
        graves: dict[str, str] = {}
        held: defaultdict[str, dict[str, tuple[str, bool]]] = defaultdict(dict)
        for subject, register, kind, version in rows:
            if register == DELETED:
                graves[subject] = max(version, graves.get(subject, ""))
            elif version > held[subject].get(register, ("", False))[0]:
                held[subject][register] = (version, kind == ev.TAG_ATTACHED)
        found = {
            subject: sorted(
                {
                    register.split(SEPARATOR)[1]
                    for register, (version, live) in registers.items()
                    if live and version > graves.get(subject, "")
                }
            )
            for subject, registers in held.items()
        }
        return {subject: tags for subject, tags in sorted(found.items()) if tags}
