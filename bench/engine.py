"""The other end of `harness.Engine`: a loop that answers requests. It loads nothing, so that an engine's process weighs
what the engine weighs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any


def serve(calls: Mapping[str, Callable[..., Any]]) -> None:
    """Answer requests from standard input until it ends. What others print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        answers.write(json.dumps(calls[request.pop("call")](**request)) + "\n")
        answers.flush()
