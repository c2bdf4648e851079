"""What the process of a task keeps when its drivers have gone."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.streams.spark.task_processes import TaskServer


class Home:
    def __init__(self) -> None:
        self.rests = 0

    def rest(self) -> None:
        self.rests += 1


class GoneChannel:
    """A connection whose other side is closed at once."""

    def receive(self) -> bytes:
        raise EOFError

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("drivers", "rests"), [(1, 1), (2, 0)])
def test_a_process_lets_its_producer_go_when_the_last_driver_has_gone(drivers: int, rests: int) -> None:
    server, home = TaskServer(), Home()
    server._home, server.drivers = home, drivers  # type: ignore[assignment]
    channel: Any = GoneChannel()

    server._serve(channel, b"")

    assert (server.drivers, home.rests) == (drivers - 1, rests)
