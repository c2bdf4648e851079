"""A metric of the application's own that goes out with a client's telemetry (KIP-1076)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

_NO_TAGS: Mapping[str, str] = MappingProxyType({})


class KafkaMetric(NamedTuple):
    """A number with a name, for `register_metric_for_subscription`.

    `value` is called for every push, from the thread that sends. `is_total` tells that the number only grows, which is
    then told as a sum; otherwise it is a gauge.
    """

    name: str
    group: str
    value: Callable[[], float]
    tags: Mapping[str, str] = _NO_TAGS
    is_total: bool = False
