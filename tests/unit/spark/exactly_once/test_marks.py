"""That a batch is complete is written beside the next one: what becomes of it where that fails."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.spark.exactly_once.decision import COMPLETE, Decision
from barnabas.spark.exactly_once.driver_steps import Driver, SinkPlace


class Writer:
    """In place of a `DecisionWriter`; the first write fails."""

    def __init__(self) -> None:
        self.failures: list[Exception] = [ArithmeticError("not foreseen")]
        self.written: list[Any] = []

    def write(self, query: str, decision: Decision) -> None:
        if self.failures:
            raise self.failures.pop()
        self.written.append(decision.batch)

    def close(self) -> None:
        pass


def complete(batch: int) -> Decision:
    return Decision(batch, "run", COMPLETE)


def test_a_mark_that_fails_in_any_way_is_an_error_of_the_next_step() -> None:
    driver = Driver(SinkPlace((("bootstrap.servers", "127.0.0.1:1"),), "decisions", "prefix"), "q")
    writer = driver._writer = Writer()  # type: ignore[assignment]
    driver._decision = Decision(0, "run")

    driver._record(complete(0))
    with pytest.raises(ArithmeticError, match="not foreseen"):
        driver._record(complete(1))
    driver._record(complete(1))
    driver.close()

    assert writer.written == [1]
