"""The decision log's topic, made by the first who needs it: brokers may hear of it later than its maker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.errors import UnknownTopicOrPartitionError
from barnabas.spark.exactly_once import decision_log
from barnabas.spark.exactly_once.decision import DecisionError


class Admin:
    """A cluster whose brokers know of a new topic after so many questions."""

    def __init__(self, unknown_for: int, policy: str = "compact") -> None:
        self.left = unknown_for
        self.policy = policy

    def create_topics(self, topics: Any, *, raise_errors: bool) -> None:
        assert not raise_errors

    def describe_configs(self, resources: Any) -> Any:
        if self.left > 0:
            self.left -= 1
            raise UnknownTopicOrPartitionError("topic decisions: The broker does not host this topic or partition.")
        return {resource: {"cleanup.policy": SimpleNamespace(value=self.policy)} for resource in resources}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that sleeping moves."""
    now = [0.0]
    monkeypatch.setattr(decision_log.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(decision_log.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def ensure(admin: Admin) -> None:
    decision_log.ensure_topic(cast("Any", admin), "decisions")


def test_a_topic_that_no_broker_knows_yet_is_asked_for_again(clock: list[float]) -> None:
    ensure(admin := Admin(5))
    assert admin.left == 0
    assert 0 < clock[0] < 1


def test_a_topic_that_never_appears_is_an_error_after_a_while(clock: list[float]) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="topic decisions"):
        ensure(Admin(10**6))
    assert clock[0] > 10


def test_a_topic_that_would_forget_is_refused_also_when_it_appears_late() -> None:
    with pytest.raises(DecisionError, match=r"cleanup\.policy=delete"):
        ensure(Admin(2, "delete"))
