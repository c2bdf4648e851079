"""A broker under ZooKeeper after an exception before any line by which it follows its znodes and its controller.

It reads everything again then. In the end it goes by what the znodes say, is registered, has the roles that the
controller gave, and everyone who waited was told.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from barnabas.broker.config_admin_manager import ConfigsChange
from barnabas.broker.metadata.cluster_metadata import Done
from barnabas.broker.zookeeper import znodes
from barnabas.testing.simulator.cluster.zookeeper_model import ModelSession, ModelZooKeeper
from tests.property.broker.zookeeper.test_what_znodes_say import SETTINGS, Others, a_token, deny, goes_by
from tests.support.line_errors import EVERY, LineErrors, check_places
from tests.support.zookeeper_member import ME, ZooKeeperBroker, has_topic, known, leading

ROOMS = tuple(
    f"broker/zookeeper/{name}"
    for name in (
        "acl_znodes", "controller_pushes", "metadata_znodes", "program_queue", "push_records", "registration",
        "setting_records", "stored_secrets", "token_znodes", "znode_writes", "znodes", "zookeeper_control",
    )
)  # fmt: skip
#: How many places are tried in the short form; the long one tries each line, when it first runs and when it last does.
PLACES = 25
FLIGHTS, DELAYS = bytes(15) + b"\x01", bytes(15) + b"\x02"


class Life:
    """A broker that is registered, hears of changes, makes some itself, and is told its roles."""

    def __init__(self, errors: LineErrors) -> None:
        self.errors = errors
        self.zookeeper = ModelZooKeeper()
        self.broker = ZooKeeperBroker(self.zookeeper, SETTINGS)
        self.others = Others(self.zookeeper, random.Random(1))
        #: What each write was told first: what comes later is for an operation that is over.
        self.told: dict[int, Any] = {}
        self.asked = 0

    def deliver(self) -> None:
        """Let happen all that may, and what a service does after a fault."""
        for _ in range(4):
            with self.errors.watching():
                self._turn()
            self.broker.now += 0.6

    def _turn(self) -> None:
        for session in list(self.zookeeper.sessions.values()):
            assert isinstance(session, ModelSession)
            while session.waiting:
                session.deliver_one()
        self.broker.advance(0.1)
        self.broker.node.core.settle(self.broker.instant)

    # -- what happens ------------------------------------------------------------------------------------------------

    def push(self, send: Callable[[], Any]) -> None:
        """Send a request of the controller, again where it was not answered: its connection is closed then."""
        for _ in range(3):
            response = None
            try:
                with self.errors.watching():
                    response = send()
            except RuntimeError:
                # In what the test asks the broker itself.
                pass
            self.deliver()
            if response is not None and not response.error_code:
                return

    def lead(self) -> None:
        has_topic(self.zookeeper, "flights", FLIGHTS, [ME, 1], max_message_bytes="777")
        self.push(lambda: self.broker.lead(leading("flights", FLIGHTS, [ME, 1])))

    def update(self) -> None:
        has_topic(self.zookeeper, "delays", DELAYS, [1, 2])
        topics = known("flights", FLIGHTS, [ME, 1]), known("delays", DELAYS, [1, 2])
        self.push(lambda: self.broker.update(*topics))

    def write(self) -> None:
        control = self.broker.control
        writes: list[Callable[[Done], None]] = [
            lambda done: control.write_settings([ConfigsChange("topics", "flights", {"retention.ms": "5"})], done),
            lambda done: control.write_acls([deny("flights", "zoe")], [deny("delays", "zoe")], done),
            lambda done: control.write_tokens([a_token("w", 10**13)], ["x"], done),
        ]
        for write in writes:
            tell = partial(self.told.setdefault, self.asked)
            self.asked += 1
            try:
                with self.errors.watching():
                    write(tell)
            except RuntimeError as problem:
                # The request gets an error; the change may be made all the same.
                tell(problem)
        self.deliver()

    def register(self) -> None:
        for _ in range(2):
            try:
                with self.errors.watching():
                    self.broker.control.register({}, bytes(16), -1, self.broker.states.append)
                break
            except RuntimeError:
                continue
        self.deliver()

    def lose(self, *, expires: bool) -> None:
        session = self.broker.session
        with self.errors.watching():
            (session.expire if expires else session.disconnect)()
        self.others.setting()
        self.others.acl()
        self.others.token()
        with self.errors.watching():
            session.connect()
        self.deliver()

    # -- what has to hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        where = self.errors.place, self.broker.warnings
        for kind in ("setting", "acl", "token"):
            getattr(self.others, kind)()
        for _ in range(4):
            self._turn()
            self.broker.now += 0.6
        read = goes_by(ZooKeeperBroker(self.zookeeper, {**SETTINGS, "broker.id": 9}))
        for kind, found in goes_by(self.broker).items():
            assert found == read[kind], (kind, where)
        node = self.zookeeper.nodes.get(f"{znodes.BROKER_IDS}/{ME}")
        assert node is not None, where
        assert self.broker.control.broker_epoch == node.created, where
        assert len(self.told) == self.asked, (self.told, where)
        partition = self.broker.partition("flights")
        assert partition is not None, where
        assert partition.is_leader, where
        assert {"flights", "delays"} <= self.broker.control.image.topic_ids.keys(), where
        assert len([line for line in self.broker.warnings if "please report" in line]) <= 2, where


STEPS: tuple[Callable[[Life], object], ...] = (
    Life.register,
    lambda life: (life.others.setting(), life.deliver()),  # type: ignore[func-returns-value]
    lambda life: (life.others.acl(), life.deliver()),  # type: ignore[func-returns-value]
    lambda life: (life.others.token(), life.deliver()),  # type: ignore[func-returns-value]
    Life.lead,
    Life.update,
    Life.write,
    lambda life: life.lose(expires=False),
    lambda life: life.lose(expires=True),
    Life.write,
)


def run(errors: LineErrors) -> list[str]:
    life = Life(errors)
    for step in STEPS:
        step(life)
    life.check()
    return life.broker.warnings


def test_whatever_is_raised_in_following_zookeeper_it_is_followed_in_the_end() -> None:
    check_places(run, ROOMS, PLACES)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_same_at_every_line() -> None:
    check_places(run, ROOMS, EVERY)
