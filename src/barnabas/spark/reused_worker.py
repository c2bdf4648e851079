"""Python workers that Spark uses for task after task."""

from __future__ import annotations

import gc
import os

_is_settled = False


def settle() -> None:
    """Let no garbage collection look at what this worker has loaded; to be called by a task that has done its work.

    After each task Spark's daemon collects all generations. Without this it walks through every module, function and
    class, some 90,000 objects: about 40 ms of CPU, as much as writing 200,000 rows takes. Nothing is collected here
    first: what that would find is a few hundred objects.
    """
    global _is_settled
    if not _is_settled and "SPARK_REUSE_WORKER" in os.environ:
        gc.freeze()
        _is_settled = True
