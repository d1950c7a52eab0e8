"""Metadata columns that a change names: in its condition, in those of its clauses, in the values it sets.

They need not be asked for: a name that is no column of the table and is that of a metadata column means it.

1. A column of the table wins, and without a qualifier also one of the source.
2. What is named and cannot be had (ids where rows are not tracked) is refused; inside of a subquery a name may be
   somebody else's, and is only offered.
3. `_deleted` is not among them: a change is about live rows.
4. Ids that are made up until a transaction commits are compared, and never stored as values.
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
    """The metadata columns of a target that these texts name, and the canonical name of each.

    `schema` has the columns of the target, `alias` is what the texts call it, and `source` has the columns beside it.
    """
    canonical_names: dict[str, str] = {}
    for text in texts:
        for parts, certain in _references(text):
            name = _named(parts, alias, source)
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
    """Refuse values made of ids or versions where rows have none yet, because they are written in this transaction."""
    bases = snapshot.files.column("base_row_id")
    tracked = {name for name, canonical in metadata.canonical.items() if canonical in names.NEEDS_TRACKING}
    if not tracked or not pc.any(pc.greater_equal(bases, PROVISIONAL)).as_py():
        return
    used = {_named(parts, alias, source) for text in texts for parts, _ in _references(text)}
    if unusable := sorted(tracked & used):
        raise Invalid(
            f"{unusable[0]} of rows that a transaction has written is known once it is committed: no value can be made "
            "of it before that; commit first, or make the value of other columns"
        )


def _named(parts: Sequence[str], alias: str | None, source: Struct) -> str | None:
    """The metadata column of the target that a reference means, if it does."""
    words = [part.lower() for part in parts]
    if alias is not None and alias.lower() in words[:-1]:
        after = words[words.index(alias.lower()) + 1]
        return after if after in _NAMES else None
    return words[0] if words[0] in _NAMES and source.find(words[0]) is None else None


def _references(text: str) -> Iterator[tuple[list[str], bool]]:
    """What a text refers to, part by part, and whether that is certain; nothing where no word is a name of ours."""
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
