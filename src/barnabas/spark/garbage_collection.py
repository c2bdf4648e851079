"""Garbage collection in Python workers that Spark uses for task after task."""

from __future__ import annotations

import gc
import os

#: In how many tasks more what is loaded is set apart: in a worker's second task too, for Spark itself loads pandas when
#: the first task of a sink is done (its message to the driver becomes an Arrow array).
_tasks_left = 2


def freeze_loaded_objects() -> None:
    """Exempt what this worker has loaded from garbage collection; a task calls it when its work is done.

    After each task Spark's daemon collects all generations. Without this it walks through every module, function and
    class, some 90,000 objects: about 40 ms of CPU, as much as writing 200,000 rows takes. Nothing is collected here
    first: what that would find is a few hundred objects.
    """
    global _tasks_left
    if _tasks_left and "SPARK_REUSE_WORKER" in os.environ:
        gc.freeze()
        _tasks_left -= 1
