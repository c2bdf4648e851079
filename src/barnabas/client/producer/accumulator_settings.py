"""The settings that the RecordAccumulator reads (AccumulatorSettings)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.network.exponential_backoff import ExponentialBackoff


class AccumulatorSettings(NamedTuple):
    """How batches are made, and when they are due; sizes in bytes, times in seconds.

    `compresses` says that a builder compresses what it holds, so that batches are smaller than their records.
    `before_append` names the serializers of keys and values, and the partitioner, for `anatomy`.
    """

    batch_size: int
    linger: float
    delivery_timeout: float
    retry_backoff: ExponentialBackoff
    adaptive_partitioning: bool = True
    availability_timeout: float = 0.0
    compresses: bool = False
    client_id: str = ""
    before_append: tuple[str, str, str] = ("", "", "")
