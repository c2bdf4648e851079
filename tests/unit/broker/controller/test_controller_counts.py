"""What a controller counts: its operations, leaders that it elected, brokers that it did not hear of."""

from __future__ import annotations

from barnabas.broker.controller.controller_counts import ControllerCounts
from tests.support.controllers import LEVELS, WITH_ELR, Controllers


def _cluster(**given: object) -> tuple[Controllers, ControllerCounts]:
    controllers = Controllers(**given)  # type: ignore[arg-type]
    controllers.elect()
    controllers.start(1, 2, 3)
    return controllers, controllers.active.counts


def _end_sessions(controllers: Controllers, alive: list[int]) -> None:
    """Let the sessions of all others end."""
    for _ in range(12):
        controllers.tick(1.0)
        for broker in alive:
            controllers.heartbeat(broker)


def test_operations_are_counted_and_timed() -> None:
    controllers, counts = _cluster()
    times: list[tuple[float, float]] = []
    controllers.active.on_operation = lambda seconds, now: times.append((seconds, now))
    before = counts.operations
    controllers.create("flights", [[1, 2]])
    assert counts.operations == before + 1
    assert times == [(0.0, controllers.now)]


def test_a_broker_that_is_not_heard_of_is_counted_and_its_leaders_are_elected_cleanly() -> None:
    controllers, counts = _cluster()
    controllers.create("flights", [[1, 2], [1, 3]])
    _end_sessions(controllers, [2, 3])
    assert counts.timed_out_heartbeats == 1
    assert (counts.unclean_elections, counts.elections_from_eligible) == (0, 0)


def test_leaders_that_were_not_in_sync_are_counted() -> None:
    controllers, counts = _cluster(levels=LEVELS)
    allowed = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    controllers.create("careless", [[1, 2]], configs=allowed)
    controllers.create("careful", [[1, 2]], configs={"min.insync.replicas": "1"})
    _end_sessions(controllers, [1, 3])
    assert controllers.partition("careless").isr == (1,)
    controllers.heartbeat(2)
    _end_sessions(controllers, [2, 3])
    assert controllers.partition("careless").leader == 2
    assert counts.unclean_elections == 1


def test_leaders_from_the_eligible_replicas_are_counted() -> None:
    controllers, counts = _cluster(levels=WITH_ELR)
    controllers.create("flights", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    _end_sessions(controllers, [3])
    _end_sessions(controllers, [])
    assert controllers.partition("flights").leader == -1
    eligible = controllers.partition("flights").elr
    assert eligible
    controllers.heartbeat(eligible[0])
    controllers.tick(1.0)
    assert controllers.partition("flights").leader == eligible[0]
    assert counts.elections_from_eligible == 1
    assert counts.unclean_elections == 0


def test_each_controller_that_becomes_active_is_counted_by_all() -> None:
    controllers = Controllers(3)
    for node_id in (100, 101, 100):
        controllers.elect(node_id)
    assert [one.counts.new_active_controllers for one in controllers.controllers.values()] == [3, 3, 3]
