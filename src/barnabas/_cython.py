"""Stands in for the `cython` module where compiled modules run uncompiled and Cython is not installed.

Modules import it so: `try: import cython` / `except ImportError: from barnabas import _cython as cython`.
Every declaration becomes a no-op; `cython.compiled` is False.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

compiled = False


def _identity(function: Any) -> Any:
    return function


def _decorator(*_arguments: Any, **_settings: Any) -> Callable[[Any], Any]:
    return _identity


class _NoGil:
    def __enter__(self) -> None: ...

    def __exit__(self, *_exception: object) -> None: ...

    def __call__(self, function: Any) -> Any:
        return function


cfunc = ccall = cclass = inline = final = no_gc = _identity
boundscheck = cdivision = exceptval = freelist = locals = returns = wraparound = _decorator
nogil = _NoGil()


def warn_of_slowness() -> None:
    """Say once that the hot paths run uncompiled, unless BARNABAS_UNCOMPILED asks for just that."""
    import os
    import warnings

    if "BARNABAS_UNCOMPILED" not in os.environ:
        warnings.warn(
            "barnabas runs uncompiled, ten times slower and more: this platform has no compiled wheel, or the "
            "extensions were not built (pip install barnabas where a C compiler is present, or ./run setup in a clone)",
            RuntimeWarning,
            stacklevel=2,
        )


def declare(_type: Any = None, value: Any = None, **_settings: Any) -> Any:
    """Return the start value; the type means nothing here."""
    return value


def cast(_type: Any, value: Any, **_settings: Any) -> Any:
    """Return the value unchanged."""
    return value


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return object
