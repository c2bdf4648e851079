"""How the planner of batches hears of punctuators that are scheduled while tasks run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from barnabas.spark.co_partitions import CoPartitions, Group
from barnabas.streams.spark.wall_clocks import PlannedClocks, WallClocks

PLANNED = CoPartitions({"0": Group(("a",)), "1": Group(("b",), 500)})


@pytest.fixture
def clocks() -> Iterator[WallClocks]:
    with contextlib.closing(WallClocks()) as found:
        yield found


def present(planner: PlannedClocks) -> dict[str, int | None]:
    return {name: group.clock_ms for name, group in planner.present().groups.items()}


def test_the_shortest_interval_of_its_tasks_counts_for_a_group_until_they_want_none(clocks: WallClocks) -> None:
    planner = PlannedClocks(PLANNED, clocks.path)
    assert present(planner) == {"0": None, "1": 500}

    clocks.heard("0_0", 300)
    clocks.heard("0_1", 200)
    assert present(planner) == {"0": 200, "1": 500}

    clocks.heard("0_1", None)
    assert present(planner) == {"0": 300, "1": 500}
    clocks.heard("0_0", None)
    assert present(planner) == {"0": None, "1": 500}


def test_what_was_planned_before_the_start_stays(clocks: WallClocks) -> None:
    planner = PlannedClocks(PLANNED, clocks.path)

    clocks.heard("1_0", 700)
    assert present(planner)["1"] == 500
    clocks.heard("1_0", 100)
    assert present(planner)["1"] == 100


def test_the_planner_outlives_the_file(clocks: WallClocks) -> None:
    planner = PlannedClocks(PLANNED, clocks.path)
    clocks.heard("0_0", 300)
    present(planner)

    clocks.close()

    assert present(planner)["0"] == 300
