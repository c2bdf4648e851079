"""Cutting off the end of a log, or all of it (UnifiedLog.truncateTo and truncateFullyAndStartAt; KIP-101).

Afterwards the log is what it would be without the part that was cut: segments, indexes, leader epochs, producers and
transactions, recovery point and high watermark. The order is what a crash leaves: the segments first and on the disk,
the leader epochs last. An epoch without records is dropped when the log is opened; records without their epoch would
pass for those of an earlier one, and never be found to differ from the leader's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.producer_recovery import rebuild_producer_state

if TYPE_CHECKING:
    from barnabas.broker.log.unified_log import UnifiedLog


def truncate_to(log: UnifiedLog, offset: int, now_ms: int) -> list[str]:
    """End the log at the offset, or where the batch begins in which it lies, as if nothing had followed.

    Gives the files, renamed, that are to be deleted after a delay. No checkpoint may name a later recovery point when
    this is called: `LogManager.truncate_to` sees to it. Raises `KafkaStorageError`.
    """
    log.check_online()
    if offset < log.local_log.segments.first.base_offset:
        return truncate_fully_and_start_at(log, offset)
    paths: list[str] = []
    try:
        if offset < log.log_end_offset:
            _report(log, offset)
            log.producer_state.delete_snapshots_after(offset)
            paths = log.local_log.truncate_to(offset)
            log.log_start_offset = min(log.log_start_offset, log.log_end_offset)
            _roll_back_producers(log, now_ms)
            log.update_high_watermark(log.high_watermark)
        # Also where there is nothing to cut: a leader that wrote nothing has left its epoch at the end.
        log.leader_epochs.truncate_from_end(log.log_end_offset)
    except OSError as error:
        raise log.fail(f"truncating to offset {offset}", error) from error
    return paths


def truncate_fully_and_start_at(log: UnifiedLog, offset: int) -> list[str]:
    """Drop everything and begin anew at the offset; see `truncate_to`."""
    log.check_online()
    _report(log, offset)
    try:
        log.producer_state.truncate_fully_and_start_at(offset)
        paths = log.local_log.truncate_fully_and_start_at(offset)
        log.leader_epochs.clear()
    except OSError as error:
        raise log.fail(f"starting anew at offset {offset}", error) from error
    log.log_start_offset = offset
    log.update_high_watermark(offset)
    return paths


def _roll_back_producers(log: UnifiedLog, now_ms: int) -> None:
    producers, end = log.producer_state, log.log_end_offset
    if not producers.producers and not producers.unreplicated_txns:
        # No producer is known at the end, so none has to be found again before it.
        producers.map_end_offset = end
        return
    for _ in rebuild_producer_state(producers, log.local_log.segments, log.log_start_offset, end, now_ms):
        pass


def _report(log: UnifiedLog, offset: int) -> None:
    from logging import INFO, WARNING, getLogger

    getLogger(__name__).log(
        WARNING if offset < log.high_watermark else INFO,
        "%s is truncated to offset %d; it ended at %d, with the high watermark at %d",
        log.topic_partition, offset, log.log_end_offset, log.high_watermark,
    )  # fmt: skip
