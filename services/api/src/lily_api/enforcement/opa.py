"""Trino's questions, as its OPA plugin asks them, answered from a tenant's policies and effective tags. Pure.

Form of the questions: https://trino.io/docs/476/security/opa-access-control.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lily_common.policies import sql
from lily_common.policies.decide import Decision, decide
from lily_common.policies.mapping import Mapping, resolve
from lily_common.policies.model import Action, Mask, Policy, Who

#: Operations that change a table's rows or what it is.
_WRITES = frozenset(
    {
        "InsertIntoTable",
        "DeleteFromTable",
        "UpdateTableColumns",
        "TruncateTable",
        "CreateTable",
        "DropTable",
        "RenameTable",
        "SetTableProperties",
        "SetTableComment",
        "SetColumnComment",
        "AddColumn",
        "AlterColumn",
        "DropColumn",
        "RenameColumn",
        "SetTableAuthorization",
        "ExecuteTableProcedure",
        "CreateMaterializedView",
        "RefreshMaterializedView",
        "DropMaterializedView",
        "RenameMaterializedView",
        "SetMaterializedViewProperties",
    }
)
#: What makes a view that shows its owner's rows to others: the masks of whoever asks would not hold in it.
_LENDING = frozenset({"CreateViewWithSelectFromColumns"})
_READS = frozenset({"SelectFromColumns"})
#: What a table is known by: a view in place of another would be taken for it.
_VIEWS = frozenset({"CreateView", "DropView", "RenameView", "SetViewAuthorization"})
#: A catalog's own functions and procedures read past masks (`table_changes`, `query`) or give tables other names.
_ROUTINES = frozenset({"ExecuteFunction", "ExecuteProcedure", "CreateViewWithExecuteFunction"})
#: Whoever renames a schema gives its tables names that no mapping knows.
_SCHEMAS = frozenset({"RenameSchema", "DropSchema", "SetSchemaAuthorization"})
_CATALOGS = frozenset({"CreateCatalog", "DropCatalog"})
_LESS = (Action.MASK, Action.DENY, Action.FILTER)
_NOTHING = Mask()
#: `orders$transactions`
_INNER = "$"

Tags = Callable[[str], frozenset[str]]


@dataclass(frozen=True)
class Enforcer:
    """One tenant at one moment. `tags` gives an asset's effective tags.

    `blind` says that the tags may be out of date: tables whose mapping is to be closed then show nothing. `operators`
    are the users who may do what masks do not reach.
    """

    policies: list[Policy]
    mappings: list[Mapping]
    tags: Tags
    blind: bool = False
    operators: frozenset[str] = frozenset()

    def allows(self, given: dict[str, Any]) -> bool:
        """Whether the action of a question may be done."""
        action = given["action"]
        return self._allows(_who(given), action["operation"], action.get("resource") or {})

    def allowed(self, given: dict[str, Any]) -> list[int]:
        """Numbers of the resources of a batched question that may be seen."""
        who, action = _who(given), given["action"]
        operation, resources = action["operation"], action.get("filterResources") or []
        if operation == "FilterColumns" and len(resources) == 1:
            table = resources[0]["table"]
            columns = table.get("columns") or []
            return [number for number, column in enumerate(columns) if self._sees(who, table, [column])]
        return [number for number, resource in enumerate(resources) if self._allows(who, operation, resource)]

    def filters(self, given: dict[str, Any]) -> list[dict[str, str]]:
        """The conditions on the rows of a table."""
        who = _who(given)
        table = given["action"]["resource"]["table"]
        mapped = self._mapped(table)
        if mapped is None or _is_inner(table):
            return []
        mapping, asset = mapped
        own = () if mapping.rows is None else (mapping.rows,)
        conditions = (*own, *self._decide(who, asset).filters)
        return [{"expression": condition} for condition in dict.fromkeys(conditions)]

    def mask(self, given: dict[str, Any]) -> dict[str, str]:
        """The mask of a column; empty when it is shown."""
        return self._mask(_who(given), given["action"]["resource"]["column"])

    def masks(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        """The masks of the columns of a batched question, those that have one."""
        who = _who(given)
        columns = [resource["column"] for resource in given["action"].get("filterResources") or []]
        found = ((number, self._mask(who, column)) for number, column in enumerate(columns))
        return [{"index": number, "viewExpression": mask} for number, mask in found if mask]

    def _allows(self, who: Who, operation: str, resource: dict[str, Any]) -> bool:
        if operation in _ROUTINES:
            return self._operates(who, resource["function"]["catalogName"])
        if operation in _SCHEMAS:
            return self._operates(who, resource["schema"]["catalogName"])
        if operation in _CATALOGS:
            return who.user in self.operators or not self.mappings
        if operation == "ImpersonateUser":
            return resource["user"]["user"] == who.user or not self._is_shown_less(who)
        table = resource.get("table")
        if not isinstance(table, dict) or "tableName" not in table:
            return True
        mapped = self._mapped(table)
        if mapped is None:
            return True
        if operation in _WRITES and mapped[0].writes == "refuse":
            return False
        if operation in _LENDING:
            return False
        if operation in _VIEWS:
            return who.user in self.operators
        if operation in _READS:
            return self._sees(who, table, table.get("columns") or [])
        return True

    def _operates(self, who: Who, catalog: str) -> bool:
        """Whether `who` may do in the catalog what masks do not reach: operators, and anybody where nothing is mapped."""
        return who.user in self.operators or not any(mapping.covers(catalog) for mapping in self.mappings)

    def _sees(self, who: Who, table: dict[str, Any], columns: Iterable[str]) -> bool:
        """Whether the columns may be read at all, masked or not."""
        mapped = self._mapped(table)
        if mapped is None:
            return True
        mapping, asset = mapped
        if self._shut(mapping):
            return False
        if _is_inner(table):
            return who.user in self.operators
        names = [asset, *(f"{asset}/{column}" for column in columns if not column.startswith("$"))]
        return all(self._decide(who, name).allowed for name in names)

    def _mask(self, who: Who, column: dict[str, Any]) -> dict[str, str]:
        mapped = self._mapped(column)
        if mapped is None:
            return {}
        name, kind = column["columnName"], column.get("columnType", "varchar")
        if name.startswith("$"):
            mask = _NOTHING if self._shut(mapped[0]) or self._is_shown_less(who) else None
        elif self._shut(mapped[0]):
            mask = _NOTHING
        else:
            mask = self._decide(who, f"{mapped[1]}/{name}").mask
        return {} if mask is None else {"expression": sql.trino(mask, name, kind)}

    def _is_shown_less(self, who: Who) -> bool:
        """Whether `who` is ever shown less: a hidden column such as `$path` may hold what a partition's value is."""
        return any(
            policy.enabled and policy.mode == "enforce" and policy.action in _LESS
            for policy in self.policies
            if policy.concerns(who)
        )

    def _shut(self, mapping: Mapping) -> bool:
        return self.blind and mapping.when_stale == "closed"

    def _decide(self, who: Who, name: str) -> Decision:
        return decide(self.policies, self.tags(name), who)

    def _mapped(self, table: dict[str, Any]) -> tuple[Mapping, str] | None:
        name = table["tableName"]
        return resolve(
            self.mappings, table["catalogName"], table["schemaName"], name.partition(_INNER)[0] or name
        )


def _is_inner(table: dict[str, Any]) -> bool:
    """Whether it is a table within a table, whose columns are others: its log, its least and greatest values."""
    return _INNER in table["tableName"]


def _who(given: dict[str, Any]) -> Who:
    identity = given["context"]["identity"]
    return Who(
        user=identity["user"],
        groups=tuple(identity.get("groups") or ()),
        roles=tuple(identity.get("roles") or identity.get("enabledRoles") or ()),
    )
