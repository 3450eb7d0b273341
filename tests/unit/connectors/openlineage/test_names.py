"""Names there and back without loss, and no two datasets with one name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lily_common.names import check_qualified_name
from lily_connectors.openlineage import names

#: Any text, and texts of the characters that mean something in names.
TEXTS = st.text(st.characters(), max_size=30) | st.text("ab./%|: \x00\n\ud800\u00a0é2EF", max_size=14)
SCHEMES = st.sampled_from(["postgres", "file", "s3", "job", "x", "hdfs", "a b", "POSTGRES"])
NAMESPACES = (
    TEXTS
    | st.builds("{}://{}".format, SCHEMES, TEXTS)
    | st.sampled_from(["file", "bigquery", "hive", "job", "", "postgres"])
)


@settings(max_examples=2000)
@given(NAMESPACES, TEXTS)
def test_dataset_there_and_back(namespace: str, name: str) -> None:
    qualified_name = names.to_qualified_name(namespace, name)
    assert names.from_qualified_name(qualified_name) == (namespace, name)
    assert check_qualified_name(qualified_name) is None


@settings(max_examples=1000)
@given(NAMESPACES, TEXTS, TEXTS)
def test_column_and_job_there_and_back(namespace: str, name: str, column: str) -> None:
    qualified_name = names.column_qualified_name(names.to_qualified_name(namespace, name), column)
    assert names.column_of(qualified_name) == ((namespace, name), column)
    assert names.job_of(names.job_qualified_name(namespace, name)) == (namespace, name)


@settings(max_examples=1000)
@given(NAMESPACES, TEXTS, NAMESPACES, TEXTS)
def test_no_two_things_share_a_name(namespace: str, name: str, other: str, other_name: str) -> None:
    first = names.to_qualified_name(namespace, name)
    if (namespace, name) != (other, other_name):
        assert first != names.to_qualified_name(other, other_name)
    assert first != names.job_qualified_name(other, other_name)


@pytest.mark.parametrize(
    ("namespace", "name", "expected"),
    [
        ("postgres://shop-db:5432", "shop.public.customers", "postgres://shop-db:5432/shop/public/customers"),
        ("bigquery", "proj.sales.orders", "bigquery:///proj/sales/orders"),
        ("s3://lake", "raw/orders.parquet", "s3://lake/raw/orders.parquet"),
        ("file", "/data/shop/orders", "file:///data/shop/orders"),
        ("hdfs://nn:8020", "/user/x", "hdfs://nn:8020/user/x"),
        ("kafka://broker:9092", "orders.v1", "kafka://broker:9092/orders.v1"),
        ("arn:aws:glue:eu-1:1", "table/db/t", "arn:aws:glue:eu-1:1:///table/db/t"),
    ],
)
def test_names_as_people_write_them(namespace: str, name: str, expected: str) -> None:
    assert names.to_qualified_name(namespace, name) == expected
    assert names.from_qualified_name(expected) == (namespace, name)


def test_a_catalogue_and_openlineage_name_one_table_alike() -> None:
    of_catalogue = names.catalogue_qualified_name("postgres://h:5432", "shop", "public", "customers")
    assert of_catalogue == names.to_qualified_name("postgres://h:5432", "shop.public.customers")


@pytest.mark.parametrize("text", ["", "postgres", "postgres://h", "job://a", "job://a/%FF"])
def test_what_is_no_name_is_said_so(text: str) -> None:
    for read in (names.from_qualified_name, names.job_of):
        with pytest.raises(ValueError, match=r"is not|not UTF-8"):
            read(text)
