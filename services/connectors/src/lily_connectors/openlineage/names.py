"""Qualified names of OpenLineage datasets, columns and jobs, there and back without loss.

A dataset is (namespace, name), see the OpenLineage naming spec. Its qualified name is hierarchical:

    postgres://shop-db:5432   shop.public.customers   ->  postgres://shop-db:5432/shop/public/customers
    bigquery                  proj.sales.orders       ->  bigquery:///proj/sales/orders
    s3://lake                 raw/orders.parquet      ->  s3://lake/raw/orders.parquet
    file                      /tmp/shop/orders        ->  file:///tmp/shop/orders

- A namespace `scheme://authority` is written as it is. Any other is percent-encoded and followed by `://` with
  an empty authority, so that the first `/` after `://` always ends the namespace.
- Databases part their names with dots: those become `/`, and a real `/` becomes `%2F`. Other names keep both.
- File systems name by absolute path: its leading `/` is the one that ends the namespace. A name that is not as
  its scheme's usually are (relative there, absolute elsewhere) gets a first segment `%2E`, which encoding never makes.
- `%`, `|`, control characters, lone surrogates, and white space at either end are percent-encoded as UTF-8.
"""

from __future__ import annotations

import re
from typing import NamedTuple

JOB_SCHEME = "job"
_UNUSUAL = "%2E"
_HIERARCHICAL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/]+", re.DOTALL)
_ESCAPED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_UNSAFE = re.compile("[\x00-\x1f\x7f%|\ud800-\udfff]")
_UNSAFE_SEGMENT = re.compile("[\x00-\x1f\x7f%|/\ud800-\udfff]")
#: Schemes whose names are dotted paths of a catalogue: `database.schema.table`.
DOTTED_SCHEMES = frozenset(
    {
        "postgres",
        "postgresql",
        "mysql",
        "mariadb",
        "redshift",
        "snowflake",
        "bigquery",
        "trino",
        "presto",
        "hive",
        "oracle",
        "oceanbase",
        "db2",
        "crate",
        "sqlserver",
        "mssql",
        "cassandra",
        "teradata",
        "awsathena",
        "clickhouse",
        "databricks",
        "unitycatalog",
        "iceberg",
        "spanner",
        "vertica",
        "sqlite",
        "duckdb",
        "mongodb",
    }
)
#: Schemes whose names are absolute paths, with a leading `/`.
ROOTED_SCHEMES = frozenset({"file", "hdfs", "dbfs", "sftp", "ftp"})


class DatasetName(NamedTuple):
    """An OpenLineage dataset's or job's identity."""

    namespace: str
    name: str


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match.group().encode("utf-8", "surrogatepass"))


def _unescape(match: re.Match[str]) -> str:
    return bytes.fromhex(match.group().replace("%", "")).decode("utf-8", "surrogatepass")


def _decode(text: str) -> str:
    try:
        return _ESCAPED.sub(_unescape, text)
    except UnicodeDecodeError as invalid:
        raise ValueError(f"'{text}' holds an escape that is not UTF-8") from invalid


def _encode_segment(text: str) -> str:
    """A text as one segment of a qualified name: no `/`."""
    return _UNSAFE_SEGMENT.sub(_escape, text)


def _encode_namespace(namespace: str) -> str:
    """The namespace's part of the qualified name, up to and without the `/` that ends it."""
    scheme = namespace.partition("://")[0]
    if _HIERARCHICAL.fullmatch(namespace) and scheme != JOB_SCHEME:
        return _UNSAFE.sub(_escape, namespace)
    opaque = _encode_segment(namespace)
    return "%6Aob://" if opaque == JOB_SCHEME else f"{opaque}://"  # `job://` is the jobs'


def _decode_namespace(text: str) -> str:
    """Inverse of `_encode_namespace`."""
    return _decode(text.removesuffix("://") if text.endswith("://") else text)


def _split(qualified_name: str) -> tuple[str, str]:
    """(encoded namespace, encoded name). Raises ValueError when it is not of that form."""
    scheme, separator, rest = qualified_name.partition("://")
    authority, slash, path = rest.partition("/")
    if not separator or not slash:
        raise ValueError(f"'{qualified_name}' is not '<namespace>/<name>'")
    return f"{scheme}://{authority}", path


