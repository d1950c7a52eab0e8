"""Recipes in which all pairs meet: enough of them, none impossible, the same every time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.interop.features import BY_NAME, NAMES, Recipe, recipe
from tests.interop.pairs import covering, met, possible
from tests.support.depth import examples


def is_sound(made_of: Recipe) -> bool:
    groups = [BY_NAME[name].group for name in made_of if BY_NAME[name].group]
    there = made_of | set(groups)
    return len(set(groups)) == len(groups) and all(BY_NAME[name].needs <= there for name in made_of)


def test_every_pair_of_features_meets() -> None:
    recipes = covering(NAMES)
    assert all(map(is_sound, recipes))
    assert possible(NAMES) <= met(recipes)
    # Three groups have two features each that exclude each other; everything else can be together.
    assert len(possible(NAMES)) == len(NAMES) * (len(NAMES) - 1) // 2 - 3


@examples(50)
@given(st.sets(st.sampled_from(NAMES)))
def test_pairs_of_some_features_meet_in_tables_of_these_alone(names: set[str]) -> None:
    recipes = covering(names)
    assert all(made_of <= names and is_sound(made_of) for made_of in recipes)
    assert possible(names) <= met(recipes)
    assert covering(sorted(names, reverse=True)) == recipes


def test_a_feature_brings_what_it_needs() -> None:
    assert recipe("renamed") == {"renamed", "mapping_name"}
    assert recipe("renamed", "mapping_id") == {"renamed", "mapping_id"}
    assert all(is_sound(recipe(name)) for name in NAMES)
