"""What the process of a task keeps when its drivers have gone."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.streams.spark.task_processes import TaskServer, import_path


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


def test_sparks_own_zip_files_are_left_out_only_where_its_packages_are_installed(tmp_path):
    """A zip of sources is compiled anew by each process; what an application brought stays."""
    zips = ["/spark/python/lib/pyspark.zip", "/spark/python/lib/py4j-0.10.9.9-src.zip"]
    installed, empty, brought = tmp_path / "site-packages", tmp_path / "empty", "/elsewhere/brought.zip"
    for package in ("pyspark", "py4j"):
        (installed / package).mkdir(parents=True)
        (installed / package / "__init__.py").touch()

    assert import_path(["", *zips, brought, str(installed)]) == [brought, str(installed)]
    assert import_path([*zips, brought, str(empty)]) == [*zips, brought, str(empty)]
