"""Finds the metadata columns that a DELETE, UPDATE or MERGE uses in its conditions and values.

The user need not request them: a name that is no column of the table but that of a metadata column refers to it.

1. A column of the table wins over a metadata column; an unqualified name may also be a column of the source.
2. A metadata column that the table does not have is refused. In a subquery the name may belong to another table; there
   the column is only offered if it exists.
3. `_deleted` is not available, because a change applies to live rows.
4. Provisional ids (until a transaction commits) can be compared, but not stored as values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import pyarrow.compute as pc
from sqlglot import exp

from holdfast.errors import Invalid
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.metadata_columns import MetadataColumns
from holdfast.plan.scan.request import check_available, is_available
from holdfast.predicate.parse import name_parts, syntax_tree
from holdfast.rows import columns as names
from holdfast.rows.stamp import PROVISIONAL
from holdfast.schema.types import Struct

_NAMES = {**{name: name for name in names.METADATA_COLUMNS if name != names.DELETED}, **names.OTHER_SPELLINGS}
_WORD = re.compile(r"\w+")
_NOTHING = Struct(())


def metadata_used(
    texts: Iterable[str],
    snapshot: Snapshot,
    schema: Struct,
    alias: str | None = None,
    source: Struct = _NOTHING,
) -> MetadataColumns:
    """The metadata columns of a target that these texts use.

    `schema` has the columns of the target and `source` those of the source; `alias` is the target's in the texts.
    """
    canonical_names: dict[str, str] = {}
    for text in texts:
        for parts, certain in _references(text):
            name = _metadata_column(parts, alias, source)
            if name is None or schema.find(name) is not None:
                continue
            if certain:
                check_available(snapshot, _NAMES[name], name)
            if certain or is_available(snapshot, _NAMES[name]):
                canonical_names[name] = _NAMES[name]
    return MetadataColumns(canonical_names)


def refuse_provisional_ids(
    texts: Iterable[str],
    snapshot: Snapshot,
    metadata: MetadataColumns,
    alias: str | None = None,
    source: Struct = _NOTHING,
) -> None:
    """Refuse values computed from ids or versions of rows that the open transaction wrote."""
    bases = snapshot.files.column("base_row_id")
    tracked = {name for name, canonical in metadata.canonical.items() if canonical in names.NEEDS_TRACKING}
    if not tracked or not pc.any(pc.greater_equal(bases, PROVISIONAL)).as_py():
        return
    used = {_metadata_column(parts, alias, source) for text in texts for parts, _ in _references(text)}
    if unusable := sorted(tracked & used):
        raise Invalid(
            f"{unusable[0]} of rows that a transaction has written is known once it is committed: no value can be made "
            "of it before that; commit first, or make the value of other columns"
        )


def _metadata_column(parts: Sequence[str], alias: str | None, source: Struct) -> str | None:
    """The metadata column of the target that a reference means; None if it means another column."""
    words = [part.lower() for part in parts]
    if alias is not None and alias.lower() in words[:-1]:
        after = words[words.index(alias.lower()) + 1]
        return after if after in _NAMES else None
    return words[0] if words[0] in _NAMES and source.find(words[0]) is None else None


def _references(text: str) -> Iterator[tuple[list[str], bool]]:
    """The name parts of each reference in a text, and whether it certainly refers to this table."""
    if _NAMES.keys().isdisjoint(word.lower() for word in _WORD.findall(text)):
        return
    tree = syntax_tree(text)
    if tree is None:
        yield from (([word], False) for word in _WORD.findall(text))
        return
    queries: list[exp.Expr] = []
    for node in tree.dfs(prune=lambda n: bool(name_parts(n)) or isinstance(n, exp.Query)):
        if isinstance(node, exp.Query):
            queries.append(node)
        elif parts := name_parts(node):
            yield parts, True
    for query in queries:
        yield from ((parts, False) for node in query.find_all(exp.Column, exp.Dot) if (parts := name_parts(node)))
