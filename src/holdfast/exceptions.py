"""Conflicts under the names that delta-spark gives them, for code that catches those.

Each name is a class of `holdfast.errors`, not another one: what is raised is caught by either name. Nothing else has
two names, because nothing else of delta-spark's is caught by class.
"""

from __future__ import annotations

from holdfast.errors import ConcurrentAppend as ConcurrentAppendException
from holdfast.errors import ConcurrentCreate as ConcurrentWriteException
from holdfast.errors import ConcurrentDeleteDelete as ConcurrentDeleteDeleteException
from holdfast.errors import ConcurrentDeleteRead as ConcurrentDeleteReadException
from holdfast.errors import ConcurrentTransaction as ConcurrentTransactionException
from holdfast.errors import Conflict as DeltaConcurrentModificationException
from holdfast.errors import MetadataChanged as MetadataChangedException
from holdfast.errors import ProtocolChanged as ProtocolChangedException

__all__ = [
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "DeltaConcurrentModificationException",
    "MetadataChangedException",
    "ProtocolChangedException",
]
