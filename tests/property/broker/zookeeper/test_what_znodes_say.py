"""Brokers under ZooKeeper go by what its znodes say, however reads, writes and announcements overlap.

Brokers of ours and others change settings, ACLs and tokens, and announce it, while connections are lost and come back.
Once all have been heard, every broker has what one has that has only just read everything.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from barnabas.broker.config_admin_manager import ConfigsChange
from barnabas.broker.security.acl_binding import AclBinding
from barnabas.broker.security.delegation_tokens import DelegationToken
from barnabas.broker.zookeeper import acl_znodes, announcements, token_znodes, znodes
from barnabas.broker.zookeeper.acl_znodes import Pattern
from barnabas.broker.zookeeper.operations import Create, Delete, run
from barnabas.broker.zookeeper.program_queue import ProgramQueue
from barnabas.broker.zookeeper.zookeeper_control import ZooKeeperControl
from barnabas.protocol.kinds import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.support.zookeeper_member import ZooKeeperBroker

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "delegation.token.secret.key": "the key of tokens",
}
_TOPICS = ("flights", "delays")
_STEPS = 150
#: More announcements than there are changes, so that none is deleted before all have heard of it.
_KEPT = 100


def deny(topic: str, who: str) -> AclBinding:
    kinds = AclOperation.READ.value, AclPermissionType.DENY.value
    return AclBinding(ResourceType.TOPIC.value, topic, PatternType.LITERAL.value, f"User:{who}", "*", *kinds)


def a_token(name: str, expiry_ms: int) -> DelegationToken:
    return DelegationToken(name, "User:alice", "User:alice", (), 1, 10**15, expiry_ms)


def _done(problem: object) -> None:
    """What a write has come to is not of interest: the znodes tell."""


class Others:
    """What brokers of Apache Kafka do: they write a znode, and announce it."""

    def __init__(self, zookeeper: ModelZooKeeper, chance: random.Random) -> None:
        self.zookeeper = zookeeper
        self.chance = chance

    def setting(self) -> None:
        entity = f"topics/{self.chance.choice(_TOPICS)}"
        config = {"retention.ms": str(self.chance.randint(1, 10**6))}
        self.zookeeper.put(f"{znodes.CONFIG}/{entity}", znodes.encode_config(config))
        self._announce(f"{znodes.CONFIG_CHANGES}/config_change_", znodes.encode_config_change(entity))

    def acl(self) -> None:
        pattern = Pattern.of(deny(self.chance.choice(_TOPICS), "x"))
        acls = [deny(pattern.name, who) for who in ("alice", "bob", "carol") if self.chance.random() < 0.5]
        self.zookeeper.put(acl_znodes.acl_path(pattern), acl_znodes.encode_acls(acls))
        folder, data = acl_znodes.encode_change(pattern)
        self._announce(f"{folder}/acl_changes_", data)

    def token(self) -> None:
        name = self.chance.choice("xyz")
        path = token_znodes.token_path(name)
        if path in self.zookeeper.nodes and self.chance.random() < 0.5:
            self.zookeeper.carry_out(0, Delete(path))
        else:
            token = a_token(name, self.chance.randint(10**12, 10**13))
            self.zookeeper.put(path, token_znodes.encode_token(token))
        self._announce(f"{token_znodes.TOKEN_CHANGES}/token_change_", name.encode())

    def _announce(self, path: str, data: bytes) -> None:
        self.zookeeper.carry_out(0, Create(path, data, sequential=True))

    def any(self) -> None:
        self.chance.choice((self.setting, self.acl, self.token))()


class Ours:
    """What a broker of ours does."""

    def __init__(self, control: ZooKeeperControl, chance: random.Random) -> None:
        self.control = control
        self.chance = chance

    def setting(self) -> None:
        configs = {"retention.ms": str(self.chance.randint(1, 10**6))}
        self.control.write_settings([ConfigsChange("topics", topic, configs) for topic in _TOPICS], _done)

    def acl(self) -> None:
        who = self.chance.sample(("alice", "bob", "carol"), 2)
        added, removed = ([deny(topic, one) for topic in _TOPICS] for one in who)
        self.control.write_acls(added, removed, _done)

    def token(self) -> None:
        changed = [a_token(name, self.chance.randint(10**12, 10**13)) for name in "xy"]
        self.control.write_tokens(changed, ["z"], _done)

    def any(self) -> None:
        self.chance.choice((self.setting, self.acl, self.token))()


def goes_by(broker: ZooKeeperBroker) -> dict[str, Any]:
    image = broker.control.image
    return {"settings": image.configs, "ACLs": dict(image.acls), "tokens": dict(image.delegation_tokens)}


def _check(zookeeper: ModelZooKeeper, brokers: list[ZooKeeperBroker]) -> None:
    zookeeper.deliver()
    read = goes_by(ZooKeeperBroker(zookeeper, {**SETTINGS, "broker.id": 9}))
    for broker in brokers:
        assert not [line for line in broker.warnings if "please report" in line]
        for kind, found in goes_by(broker).items():
            assert found == read[kind], kind


def _broker(zookeeper: ModelZooKeeper, number: int) -> ZooKeeperBroker:
    return ZooKeeperBroker(zookeeper, {**SETTINGS, "broker.id": number})


def _check_changes_while_reading(kind: str) -> None:
    zookeeper, chance = ModelZooKeeper(), random.Random(1)
    others = Others(zookeeper, chance)
    broker = _broker(zookeeper, 3)
    change: Callable[[], None] = getattr(others, kind)
    for answers in count():
        change()
        broker.session.disconnect()
        broker.session.connect()
        is_read = not all(broker.session.deliver_one() for _ in range(answers))
        change()
        _check(zookeeper, [broker])
        if is_read:
            return


@pytest.mark.parametrize("kind", ["setting", "acl", "token"])
def test_what_changes_while_a_broker_reads_everything_is_known_when_it_has_read(kind: str) -> None:
    _check_changes_while_reading(kind)


def test_a_broker_that_reads_several_things_at_a_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: ProgramQueue, make: Callable[[], Any], done: Callable[[Any], None]) -> None:
        run(self._session, make(), done)

    monkeypatch.setattr(ProgramQueue, "run", at_once)
    with pytest.raises(AssertionError, match="ACLs"):
        _check_changes_while_reading("acl")


@pytest.mark.parametrize("seed", range(30))
def test_brokers_go_by_the_znodes_however_changes_overlap(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "KEPT", _KEPT)
    zookeeper, chance = ModelZooKeeper(), random.Random(seed)
    others = Others(zookeeper, chance)
    _broker(zookeeper, 9)
    for _ in range(_KEPT):
        # So that there are old announcements to delete, which takes a step more.
        for change in (others.setting, others.acl, others.token):
            change()
    brokers = [_broker(zookeeper, number) for number in (3, 4)]
    changes: list[Others | Ours] = [others, *(Ours(broker.control, chance) for broker in brokers)]
    for _ in range(_STEPS):
        session = chance.choice(brokers).session
        what = chance.random()
        if what < 0.2:
            chance.choice(changes).any()
        elif what < 0.23 and session.is_connected:
            chance.choice((session.disconnect, session.expire))()
        elif not session.is_connected:
            session.connect()
        for _ in range(chance.randint(0, 6)):
            chance.choice(brokers).session.deliver_one()
    for broker in brokers:
        if not broker.session.is_connected:
            broker.session.connect()
    _check(zookeeper, brokers)


@pytest.mark.parametrize("ends", ["disconnect", "expire"])
@pytest.mark.parametrize("kind", ["setting", "acl", "token"])
def test_what_was_written_when_a_connection_was_lost_is_known_to_the_other_brokers(kind: str, ends: str) -> None:
    zookeeper, chance = ModelZooKeeper(), random.Random(1)
    brokers = [_broker(zookeeper, number) for number in (3, 4)]
    writer = brokers[0]
    for answers in count():
        getattr(Ours(writer.control, chance), kind)()
        is_written = not all(writer.session.deliver_one() for _ in range(answers))
        getattr(writer.session, ends)()
        zookeeper.deliver()
        writer.session.connect()
        _check(zookeeper, brokers)
        if is_written:
            return
