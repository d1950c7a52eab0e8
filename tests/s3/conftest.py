from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from tests.s3.whole import whole_table
from tests.support.s3 import S3Server
from tests.support.tablesmith import Tablesmith

Place = Callable[[], Location]


@pytest.fixture(scope="session")
def place(s3: S3Server) -> Place:
    """New places in the bucket, one at each call."""
    numbers = itertools.count()
    return lambda: open_location(f"s3://{s3.bucket}/place {next(numbers)}/t", storage_options=s3.options)


@pytest.fixture(scope="session")
def whole(place: Place) -> Tablesmith:
    """The shared table; tests do not change it."""
    return whole_table(place())
