"""MockShareConsumer: a queue for the tests of programs, which delivers, takes back and forgets as brokers do."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import ShareConsumer
from barnabas.errors import IllegalArgumentError, IllegalStateError, InvalidRecordStateError, WakeupError
from barnabas.testing import MockShareConsumer


def queue(mode: str = "explicit", *values: str, **settings: Any) -> MockShareConsumer[str, str]:
    made: MockShareConsumer[str, str] = MockShareConsumer(mode, **settings)
    made.subscribe("t")
    made.add("t", 0, *(values or ("a", "b", "c")))
    return made


def delivered(made: MockShareConsumer[str, str]) -> list[tuple[str | None, int]]:
    return [(one.value, one.delivery_count) for one in made.poll()]


def said(made: MockShareConsumer[str, str]) -> list[tuple[int, str]]:
    return [(one.offset, str(one.type)) for one in made.acknowledged]


def test_it_has_the_methods_of_the_share_consumer() -> None:
    public = {name for name in dir(ShareConsumer) if not name.startswith("_")} - {"poll_arrow"}
    assert public <= set(dir(MockShareConsumer)), public - set(dir(MockShareConsumer))


def test_what_a_poll_has_brought_is_accepted_by_the_next_one() -> None:
    made = queue("implicit")
    assert delivered(made) == [("a", 1), ("b", 1), ("c", 1)]
    assert said(made) == []
    assert delivered(made) == []
    assert said(made) == [(0, "accept"), (1, "accept"), (2, "accept")]


def test_each_record_takes_its_own_way() -> None:
    made = queue("explicit", "a", "b", "c", "d")
    for record, kind in zip(made.poll(), ("accept", "release", "reject", "renew"), strict=True):
        made.acknowledge(record, kind)
    assert delivered(made) == [("d", 1)], "what is renewed comes before all others"
    made.acknowledge_offset(("t", 0), 3)
    assert delivered(made) == [("b", 2)]
    assert said(made) == [(0, "accept"), (1, "release"), (2, "reject"), (3, "renew"), (3, "accept")]


def test_a_record_is_given_up_after_so_many_deliveries() -> None:
    made = queue("explicit", "a", delivery_count_limit=2)
    for _ in range(2):
        for record in made.poll():
            made.acknowledge(record, "release")
    assert delivered(made) == []


def test_locks_end_and_close_gives_back() -> None:
    made = queue("implicit", "a", "b")
    made.poll()
    made.end_locks()
    assert delivered(made) == [("a", 2), ("b", 2)]
    made.close()
    assert said(made) == []
    with pytest.raises(IllegalStateError, match="closed"):
        made.poll()


def test_what_is_not_acknowledged_keeps_explicit_programs_from_polling() -> None:
    made = queue()
    first, *_ = made.poll()
    made.acknowledge(first)
    with pytest.raises(IllegalStateError, match="2 records of the last poll"):
        made.poll()


def test_what_cannot_be_said_is_refused() -> None:
    with pytest.raises(IllegalStateError, match="implicitly"):
        queue("implicit").acknowledge_offset(("t", 0), 0)
    with pytest.raises(IllegalStateError, match="not among those"):
        queue().acknowledge_offset(("t", 0), 0)
    with pytest.raises(IllegalArgumentError, match="implicit or explicit"):
        MockShareConsumer("automatic")


def test_commits_tell_and_fail_as_the_test_says() -> None:
    made = queue("implicit", "a")
    told: list[Any] = []
    made.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
    made.poll()
    made.commit_error = InvalidRecordStateError("the lock was over")
    ((partition, error),) = made.commit_sync().items()
    assert (partition.topic, partition.partition, error) == ("t", 0, made.commit_error)
    assert told == [({partition: {0}}, made.commit_error)]
    made.commit_error = None
    assert delivered(made) == [("a", 2)]
    made.commit_async()
    assert told[-1] == ({partition: {0}}, None)


def test_topics_that_are_not_subscribed_to_wait() -> None:
    made = queue("implicit", "a")
    made.subscribe(["u"])
    made.add("u", 3, "other")
    assert delivered(made) == [("other", 1)]
    assert made.subscription() == {"u"}


def test_polls_do_what_was_scheduled() -> None:
    made = queue("implicit", "a", max_poll_records=1)
    made.schedule_poll_task(lambda: made.add("t", 0, "b"))
    assert [one.value for one in made] == ["a", "b"]
    made.wakeup()
    with pytest.raises(WakeupError):
        made.poll()
    made.poll_exception = RuntimeError("as planned")
    with pytest.raises(RuntimeError, match="as planned"):
        made.poll()
