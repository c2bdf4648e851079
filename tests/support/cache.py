"""The user's cache, where what tests and benchmarks fetch or build stays; workers of one run share it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHES = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "barnabas"


@contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """The folder, made if it is missing; no other process has it meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
