"""What travels about incremental tables."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import Field

from lily_api.schemas import Output
from lily_common.gold.spec import NAME_PATTERN, TableSpec

TableName = Annotated[str, Path(pattern=NAME_PATTERN, description="The table's name")]

EXAMPLE: dict[str, Any] = {
    "description": "Every bill with its newest payment",
    "fact": "cdc.shop.public.bills",
    "dimensions": [
        {
            "source": "cdc.shop.public.payments",
            "on": {"bill_id": "id"},
            "join": "left",
            "pick": "latest by updated_at",
        }
    ],
    "select": {
        "bill_id": "bills.id",
        "bill_amount": "bills.amount",
        "created_at": "bills.created_at",
        "payment_id": "payments.id",
        "payment_status": "payments.status",
        "paid_at": "payments.paid_date",
    },
    "key": ["bill_id"],
    "interval": "60s",
    "full_refresh": "7d",
}
EXAMPLE_YAML = """\
fact: cdc.shop.public.bills
dimensions:
  - source: cdc.shop.public.payments
    on: {bill_id: id}
    pick: latest by updated_at
select:
  bill_id: bills.id
  bill_amount: bills.amount
  payment_status: payments.status
  paid_at: payments.paid_date
key: [bill_id]
interval: 60s
"""


class RefreshView(Output):
    """How a refresh went."""

    status: Literal["succeeded", "failed"]
    at: datetime
    detail: dict[str, Any] = Field(
        description="`mode` (incremental, full), `rows` written and removed, facts `touched`, `seconds`, …; or `error`",
        examples=[{"mode": "incremental", "facts": 12, "upserted": 11, "removed": 1, "seconds": 0.8}],
    )


class TableView(Output):
    name: str = Field(examples=["bills_extended"])
    builtin: bool = Field(description="On Lily's own data: there for every tenant, and not to be changed")
    declaration: TableSpec = Field(examples=[EXAMPLE | {"name": "bills_extended"}])
    created_by: str | None = Field(None, description="Who declared it; null for a built-in table")
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last_refresh: RefreshView | None = Field(None, description="Null until the lake job has told of one")
