"""Tests whether expressions are deterministic and depend on one row only.

Only then can a transaction that lost a race be checked by evaluating them on the rows that were added meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from holdfast.predicate.parse import syntax_tree

_NOT_DETERMINISTIC = frozenset(
    (
        "current_date", "current_timestamp", "current_time", "curdate", "now", "localtimestamp", "unix_timestamp",
        "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "sequence_nextval",
        "monotonically_increasing_id", "spark_partition_id", "input_file_name", "input_file_block_start",
        "input_file_block_length", "holdfast_unreadable", "java_method", "reflect", "try_reflect", "ai_query",
    )
)  # fmt: skip


def is_repeatable(conditions: Sequence[str], values: Sequence[str]) -> bool:
    """Whether conditions can be evaluated again, and each value depends on its own row only."""
    trees = [syntax_tree(text) for text in (*conditions, *values)]
    if any(tree is None or tree.find(exp.Query) is not None for tree in trees):
        return False
    return not any(
        _function_name(node) in _NOT_DETERMINISTIC for tree in trees[: len(conditions)] if tree for node in tree.walk()
    )


def _function_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    if isinstance(node, exp.Column):
        return str(node.name).lower() if not node.table else ""  # a function without parentheses looks like a column
    return str(node.sql_name()).lower() if isinstance(node, exp.Func) else ""
