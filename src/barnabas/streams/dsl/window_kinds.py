"""What differs between kinds of windows: store, processor, serde of keys, and when a window closes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.streams.dsl.windows import SessionWindows, SlidingWindows, Windows
from barnabas.streams.emit_strategy import EmitStrategy
from barnabas.streams.engine.processors import (
    KStreamSessionWindowAggregate,
    KStreamSlidingWindowAggregate,
    KStreamWindowAggregate,
)
from barnabas.streams.serdes import SessionWindowedSerde, TimeWindowedSerde
from barnabas.streams.topology.materialized_internal import MaterializedInternal
from barnabas.streams.topology.stores import StoreBuilder


class WindowKind(NamedTuple):
    """The functions for one kind; `counts_twice` tells that Kafka's count takes a number more when it is unnamed."""

    store: Callable[[MaterializedInternal, Any, EmitStrategy], StoreBuilder]
    supplier: Callable[..., Any]
    key_serde: Callable[[Any, Any], Any]
    closes_after: Callable[[Any], int]
    counts_twice: bool


def window_kind(windows: Any) -> WindowKind:
    """Return what suits these windows. Raises TypeError for anything else."""
    for types, kind in _KINDS:
        if isinstance(windows, types):
            return kind
    raise TypeError(
        f"windowed_by needs Time-, Sliding-, Unlimited- or SessionWindows, or Windows of your own, not {windows!r}"
    )


def _sliding_store(internal: MaterializedInternal, windows: SlidingWindows, emit: EmitStrategy) -> StoreBuilder:
    return internal.sliding_window_store(windows.time_difference_ms, windows.grace_period_ms, emit)


def _session_store(internal: MaterializedInternal, windows: SessionWindows, emit: EmitStrategy) -> StoreBuilder:
    return internal.session_store(windows.inactivity_gap_ms, windows.grace_period_ms, emit)


def _time_store(internal: MaterializedInternal, windows: Windows, emit: EmitStrategy) -> StoreBuilder:
    return internal.window_store(windows.size_ms, windows.grace_period_ms, emit)


def _time_supplier(windows: Any, store: StoreBuilder, emit: EmitStrategy, begin: Any, add: Any, merge: Any) -> Any:
    return KStreamWindowAggregate(windows, store, emit, begin, add)


def _sliding_supplier(windows: Any, store: StoreBuilder, emit: EmitStrategy, begin: Any, add: Any, merge: Any) -> Any:
    return KStreamSlidingWindowAggregate(windows, store, emit, begin, add)


_KINDS: list[tuple[tuple[type, ...], WindowKind]] = [
    (
        (SessionWindows,),
        WindowKind(
            _session_store,
            KStreamSessionWindowAggregate,
            lambda serde, windows: None if serde is None else SessionWindowedSerde(serde),
            lambda windows: windows.grace_period_ms + windows.inactivity_gap_ms,
            True,
        ),
    ),
    (
        (SlidingWindows,),
        WindowKind(
            _sliding_store,
            _sliding_supplier,
            lambda serde, windows: None if serde is None else TimeWindowedSerde(serde, windows.time_difference_ms),
            lambda windows: windows.grace_period_ms,
            False,
        ),
    ),
    (
        (Windows,),
        WindowKind(
            _time_store,
            _time_supplier,
            lambda serde, windows: None if serde is None else TimeWindowedSerde(serde, windows.size_ms),
            lambda windows: windows.grace_period_ms,
            True,
        ),
    ),
]
