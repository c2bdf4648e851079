"""Python workers that Spark uses for task after task."""

from __future__ import annotations

import gc

_is_settled = False


def settle() -> None:
    """Let no garbage collection look at what this process has loaded; to be called in a task that has done its work.

    After each task Spark's daemon collects all generations. Without this it walks through every module, function and
    class, some 80,000 objects: about 40 ms of CPU, as much as writing 200,000 rows takes.
    """
    global _is_settled
    if not _is_settled:
        gc.collect()
        gc.freeze()
        _is_settled = True
