"""Recipes few enough to build and read, in which every pair of features meets.

1. For every two features that can be in one table, some recipe has both.
2. Same features in, same recipes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import TypeAlias

from tests.interop.features import BY_NAME, FEATURES, Recipe, ordered

Level: TypeAlias = tuple[str, str | None]  # a group, and its feature in the table, or none of it
Pair: TypeAlias = frozenset[Level]


def covering(names: Iterable[str]) -> list[Recipe]:
    """Recipes of these features in which every pair that can meet does."""
    groups = _groups(names)
    missing = dict.fromkeys(_pairs(groups))
    recipes = []
    while missing:
        made = _complete(dict(next(iter(missing))), groups, missing)
        for pair in combinations(made.items(), 2):
            missing.pop(frozenset(pair), None)
        recipes.append(frozenset(name for name in made.values() if name is not None))
    return recipes


def met(recipes: Iterable[Recipe]) -> set[frozenset[str]]:
    """The pairs of features that are together in some recipe."""
    return {frozenset(pair) for made in recipes for pair in combinations(sorted(made), 2)}


def possible(names: Iterable[str]) -> set[frozenset[str]]:
    """The pairs of features that can be together in a recipe of these features."""
    return {frozenset(name for _, name in pair if name) for pair in _pairs(_groups(names))}


def _groups(names: Iterable[str]) -> dict[str, list[str | None]]:
    """The levels of each group; what needs something that is not there is left out."""
    groups: dict[str, list[str | None]] = {}
    for name in ordered(names):
        groups.setdefault(BY_NAME[name].group or name, [None]).append(name)
    here = {name for levels in groups.values() for name in levels if name} | groups.keys()
    return {
        group: kept
        for group, levels in groups.items()
        if len(kept := [name for name in levels if name is None or BY_NAME[name].needs <= here]) > 1
    }


def _pairs(groups: Mapping[str, list[str | None]]) -> Iterator[Pair]:
    for (a, of_a), (b, of_b) in combinations(groups.items(), 2):
        for one, other in product(of_a, of_b):
            if one is not None and other is not None and _allowed({a: one, b: other}):
                yield frozenset(((a, one), (b, other)))


def _complete(
    made: dict[str, str | None], groups: Mapping[str, list[str | None]], missing: Mapping[Pair, None]
) -> dict[str, str | None]:
    """A start made whole: each group takes the level that brings the most missing pairs."""
    for group, levels in groups.items():
        if group in made:
            continue
        fitting = [level for level in levels if _allowed({**made, group: level})]
        made[group] = max(
            fitting, key=lambda level: sum(frozenset(((group, level), other)) in missing for other in made.items())
        )
    return {group: made[group] for group in groups}


def _allowed(made: Mapping[str, str | None]) -> bool:
    """Whether nothing is there without what it needs; a group that is not chosen yet may still bring it."""
    for name in made.values():
        for need in BY_NAME[name].needs if name is not None else ():
            group = next(f.group or f.name for f in FEATURES if need in (f.name, f.group))
            if made.get(group, need) is None:
                return False
    return True
