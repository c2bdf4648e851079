"""Which failed queries are started again without asking."""

from __future__ import annotations

from barnabas.streams.spark.slow_starts import SlowStarts

LATE = RuntimeError("[STREAM_FAILED] Query [id = 1] terminated: Python worker failed to connect back. SQLSTATE: XXKST")


def test_a_worker_that_did_not_come_in_time_is_waited_for_again_but_not_for_ever() -> None:
    starts = SlowStarts(most=2)

    assert [starts.is_one(LATE, has_begun=False) for _ in range(3)] == [True, True, False]


def test_a_query_that_has_begun_or_failed_otherwise_is_a_matter_of_the_handler() -> None:
    starts = SlowStarts(most=1)

    assert not starts.is_one(RuntimeError("no such topic"), has_begun=False)
    assert not starts.is_one(LATE, has_begun=True)
    assert starts.is_one(LATE, has_begun=False), "the others did not count"
