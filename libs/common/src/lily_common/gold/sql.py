"""What an expression of a declaration may be: columns, literals, operators and the functions named here.

An expression runs in the lake job, which can read every tenant's tables. So nothing is refused by name: what is not
allowed here does not run. The lake job checks the parsed expression once more against `FUNCTIONS`, with Spark's own
parser (`lily_spark.gold.expressions`), as two parsers may differ in what they see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

MAX_LENGTH = 2_000
AGGREGATES = frozenset(
    {"avg", "bool_and", "bool_or", "count", "count_if", "every", "max", "mean", "min", "some", "sum"}
)
#: Deterministic, without side effects, and no larger in their result than their arguments are.
SCALARS = frozenset(
    """
    abs add_months array_contains ascii bigint boolean bround cardinality cast ceil char ceiling coalesce concat concat_ws
    contains date date_add date_diff date_format date_from_unix_date date_sub date_trunc datediff day dayofmonth
    dayofweek dayofyear decimal double element_at endswith exp extract float floor from_unixtime get_json_object greatest
    hash hour if ifnull initcap instr int isnan isnotnull isnull json_array_length last_day lcase least left length
    levenshtein ln locate log log10 log2 lower ltrim make_date md5 minute mod month months_between nanvl next_day
    nullif nvl nvl2 pmod numeric position pow power quarter replace reverse right round rtrim second sha2 sign
    signum size smallint split_part sqrt startswith string substr substring substring_index timestamp timestamp_micros
    timestamp_millis timestamp_seconds tinyint to_date to_timestamp to_unix_timestamp to_utc_timestamp translate trim
    trunc try_add try_cast try_divide try_element_at try_multiply try_subtract try_to_timestamp ucase unix_date
    unix_micros unix_millis unix_seconds upper varchar weekday weekofyear xxhash64 year from_utc_timestamp
    """.split()  # noqa: SIM905
)
FUNCTIONS = SCALARS | AGGREGATES

#: Words that an opening parenthesis may follow without its being a call.
_WORDS = frozenset(
    {"in", "and", "or", "not", "when", "then", "else", "between", "like", "is", "case", "distinct", "from"}
)
_REFUSED: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Query, "a subquery"),
    (exp.Subquery, "a subquery"),
    (exp.Table, "a table"),
    (exp.Window, "a window function"),
    (exp.Lambda, "a lambda"),
    (exp.Command, "a statement"),
    (exp.DDL, "a statement"),
    (exp.DML, "a statement"),
    (exp.Placeholder, "a parameter"),
    (exp.Parameter, "a parameter"),
    (exp.SessionParameter, "a parameter"),
    (exp.Alias, "an alias"),
    (exp.CurrentDate, "the time of the refresh"),
    (exp.CurrentTimestamp, "the time of the refresh"),
    (exp.CurrentUser, "the user"),
    (exp.Exists, "a subquery"),
)


class ExpressionError(ValueError):
    """What is wrong with an expression, for its author."""


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column as an expression names it; `table` is empty where it does not say."""

    table: str
    column: str


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that is allowed. `plain` is its column when it is nothing but that."""

    text: str
    columns: frozenset[ColumnRef]
    aggregates: bool
    plain: ColumnRef | None


def parse(text: str) -> Expression:
    """Check one expression in Spark's dialect. Raises ExpressionError."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression has at most {MAX_LENGTH} characters")
    tokens, tree = _parsed(text)
    functions = set(_functions(tokens))
    for unknown in sorted(functions - FUNCTIONS):
        raise ExpressionError(f"the function {unknown} is not allowed in a declaration")
    for node in tree.walk():
        _check(node)
    columns = frozenset(_column(node) for node in tree.find_all(exp.Column))
    plain = _column(tree) if isinstance(tree, exp.Column) else None
    return Expression(text.strip(), columns, bool(functions & AGGREGATES), plain)


def _parsed(text: str) -> tuple[list[Token], exp.Expr]:
    try:
        tokens = sqlglot.tokenize(text, read="spark")
        trees = sqlglot.parse(text, read="spark")
    except SqlglotError as broken:
        raise ExpressionError(f"not an expression: {str(broken).splitlines()[0][:200]}") from None
    except RecursionError:
        raise ExpressionError("the expression is nested too deeply") from None
    if any(token.comments for token in tokens) or "--" in text or "/*" in text:
        raise ExpressionError("an expression holds no comments")
    if len(trees) != 1 or not isinstance(trees[0], exp.Expr):
        raise ExpressionError("one expression is wanted")
    return tokens, trees[0]


def _functions(tokens: list[Token]) -> Iterator[str]:
    """Names, in lower case, of all that stands before an opening parenthesis as a call does."""
    for token, following in pairwise(tokens):
        named = token.text.replace("_", "a").isalnum() and token.token_type is not TokenType.NUMBER
        if following.token_type is TokenType.L_PAREN and named and token.text.lower() not in _WORDS:
            yield token.text.lower()


def _check(node: exp.Expr) -> None:
    for kind, what in _REFUSED:
        if isinstance(node, kind):
            raise ExpressionError(f"{what} is not allowed in a declaration")
    if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
        raise ExpressionError("* is allowed in count(*) alone: name the columns")
    if isinstance(node, exp.Dot):
        raise ExpressionError("a column is <table>.<column>; for what is inside of it use get_json_object")


def _column(node: exp.Column) -> ColumnRef:
    if node.args.get("db") is not None or node.args.get("catalog") is not None:
        raise ExpressionError(f"{node.sql()}: a column is <table>.<column>")
    return ColumnRef(node.table, node.name)
