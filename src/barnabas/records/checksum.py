"""CRC-32C, the checksum of record batches (RFC 3720, appendix B.4).

The `crc32c` package is the choice: it runs at memory speed, takes every buffer without a copy (`google-crc32c` takes
only `bytes`), and releases the interpreter lock for large ones. Its `__init__` loads a command line and the package
metadata, some 35 ms of start-up time, so only its extension module is loaded where that is possible.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any


def _load() -> Callable[..., int]:
    package = find_spec("crc32c")
    locations = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("_crc32c", locations) if locations is not None else None
    if spec is None or spec.loader is None:
        from crc32c import crc32c as function

        return function
    extension: Any = module_from_spec(spec)
    spec.loader.exec_module(extension)
    found: Callable[..., int] = extension.crc32c
    return found


crc32c: Callable[..., int] = _load()
"""`crc32c(data, value=0) -> int`: the checksum of `data`; `value` is the checksum of what came before it."""
