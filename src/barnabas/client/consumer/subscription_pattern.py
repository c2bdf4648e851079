"""A subscription by a regular expression that the brokers resolve."""

from __future__ import annotations

from typing import NamedTuple


class SubscriptionPattern(NamedTuple):
    """Every topic whose whole name matches this expression in RE2's syntax, found by the group's coordinator (KIP-848).

    Needs `group.protocol=consumer`. Unlike with an `re.Pattern`, which the consumer matches itself, no consumer has to
    know all topics of the cluster. Raises `InvalidRegularExpressionError` in `poll` for an expression that is none.
    """

    pattern: str
