"""Which failed queries are started again without asking, and when."""

from __future__ import annotations

from barnabas.streams.spark.slow_starts import SlowStarts

LATE = RuntimeError("[STREAM_FAILED] Query [id = 1] terminated: Python worker failed to connect back. SQLSTATE: XXKST")


def delays(application: str, times: int) -> list[float]:
    starts = SlowStarts(application)
    return [starts.delay(LATE, has_begun=False) or 0.0 for _ in range(times)]


def test_a_worker_that_did_not_come_in_time_is_waited_for_again_but_not_for_ever() -> None:
    starts = SlowStarts("app", most=2)

    assert [starts.delay(LATE, has_begun=False) is None for _ in range(3)] == [False, False, True]


def test_applications_that_started_together_start_again_one_after_the_other() -> None:
    found = {application: delays(application, 6) for application in ("a", "b", "c")}

    assert len({times[0] for times in found.values()}) == 3
    for times in found.values():
        assert all(0.5 <= time <= 1.5 * 2**turn for turn, time in enumerate(times))
        assert times[-1] <= 30
        assert times == sorted(times)


def test_a_query_that_has_begun_or_failed_otherwise_is_a_matter_of_the_handler() -> None:
    starts = SlowStarts("app", most=1)

    assert starts.delay(RuntimeError("no such topic"), has_begun=False) is None
    assert starts.delay(LATE, has_begun=True) is None
    assert starts.delay(LATE, has_begun=False) is not None, "the others did not count"
