"""Blocks of producer ids go on where they were when another controller takes over: no id is given twice."""

from __future__ import annotations

from barnabas import errors
from tests.support.controllers import Controllers


def ready() -> Controllers:
    controllers = Controllers(3)
    controllers.elect(100)
    controllers.start(1, 2, 3)
    return controllers


def block(controllers: Controllers, broker_id: int = 1) -> range:
    manager = controllers.active.managers.producer_ids
    epoch = controllers.active.state.image.brokers[broker_id].epoch
    found = controllers.done(lambda: manager.generate_next_block(broker_id, epoch))
    return range(found.first, found.first + found.size)


def test_no_id_is_given_twice_by_controllers_that_follow_each_other() -> None:
    controllers = ready()
    given = [block(controllers, 1), block(controllers, 2)]
    for killed, elected in ((100, 101), (101, 102), (102, 100)):
        controllers.crash(killed)
        controllers.elect(elected)
        given += [block(controllers, 1), block(controllers, 3)]
    ids = [number for one in given for number in one]
    assert len(ids) == len(set(ids)) == 8 * 1000


def test_a_block_that_was_not_committed_is_not_given_and_the_next_controller_may_give_it() -> None:
    controllers = ready()
    first = block(controllers)
    controllers.commit_at_once = False
    manager = controllers.active.managers.producer_ids
    epoch = controllers.active.state.image.brokers[1].epoch
    lost = controllers.active.write(lambda: manager.generate_next_block(1, epoch))
    assert not lost.is_done, "who is given an id that is not committed may share it"
    controllers.commit_at_once = True
    controllers.elect(101, keep=0)
    assert isinstance(lost.problem, errors.NotControllerError)
    assert block(controllers).start == first.stop