def _scheme(encoded_namespace: str) -> str:
    return encoded_namespace.partition("://")[0].lower()


def is_dotted(namespace: str) -> bool:
    """Whether the namespace's dataset names are dotted catalogue paths."""
    return _scheme(_encode_namespace(namespace)) in DOTTED_SCHEMES


def _trim(qualified_name: str) -> str:
    """White space at either end encoded, which a qualified name may not have."""
    stripped = qualified_name.strip()
    if stripped == qualified_name:
        return qualified_name
    start = qualified_name.index(stripped) if stripped else len(qualified_name)
    head, tail = qualified_name[:start], qualified_name[start + len(stripped) :]
    every = re.compile(".", re.DOTALL)
    return every.sub(_escape, head) + stripped + every.sub(_escape, tail)


def to_qualified_name(namespace: str, name: str) -> str:
    """The qualified name of the dataset (namespace, name)."""
    base = _encode_namespace(namespace)
    scheme = _scheme(base)
    if scheme in DOTTED_SCHEMES:
        return _trim(f"{base}/{_encode_segment(name).replace('.', '/')}")
    path = _UNSAFE.sub(_escape, name)
    if path.startswith("/") == (scheme in ROOTED_SCHEMES):
        return _trim(f"{base}{path}" if path.startswith("/") else f"{base}/{path}")
    return _trim(f"{base}/{_UNUSUAL}{path}" if path.startswith("/") else f"{base}/{_UNUSUAL}/{path}")


def from_qualified_name(qualified_name: str) -> DatasetName:
    """The dataset of a table's qualified name: inverse of `to_qualified_name`. Raises ValueError."""
    base, path = _split(qualified_name)
    namespace = _decode_namespace(base)
    scheme = _scheme(base)
    if scheme in DOTTED_SCHEMES:
        return DatasetName(namespace, _decode(path.replace("/", ".")))
    rooted = scheme in ROOTED_SCHEMES
    if path == _UNUSUAL or path.startswith(f"{_UNUSUAL}/"):
        rest = path[len(_UNUSUAL) :]
        return DatasetName(namespace, _decode(rest[1:] if rooted else rest))
    return DatasetName(namespace, _decode(f"/{path}" if rooted else path))


def catalogue_qualified_name(namespace: str, *path: str) -> str:
    """The qualified name of (database, schema, table) as a database's own catalogue has them.

    The same as that of the dotted dataset name, but for a part that itself holds a dot: OpenLineage cannot tell that dot
    from those between the parts, here it is `%2E`.
    """
    parts = (_encode_segment(part).replace(".", "%2E") for part in path)
    return _trim("/".join([_encode_namespace(namespace), *parts]))


def column_qualified_name(table: str, *path: str) -> str:
    """The qualified name of a column (or of a field nested in it) of the table with that qualified name."""
    return _trim("/".join([table, *(_encode_segment(part) for part in path)]))


def column_of(qualified_name: str) -> tuple[DatasetName, str]:
    """(dataset, column) of a top-level column's qualified name: inverse of `column_qualified_name`."""
    table, slash, column = qualified_name.rpartition("/")
    if not slash:
        raise ValueError(f"'{qualified_name}' is not '<table>/<column>'")
    return from_qualified_name(table), _decode(column)


def job_qualified_name(namespace: str, name: str) -> str:
    """`job://<namespace>/<name>`; a `/` of the namespace is encoded, those of the name are kept."""
    return _trim(f"{JOB_SCHEME}://{_encode_segment(namespace)}/{_UNSAFE.sub(_escape, name)}")


def job_of(qualified_name: str) -> DatasetName:
    """Inverse of `job_qualified_name`. Raises ValueError."""
    scheme, path = _split(qualified_name)
    if not scheme.startswith(f"{JOB_SCHEME}://"):
        raise ValueError(f"'{qualified_name}' is not a job")
    return DatasetName(_decode(scheme.removeprefix(f"{JOB_SCHEME}://")), _decode(path))
