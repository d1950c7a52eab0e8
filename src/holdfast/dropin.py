"""The first line of a program that was written for delta-spark: `import holdfast.dropin`.

It turns the drop-in on for every session of the process, as `holdfast.enable()` does, before anything imports `delta`.
"""

from __future__ import annotations

from holdfast._dropin.enabling import enable

enable()
