"""Who wants a notice: filters in the dialects of the CloudEvents Subscriptions API, compiled to plain functions.

A filter is an object with one dialect: `exact`, `prefix`, `suffix` (attribute → string, all must hold), `all`, `any` (lists
of filters), `not` (a filter). A list of filters holds when all of them do. `sql` (CESQL) is optional in the specification
and not supported. https://github.com/cloudevents/spec/blob/main/subscriptions/spec.md#324-filters

Extension of Lily: beside context attributes, `data.<field>` (and deeper, `data.properties.team`) names a field of the
payload, e.g. `{"exact": {"data.tag": "PII"}}`; and `{"policy": "tell-privacy"}` holds for tags that the tenant's policy of
that name, of the action notify, is about (`*`: any such policy). Numbers and booleans compare by their JSON text; a list holds when one of
its items does. An absent attribute matches nothing (under `not`, everything).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from lily_common.errors import FieldError, InvalidInputError
from lily_common.events import FANOUT_TYPES
from lily_common.policies.model import NAME_PATTERN
from lily_connectors.egress.explaining import POLICIES, notified_by

Predicate = Callable[[Mapping[str, Any]], bool]

MAX_DEPTH: Final = 8
MAX_NODES: Final = 64
MAX_TEXT: Final = 2048
_ATTRIBUTE = re.compile(r"^[a-z0-9]{1,40}$")
_DATA_PATH = re.compile(r"^data(\.[^.\x00-\x1f\x7f]{1,256}){1,8}$")
_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "exact": str.__eq__,
    "prefix": str.startswith,
    "suffix": str.endswith,
}
_DIALECTS = (*_TESTS, "all", "any", "not", "policy")


def check_types(types: Sequence[str], where: str = "types") -> None:
    """Raise InvalidInputError (422) naming each type that fan-out does not carry."""
    errors = [
        FieldError(
            f"{where}[{index}]", f"'{name[:100]}' is not carried; expected one of: {', '.join(FANOUT_TYPES)}"
        )
        for index, name in enumerate(types)
        if name not in FANOUT_TYPES
    ]
    if errors:
        raise InvalidInputError(f"{errors[0].field}: {errors[0].message}", errors, code="type-not-carried")


def compile_filters(filters: Sequence[Any]) -> Predicate:
    """One function for the whole list. Raises InvalidInputError (422) naming the wrong place."""
    budget = iter(range(MAX_NODES))
    tests = [_compile(item, f"filters[{index}]", 1, budget) for index, item in enumerate(filters)]
    return _all(tests)


def _wrong(where: str, message: str) -> InvalidInputError:
    return InvalidInputError(f"{where}: {message}", [FieldError(where, message)], code="invalid-filter")


def _compile(item: Any, where: str, depth: int, budget: Iterator[int]) -> Predicate:
    if depth > MAX_DEPTH:
        raise _wrong(where, f"filters nest at most {MAX_DEPTH} deep")
    if next(budget, None) is None:
        raise _wrong(where, f"at most {MAX_NODES} filters in one subscription")
    if not isinstance(item, dict) or len(item) != 1:
        raise _wrong(where, f"must be an object with exactly one of: {', '.join(_DIALECTS)}")
    dialect, body = next(iter(item.items()))
    where = f"{where}.{dialect}"
    if dialect in _TESTS:
        return _compile_text(dialect, body, where)
    if dialect in ("all", "any"):
        if not isinstance(body, list) or not body:
            raise _wrong(where, "must be a non-empty list of filters")
        tests = [_compile(part, f"{where}[{index}]", depth + 1, budget) for index, part in enumerate(body)]
        return _all(tests) if dialect == "all" else _any(tests)
    if dialect == "not":
        inner = _compile(body, where, depth + 1, budget)
        return lambda event: not inner(event)
    if dialect == "policy":
        return _compile_policy(body, where)
    if dialect == "sql":
        raise _wrong(where, "the CESQL dialect is not supported; use exact, prefix, suffix, all, any and not")
    raise _wrong(where, f"unknown dialect; expected one of: {', '.join(_DIALECTS)}")


def _compile_policy(name: Any, where: str) -> Predicate:
    if not isinstance(name, str) or not (name == "*" or re.fullmatch(NAME_PATTERN, name)):
        raise _wrong(where, "must be the name of a policy, or * for any")

    def holds(event: Mapping[str, Any]) -> bool:
        names = notified_by(event.get(POLICIES))
        return bool(names) if name == "*" else name in names

    return holds


def _compile_text(dialect: str, body: Any, where: str) -> Predicate:
    if not isinstance(body, dict) or not body:
        raise _wrong(where, "must be an object of attribute → string")
    tests: list[Predicate] = []
    for name, wanted in body.items():
        if not (_ATTRIBUTE.match(name) and name != "data") and not _DATA_PATH.match(name):
            raise _wrong(
                f"{where}.{name[:100]}", "is neither a CloudEvents attribute nor a path such as data.tag"
            )
        if not isinstance(wanted, str) or not wanted or len(wanted) > MAX_TEXT:
            raise _wrong(f"{where}.{name}", f"must be a non-empty string of at most {MAX_TEXT} characters")
        if dialect == "exact" and name == "type" and wanted.startswith("lily."):
            check_types([wanted], f"{where}.{name}")
        tests.append(_text_test(tuple(name.split(".")), _TESTS[dialect], wanted))
    return _all(tests)


def _text_test(path: tuple[str, ...], test: Callable[[str, str], bool], wanted: str) -> Predicate:
    def holds(event: Mapping[str, Any]) -> bool:
        value: Any = event
        for step in path:
            if not isinstance(value, Mapping) or step not in value:
                return False
            value = value[step]
        return any(test(_as_text(one), wanted) for one in (value if isinstance(value, list) else [value]))

    return holds


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _all(tests: Sequence[Predicate]) -> Predicate:
    if len(tests) == 1:
        return tests[0]
    return lambda event: all(test(event) for test in tests)


def _any(tests: Sequence[Predicate]) -> Predicate:
    return lambda event: any(test(event) for test in tests)
