"""The decision log's topic, made by the first who needs it: brokers may hear of it later than its maker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.errors import InvalidReplicationFactorError, TopicExistsError, UnknownTopicOrPartitionError
from barnabas.spark.exactly_once import decision_log
from barnabas.spark.exactly_once.decision import DecisionError


class Admin:
    """A cluster that refuses a new topic so many times, and whose brokers know of it after so many questions."""

    def __init__(self, unknown_for: int, policy: str = "compact", refuses: int = 0) -> None:
        self.left = unknown_for
        self.policy = policy
        self.refuses = refuses
        self.is_made = False

    def create_topics(self, topics: Any, *, raise_errors: bool) -> Any:
        assert not raise_errors
        if self.is_made:
            return SimpleNamespace(errors={"decisions": TopicExistsError()})
        if self.refuses > 0:
            self.refuses -= 1
            return SimpleNamespace(errors={"decisions": InvalidReplicationFactorError("2 brokers are alive, not 3")})
        self.is_made = True
        return SimpleNamespace(errors={})

    def describe_configs(self, resources: Any) -> Any:
        if self.left > 0 or not self.is_made:
            self.left -= self.is_made
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


def test_a_topic_that_cannot_be_made_yet_is_made_when_it_can(clock: list[float]) -> None:
    """As long as a broker is away there are fewer than the topic is to have replicas."""
    ensure(admin := Admin(2, refuses=20))
    assert admin.is_made
    assert clock[0] > 1


def test_a_topic_that_cannot_be_made_is_an_error_that_says_why() -> None:
    with pytest.raises(InvalidReplicationFactorError, match="2 brokers are alive"):
        ensure(Admin(0, refuses=10**6))


def test_a_topic_that_would_forget_is_refused_also_when_it_appears_late() -> None:
    with pytest.raises(DecisionError, match=r"cleanup\.policy=delete"):
        ensure(Admin(2, "delete"))
