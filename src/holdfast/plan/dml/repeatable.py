"""Whether expressions say the same of a row whenever they are asked, and nothing of other rows.

Only then can a transaction that lost a race be judged by asking them again of the rows that came meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from holdfast.predicate.parse import syntax_tree

_CHANGES = frozenset(
    (
        "current_date", "current_timestamp", "current_time", "curdate", "now", "localtimestamp", "unix_timestamp",
        "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "sequence_nextval",
        "monotonically_increasing_id", "spark_partition_id", "input_file_name", "input_file_block_start",
        "input_file_block_length", "holdfast_unreadable", "java_method", "reflect", "try_reflect", "ai_query",
    )
)  # fmt: skip


def is_repeatable(conditions: Sequence[str], values: Sequence[str]) -> bool:
    """Whether conditions may be asked again, and values were made of nothing but the rows they are of."""
    trees = [syntax_tree(text) for text in (*conditions, *values)]
    if any(tree is None or tree.find(exp.Query) is not None for tree in trees):
        return False
    return not any(_called(node) in _CHANGES for tree in trees[: len(conditions)] if tree for node in tree.walk())


def _called(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    if isinstance(node, exp.Column):
        return str(node.name).lower() if not node.table else ""  # a function without parentheses looks like a column
    return str(node.sql_name()).lower() if isinstance(node, exp.Func) else ""
