"""A KRaft controller after an exception before any line of its own: it gives its leadership up, and goes on.

A fault in the quorum's client ends the node, which says so once; the next process goes on with what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from barnabas.protocol.message import Message
from barnabas.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from barnabas.protocol.messages.describe_quorum_request import PartitionData as QuorumPartition
from barnabas.protocol.messages.describe_quorum_request import TopicData as QuorumTopic
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.controllers import registration
from tests.support.core_broker import CoreClient
from tests.support.core_controller import CoreController
from tests.support.line_errors import EVERY, LineErrors, check_places

#: All of it but `raft_driver`, which guards it.
ROOMS = tuple(
    f"broker/{name}"
    for name in (
        "controller/", "kraft/broker_probes", "kraft/controller_", "metadata/cl",
        "metadata/image_store", "raft/batch", "raft/co", "raft/e", "raft/f",
        "raft/k", "raft/l", "raft/o", "raft/q", "raft/raft_m", "raft/re", "raft/s", "raft/v",
    )
)  # fmt: skip
#: How many places are tried in the short form; the long one tries each line, when it first runs and when it last does.
PLACES = 10
SETTINGS = {"broker.session.timeout.ms": 1000, "metadata.log.max.record.bytes.between.snapshots": 1500}
TURN = 0.25
BROKERS = (1, 2, 3)
QUORUM = DescribeQuorumRequest([QuorumTopic("__cluster_metadata", [QuorumPartition()])])


class Life:
    """A controller that is alone in its quorum, brokers that register and send heartbeats, and an administrator."""

    def __init__(self, errors_: LineErrors) -> None:
        self.errors = errors_
        self.controller = CoreController(SETTINGS)
        self.clients: dict[str, CoreClient] = {}
        self.sent: dict[str, int] = {}
        self.living: set[int] = set(BROKERS)
        self.created: set[str] = set()
        self.is_deleted = self.is_checked = False

    def send(self, name: str, message: Message, version: int) -> None:
        client = self.clients.get(name)
        if client is None or client.closed:
            client = self.clients[name] = self.controller.connect()
            self.sent[name] = 0
        self.sent[name] += 1
        with self.watching():
            client.send(message, version)
            self.controller.node.core.settle(self.controller.instant)

    def watching(self) -> AbstractContextManager[None]:
        """Have lines fail, as long as it is not checked what came of it."""
        return nullcontext() if self.is_checked else self.errors.watching()

    def turn(self) -> None:
        for number in sorted(self.living):
            self.beat(number)
        with self.watching():
            self.controller.advance(TURN)

    def last(self, name: str) -> Any:
        """The newest response of a client, None without one."""
        client = self.clients.get(name)
        return None if client is None or client.closed or not client.responses else client.responses[-1]

    def beat(self, number: int) -> None:
        """Say that a broker lives; it registers where it is not known."""
        name = f"broker {number}"
        answer = self.last(name)
        if answer is None or answer.error_code or not (epoch := self.epoch_of(number)):
            self.send(name, registration(number, cluster_id=self.controller.node.cluster_id), 4)
        else:
            offset = self.controller.node.controller.committed_image.offset
            self.send(name, BrokerHeartbeatRequest(number, epoch, offset), 1)

    def epoch_of(self, number: int) -> int:
        found = self.controller.node.controller.committed_image.brokers.get(number)
        return 0 if found is None else found.epoch

    # -- what is asked -----------------------------------------------------------------------------------------------

    def live(self) -> None:
        for number in range(16):
            STEPS.get(number, lambda life: None)(self)
            self.turn()
            self.note_created()

    def create(self, name: str) -> None:
        self.send(f"create {name}", CreateTopicsRequest([CreatableTopic(name, 2, 3)], timeout_ms=5000), 7)

    def delete(self, name: str) -> None:
        self.is_deleted = True
        self.send("delete", DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=5000), 6)

    def note_created(self) -> None:
        """What was acknowledged has to stay."""
        for name in self.clients:
            answer = self.last(name)
            if name.startswith("create ") and answer is not None and not answer.topics[0].error_code:
                self.created.add(answer.topics[0].name)
        if self.is_deleted:
            self.created.discard("gone")

    def alter_partition(self) -> None:
        image = self.controller.node.controller.committed_image
        found = image.partition("t", 0)
        if found is not None and found.leader >= 0:
            isr = [BrokerState(found.leader, self.epoch_of(found.leader))]
            asked = PartitionData(0, found.leader_epoch, [], isr, 0, found.partition_epoch)
            topics = [TopicData(image.topic_ids["t"], [asked])]
            self.send("alter", AlterPartitionRequest(found.leader, self.epoch_of(found.leader), topics), 3)

    def configure(self) -> None:
        resource = AlterConfigsResource(2, "t", [AlterableConfig("retention.ms", 0, "77")])
        self.send("configure", IncrementalAlterConfigsRequest([resource]), 1)

    # -- what has to hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        where = self.errors.place, self.controller.warnings, self.controller.problems
        self.is_checked = True
        assert len(self.controller.problems) <= 1, where
        if self.controller.problems:
            # The process ends, and is started again.
            self.controller = self.controller.crashed()
            self.clients, self.sent = {}, {}
        self.living = set(BROKERS)
        for _ in range(40):
            self.turn()
            if not self.last("create later") or self.last("create later").topics[0].error_code:
                self.create("later")
            elif not self.lacks():
                break
        assert not self.lacks(), (self.lacks(), where)
        reports = [line for line in self.controller.warnings if "please report this" in line]
        assert len(reports) <= 2, where

    def lacks(self) -> list[str]:
        """What does not hold yet."""
        image = self.controller.node.controller.committed_image
        lacks = [name for name, one in self.clients.items() if not one.closed and len(one.responses) < self.sent[name]]
        lacks += [f"topic {name}" for name in self.created - image.topic_ids.keys()]
        lacks += [
            f"broker {number}" for number in BROKERS if number not in image.brokers or image.brokers[number].fenced
        ]
        known, topics = self.controller.node.metadata, image.topic_ids.keys() | {"gone"}
        lacks += [f"news of {name}" for name in topics if (known.topic(name) is None) == (name in image.topic_ids)]
        lacks += [
            f"settings of {name}"
            for name in image.topic_ids
            if (told := known.topic(name)) and dict(told.configs) != dict(image.configs.get((2, name), {}))
        ]
        if self.last("create later") is None or self.last("create later").topics[0].error_code:
            lacks.append("the last topic")
        return lacks


#: What is asked before which turn.
STEPS: dict[int, Callable[[Life], object]] = {
    2: lambda life: life.create("t"),
    3: lambda life: life.create("gone"),
    4: Life.configure,
    5: Life.alter_partition,
    6: lambda life: life.delete("gone"),
    7: lambda life: life.send("ids", AllocateProducerIdsRequest(1, life.epoch_of(1)), 0),
    8: lambda life: life.living.discard(3),
    9: lambda life: life.send(
        "quorum", DescribeQuorumRequest([QuorumTopic("__cluster_metadata", [QuorumPartition()])]), 2
    ),
    14: lambda life: life.living.add(3),
}


def run(errors_: LineErrors) -> list[str]:
    life = Life(errors_)
    life.live()
    life.check()
    return life.controller.warnings


def test_whatever_is_raised_in_a_controller_it_goes_on_and_loses_nothing() -> None:
    check_places(run, ROOMS, PLACES)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_same_at_every_line() -> None:
    check_places(run, ROOMS, EVERY)
