"""The incremental tables that every tenant has: on Lily's own data, one Delta table for all tenants.

`tenant` is the first column of their keys; whoever reads them for a tenant restricts them to it.
"""

from __future__ import annotations

from functools import cache

from lily_common.gold.spec import TableSpec

#: Stands for the tenant where all tenants are meant. No tenant can be called so.
EVERYONE = "*"
GOLD = "gold"
#: Holds the built-in tables. No tenant can be called so.
BUILTIN_FOLDER = "every_tenant"

_ASSETS = {
    column: f"assets.{column}"
    for column in (
        "tenant",
        "qualified_name",
        "asset_type",
        "name",
        "database",
        "description",
        "owners",
        "tags",
        "open_incidents",
        "upstreams",
    )
}
_DECLARATIONS = (
    {
        "name": "asset_overview",
        "description": "Every asset with its owners, tags, open incidents and how many assets lie up and down the lineage",
        "fact": "silver.assets",
        "dimensions": [
            {
                "source": "silver.edges",
                "on": {"tenant": "tenant", "upstream": "qualified_name"},
                "aggregate": {"downstreams": "count(distinct qualified_name)"},
            }
        ],
        "select": _ASSETS | {"downstreams": "coalesce(edges.downstreams, 0)"},
        "key": ["tenant", "qualified_name"],
        "interval": "5m",
        "full_refresh": "7d",
    },
    {
        "name": "tag_coverage",
        "description": "By database: how many assets there are, and how many have an owner, a description or a tag",
        "fact": "silver.assets",
        "select": {
            "tenant": "assets.tenant",
            "database": "coalesce(assets.database, '')",
            "tagged": "size(assets.tags) > 0",
            "owned": "size(assets.owners) > 0",
            "described": "assets.description IS NOT NULL",
            "is_column": "assets.asset_type = 'column'",
        },
        "group_by": ["tenant", "database"],
        "aggregates": {
            "assets": "count(*)",
            "tagged_assets": "count_if(tagged)",
            "owned_assets": "count_if(owned)",
            "described_assets": "count_if(described)",
            "columns": "count_if(is_column)",
            "tagged_columns": "count_if(is_column AND tagged)",
            "coverage": "round(count_if(tagged) / count(*), 4)",
        },
        "interval": "5m",
        "full_refresh": "7d",
    },
)


@cache
def builtin() -> dict[str, TableSpec]:
    """The built-in tables by name."""
    return {spec.name: spec for spec in map(TableSpec.model_validate, _DECLARATIONS)}


def table_path(tenant: str, name: str) -> str:
    """The incremental table's place in the lake."""
    return f"{GOLD}/{BUILTIN_FOLDER if tenant == EVERYONE else tenant}/{name}"
