"""A logger that is loaded when there is something to say: logging costs 6 ms of every start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable


def lazy_logger(name: str) -> Callable[[], logging.Logger]:
    """Return what gives the logger of a module."""

    def logger() -> logging.Logger:
        import logging

        return logging.getLogger(name)

    return logger
