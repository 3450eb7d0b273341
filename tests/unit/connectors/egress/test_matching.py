"""Filters of the CloudEvents Subscriptions dialects, and how wrong ones are answered."""

from __future__ import annotations

from typing import Any

import pytest

from lily_common.errors import InvalidInputError
from lily_connectors.egress.matching import MAX_DEPTH, check_types, compile_filters

EVENT: dict[str, Any] = {
    "id": "1",
    "source": "urn:example:catalogue",
    "type": "lily.classification.attached",
    "subject": "postgres://db/shop/public/customers/email",
    "depth": 3,
    "tagpolicies": "mask-personal=mask, tell-privacy=notify",
    "data": {
        "tag": "PII",
        "depth": 2,
        "certain": True,
        "owners": ["ann", "bob"],
        "properties": {"team": "growth"},
    },
}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], True),
        ([{"exact": {"type": "lily.classification.attached"}}], True),
        ([{"exact": {"type": "lily.classification.attached", "source": "urn:other"}}], False),
        ([{"exact": {"data.tag": "PII"}}], True),
        ([{"exact": {"data.tag": "pii"}}], False),
        ([{"exact": {"data.properties.team": "growth"}}], True),
        ([{"exact": {"data.owners": "bob"}}], True),
        ([{"exact": {"data.depth": "2"}}], True),
        ([{"exact": {"data.certain": "true"}}], True),
        ([{"exact": {"missing": "x"}}], False),
        ([{"not": {"exact": {"missing": "x"}}}], True),
        ([{"exact": {"data.tag.deeper": "x"}}], False),
        ([{"prefix": {"subject": "postgres://db/shop/"}}], True),
        ([{"suffix": {"subject": "/email"}}], True),
        ([{"suffix": {"subject": "/email"}}, {"exact": {"data.tag": "GDPR"}}], False),
        ([{"any": [{"exact": {"data.tag": "GDPR"}}, {"exact": {"data.tag": "PII"}}]}], True),
        ([{"all": [{"exact": {"data.tag": "PII"}}, {"not": {"prefix": {"subject": "mysql:"}}}]}], True),
        ([{"policy": "tell-privacy"}], True),
        ([{"policy": "*"}], True),
        ([{"policy": "mask-personal"}], False),
        ([{"policy": "tell"}], False),
        ([{"not": {"policy": "tell-privacy"}}], False),
    ],
)
def test_filters(filters: list[Any], expected: bool) -> None:
    assert compile_filters(filters)(EVENT) is expected


def nested(depth: int) -> dict[str, Any]:
    return {"exact": {"id": "1"}} if depth == 1 else {"not": nested(depth - 1)}


@pytest.mark.parametrize(
    ("filters", "where"),
    [
        ([{"sql": "type = 'x'"}], "filters[0].sql"),
        ([{"regex": {"id": "x"}}], "filters[0].regex"),
        (["x"], "filters[0]"),
        ([{}], "filters[0]"),
        ([{"exact": {"id": "1"}, "prefix": {"id": "1"}}], "filters[0]"),
        ([{"exact": {}}], "filters[0].exact"),
        ([{"exact": {"id": 1}}], "filters[0].exact.id"),
        ([{"prefix": {"id": ""}}], "filters[0].prefix.id"),
        ([{"exact": {"Not-An-Attribute": "1"}}], "filters[0].exact.Not-An-Attribute"),
        ([{"exact": {"data": "1"}}], "filters[0].exact.data"),
        ([{"exact": {"data..x": "1"}}], "filters[0].exact.data..x"),
        ([{"policy": {"name": "x"}}], "filters[0].policy"),
        ([{"policy": "Not A Name"}], "filters[0].policy"),
        ([{"any": []}], "filters[0].any"),
        ([{"all": [{"exact": {"id": "1"}}, {"bad": 1}]}], "filters[0].all[1].bad"),
        ([{"exact": {"type": "lily.asset.upserted"}}], "filters[0].exact.type[0]"),
        ([{"any": [{"exact": {"id": "1"}}] * 70}], "filters[0].any[63]"),
    ],
)
def test_wrong_filters_are_named(filters: list[Any], where: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        compile_filters(filters)
    assert refused.value.errors[0].field == where


def test_depth_is_bounded() -> None:
    compile_filters([nested(MAX_DEPTH)])
    with pytest.raises(InvalidInputError):
        compile_filters([nested(MAX_DEPTH + 1)])


def test_types_that_fanout_does_not_carry_are_refused() -> None:
    check_types(["lily.classification.attached", "lily.asset.deleted"])
    with pytest.raises(InvalidInputError) as refused:
        check_types(["lily.classification.attached", "lily.asset.upserted"])
    assert refused.value.status == 422
    assert refused.value.errors[0].field == "types[1]"
    assert "lily.asset.upserted" in refused.value.detail
