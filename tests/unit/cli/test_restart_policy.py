"""When nodes of a cluster in the foreground are started again; one rule a test."""

from __future__ import annotations

import pytest

from barnabas.cli.restart_policy import RestartPolicy


@pytest.mark.parametrize("code", [-9, -11, 1])
def test_a_node_that_failed_is_started_again_after_a_second(code: int) -> None:
    policy = RestartPolicy()
    policy.started(1, 0.0)
    assert policy.ended(1, code, 10.0) == 1.0
    assert policy.is_waiting
    assert policy.take_due(10.9) == []
    assert policy.take_due(11.0) == [1]
    assert policy.take_due(12.0) == []
    assert not policy.is_waiting


@pytest.mark.parametrize("code", [0, 2])
def test_a_node_that_was_ended_or_cannot_start_stays_away(code: int) -> None:
    policy = RestartPolicy()
    policy.started(1, 0.0)
    assert policy.ended(1, code, 10.0) is None
    assert not policy.is_waiting


def test_a_node_that_fails_again_and_again_waits_ever_longer_up_to_half_a_minute() -> None:
    policy = RestartPolicy()
    now, pauses = 0.0, []
    for _ in range(8):
        policy.started(1, now)
        now += 0.1
        pause = policy.ended(1, 1, now)
        assert pause is not None
        pauses.append(pause)
        now += pause
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    policy.started(1, now)
    assert policy.ended(1, 1, now + 60.0) == 1.0


def test_each_node_has_its_own_pause() -> None:
    policy = RestartPolicy()
    for node_id in (1, 1, 2):
        policy.started(node_id, 0.0)
        policy.ended(node_id, -9, 0.0)
    assert policy.take_due(1.0) == [2]
    assert policy.take_due(2.0) == [1]
