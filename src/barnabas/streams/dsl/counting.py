# cython: language_level=3, annotation_typing=False
"""The functions of counts, which the engine calls for each record."""

from __future__ import annotations

from typing import Any


def zero() -> int:
    """Begin a count."""
    return 0


def one_more(key: Any, value: Any, aggregate: int) -> int:
    """Count a record."""
    return aggregate + 1


def one_less(key: Any, value: Any, aggregate: int) -> int:
    """Take a record from a count."""
    return aggregate - 1


def both_counts(key: Any, first: int, second: int) -> int:
    """Merge the counts of two sessions."""
    return first + second
