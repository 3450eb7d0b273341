"""The last word on an expression: Spark's own parser reads it, and every node of what it reads must be on a list."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from lily_common.gold.spec import TableSpec
from lily_common.gold.sql import FUNCTIONS

#: Classes of Catalyst's tree that compute from columns and literals and nothing else.
_NODES = frozenset(
    """
    Add And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Concat Divide EqualNullSafe EqualTo GreaterThan
    GreaterThanOrEqual ILike In IntegralDivide IsNotNull IsNull LessThan LessThanOrEqual Like Literal Multiply Not Or
    Remainder Subtract UnaryMinus UnaryPositive UnresolvedAttribute UnresolvedFunction UnresolvedBetween Between
    """.split()  # noqa: SIM905
)
_STAR = "UnresolvedStar"


class RefusedExpressionError(ValueError):
    """An expression that Spark reads as more than columns, literals, operators and allowed functions."""


def check_all(spark: SparkSession, spec: TableSpec) -> None:
    """Check every expression of the declaration. Raises RefusedExpressionError naming the field."""
    texts = {f"select.{name}": text for name, text in spec.select.items()}
    texts |= {f"aggregates.{name}": text for name, text in spec.aggregates.items()}
    if spec.where is not None:
        texts["where"] = spec.where
    for number, dimension in enumerate(spec.dimensions):
        texts |= {f"dimensions.{number}.aggregate.{name}": text for name, text in dimension.aggregate.items()}
    for field, text in texts.items():
        refused = _refused(spark, text)
        if refused is not None:
            raise RefusedExpressionError(f"{field}: {refused}")


@lru_cache(maxsize=4096)
def _refused(spark: SparkSession, text: str) -> str | None:
    """What is wrong with the expression; None when it may run."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    try:
        tree = parser.parseExpression(text)
    except Exception as broken:  # what py4j raises holds the parser's words
        return f"not an expression: {str(broken).splitlines()[0][:200]}"
    return _walk(tree, star_allowed=False)


def _walk(node: Any, *, star_allowed: bool) -> str | None:
    kind = node.getClass().getSimpleName()
    if kind == _STAR and star_allowed:
        return None
    if kind not in _NODES:
        return f"{kind} is not allowed in a declaration"
    name = ""
    if kind == "UnresolvedFunction":
        parts = node.nameParts()
        name = str(parts.apply(0)).lower()
        if parts.size() != 1 or name not in FUNCTIONS:
            return f"the function {name} is not allowed in a declaration"
    if kind == "UnresolvedAttribute" and node.nameParts().size() > 2:
        return "a column is <table>.<column>"
    children = node.children()
    for place in range(children.size()):
        refused = _walk(children.apply(place), star_allowed=name == "count")
        if refused is not None:
            return refused
    return None
