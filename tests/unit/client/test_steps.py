"""Calls that wait, run by a thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.client.steps import Steps, call, run
from barnabas.errors import IllegalTypeError


def steps_of(log: list[str]) -> Steps[int]:
    log.append("turn")
    yield None
    log.append("turn")
    yield None
    return 7


def test_a_thread_runs_a_call_through_to_its_result() -> None:
    log: list[str] = []
    assert run(steps_of(log)) == 7
    assert log == ["turn", "turn"]


def test_what_a_plain_function_returns_is_nobodys_business() -> None:
    def returns_a_generator() -> Iterator[int]:
        yield 1

    assert run(call(returns_a_generator)) is None


def test_a_thread_refuses_a_coroutine_function_and_says_where_they_work() -> None:
    async def on_partitions_revoked(partitions: list[int]) -> None:
        raise AssertionError("never awaited")

    with pytest.raises(IllegalTypeError, match=r"on_partitions_revoked is a coroutine.*barnabas\.aio"):
        run(call(on_partitions_revoked, []))
