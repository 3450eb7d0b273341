"""Identity of assets: qualified names and asset types.

A qualified name is unique in a tenant and hierarchical: `<platform>://<authority>/<part>/<part>…`, e.g.
`postgres://shop-db:5432/shop/public/customers/email`. `|` and control characters are not allowed: `|` separates
the parts of message keys and register keys.
"""

from __future__ import annotations

from enum import StrEnum

MAX_QUALIFIED_NAME_BYTES = 2048


class AssetType(StrEnum):
    """What an asset is; `other` with a `subtype` property for what is not listed."""

    DATABASE = "database"
    SCHEMA = "schema"
    TABLE = "table"
    VIEW = "view"
    COLUMN = "column"
    DASHBOARD = "dashboard"
    CHART = "chart"
    REPORT = "report"
    BI_FIELD = "bi_field"
    FIELD = "field"
    JOB = "job"
    PIPELINE = "pipeline"
    DATASET = "dataset"
    TOPIC = "topic"
    FILE = "file"
    BUCKET = "bucket"
    MODEL = "model"
    METRIC = "metric"
    DOMAIN = "domain"
    GLOSSARY_TERM = "glossary_term"
    USER = "user"
    GROUP = "group"
    OTHER = "other"


#: The ~90 % of an estate that may be eventually consistent.
BULK_ASSET_TYPES = frozenset({AssetType.COLUMN, AssetType.BI_FIELD, AssetType.FIELD})


def check_qualified_name(name: str) -> str | None:
    """None when `name` can be a qualified name, else what is wrong with it."""
    if not name:
        return "must not be empty"
    if len(name.encode("utf-8", "surrogatepass")) > MAX_QUALIFIED_NAME_BYTES:
        return f"must be at most {MAX_QUALIFIED_NAME_BYTES} bytes of UTF-8"
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in name):
        return "must not hold control characters (NUL included)"
    if any(0xD800 <= ord(char) <= 0xDFFF for char in name):
        return "must be valid Unicode (lone surrogate found)"
    if "|" in name:
        return "must not hold '|' (write it as %7C)"
    if name != name.strip():
        return "must not begin or end with white space"
    return None


def message_key(tenant: str, qualified_name: str) -> str:
    """Kafka key of everything about one asset: one partition, hence one order, per asset."""
    return f"{tenant}|{qualified_name}"


def parent_of(qualified_name: str) -> str | None:
    """The qualified name one level up, or None at the top (`scheme://authority`)."""
    head, sep, rest = qualified_name.partition("://")
    base = rest if sep else head
    if "/" not in base:
        return None
    return qualified_name.rsplit("/", 1)[0]
