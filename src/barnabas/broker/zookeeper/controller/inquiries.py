"""Asks brokers of Apache Kafka what they list and hold, and tells them what of it ZooKeeper does not have.

A controller knows what it did not come to tell a broker (`LastTold`), but not what another one did not: one that took
the broker for dead, or died with requests unsent. Nor does a broker hear what went while it had no session. Ours look
themselves (`ControllerPushes`); those of Apache Kafka keep topics that are gone in their metadata, and replicas that
were moved away.

Questions stand in the same line as what is told, behind it. What is compared with the answer is what the controller
knows when it takes the answer in: a broker has heard of nothing that is newer than that, for only this controller
tells it of topics and replicas, and what it has heard from earlier ones this controller has read in ZooKeeper.

No log is deleted on doubt. A replica is told to be deleted where the broker serves it in this life (a log has no lag
that nothing serves), ZooKeeper has the topic and says others have the replica, the broker's log is of that topic by
its id (else it would not be a leader epoch that it refuses), and its leader epoch is no newer, which the broker
compares itself. Logs of topics that ZooKeeper does not have stay: whether they were deleted, or ZooKeeper has lost
them, cannot be seen.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas import __version__, errors
from barnabas.broker.zookeeper.controller.controller_stats import INQUIRY_ANSWERED
from barnabas.network.client_request import SOFTWARE_NAME
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from barnabas.broker.zookeeper.controller.controller_context import LiveBroker
    from barnabas.broker.zookeeper.controller.controller_environment import ControllerEnvironment
    from barnabas.broker.zookeeper.operations import Program
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse
    from barnabas.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
    from barnabas.protocol.messages.fetch_response import FetchResponse
    from barnabas.protocol.messages.metadata_response import MetadataResponse

    #: Sends a broker a question behind what it is told, and has its response heard.
    Ask = Callable[[int, Message, Callable[[Message], None]], None]
    #: Lines up what is to be done with a response, unless the broker has another life by then.
    PutAnswer = Callable[[str, LiveBroker, Callable[[], Program[None]]], None]

#: Apache Kafka serves it from 4.1 on, which knows no ZooKeeper: who does here is one of ours.
_OF_OURS = ApiKey.STREAMS_GROUP_HEARTBEAT
#: Versions with topic ids, and with a place for a broker's id beside them.
_NEEDED = {ApiKey.METADATA: 10, ApiKey.DESCRIBE_LOG_DIRS: 1, ApiKey.FETCH: 15}
#: A leader epoch that no partition comes to.
_NO_LEADER_EPOCH = 2**31 - 1
_NAMED = 3


class Inquiries:
    """The questions of one reign."""

    def __init__(self, environment: ControllerEnvironment, ask: Ask, put_answer: PutAnswer) -> None:
        self._environment = environment
        self._context = environment.context
        self._me = environment.settings.broker_id
        self._ask_broker = ask
        self._put_answer = put_answer
        self._done = set[tuple[int, int]]()

    def is_done(self, broker: LiveBroker) -> bool:
        """Whether a broker was found to know, in this life, what this controller knows."""
        return broker.id == self._me or (broker.id, broker.epoch) in self._done

    def begin(self, brokers: Iterable[LiveBroker]) -> None:
        """Ask brokers whose software they are, and those of Apache Kafka what they list and hold."""
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        for broker in brokers:
            if broker.id != self._me:
                self._ask(broker, request, self._versions_known)

    def _ask(self, broker: LiveBroker, request: Message, heard: Callable[[LiveBroker, Any], None]) -> None:
        def program(response: Message) -> Program[None]:
            code = getattr(response, "error_code", errors.NONE)
            if code:
                self._refused(broker, f"{request.NAME}: {errors.name_of(code)}")
            else:
                heard(broker, response)
            yield from ()

        def answered(response: Message) -> None:
            self._put_answer(INQUIRY_ANSWERED, broker, partial(program, response))

        self._ask_broker(broker.id, request, answered)

    def _refused(self, broker: LiveBroker, why: str) -> None:
        """Leave a broker with what it has. It is not asked again in this reign and life."""
        self._environment.report(
            f"broker {broker.id} does not tell this controller what it has ({why}): topics and replicas that went "
            "while no controller reached it stay there"
        )

    def _versions_known(self, broker: LiveBroker, response: ApiVersionsResponse) -> None:
        newest = {found.api_key: found.max_version for found in response.api_keys}
        if _OF_OURS in newest:
            self._done.add((broker.id, broker.epoch))
        elif all(newest.get(key, -1) >= least for key, least in _NEEDED.items()):
            told = {name.topic for name in self._context.leadership}
            request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
            self._ask(broker, request, partial(self._topics_listed, told=told))

    # -- topics ------------------------------------------------------------------------------------------------------

    def _topics_listed(self, broker: LiveBroker, response: MetadataResponse, told: Collection[str]) -> None:
        listed = {topic.name or "": topic for topic in response.topics if not topic.error_code}
        gone = [
            name
            for topic, told_of in listed.items()
            for name in (TopicPartition(topic, found.partition_index) for found in told_of.partitions)
            if self._is_gone(name, told_of.topic_id)
        ]
        if gone:
            self._environment.report(f"broker {broker.id} is told that these are gone: {_named(gone)}")
            self._environment.new_batch().send_ends(broker.id, gone, {})
        context = self._context
        hidden = [
            topic
            for topic in sorted(told)
            if topic not in listed and topic in context.topic_ids and not context.is_queued_for_deletion(topic)
        ]
        if hidden:
            self._refused(broker, f"topics such as {hidden[0]} are not listed; is DESCRIBE allowed?")
        self._ask(broker, DescribeLogDirsRequest(topics=None), self._replicas_held)

    def _is_gone(self, name: TopicPartition, topic_id: bytes) -> bool:
        """Whether ZooKeeper has no such partition. What has a state it is told of anyway, with the topic's id."""
        context = self._context
        if name.partition not in context.assignments.get(name.topic, {}):
            return True
        return context.topic_ids.get(name.topic) != topic_id and name not in context.leadership

    # -- replicas ----------------------------------------------------------------------------------------------------

    def _replicas_held(self, broker: LiveBroker, response: DescribeLogDirsResponse) -> None:
        if not response.results:
            self._refused(broker, "no directories are listed; is DESCRIBE of the cluster allowed?")
            return
        astray = [
            name
            for found in response.results
            for topic in found.topics
            for part in topic.partitions
            if part.offset_lag >= 0 and not part.is_future_key
            for name in (TopicPartition(topic.name, part.partition_index),)
            if broker.id not in self._context.assignment(name).replicas
        ]
        others = [name for name in astray if self._is_of_others(broker, name)]
        self._keeps(broker, [name for name in astray if name not in set(others)])
        if others:
            self._ask(broker, self._fetch(others), partial(self._topics_proved, names=others))
        else:
            self._done.add((broker.id, broker.epoch))

    def _is_of_others(self, broker: LiveBroker, name: TopicPartition) -> bool:
        context = self._context
        stays = name in context.leadership and not context.is_queued_for_deletion(name.topic)
        return stays and broker.id not in context.assignment(name).replicas

    def _fetch(self, names: Iterable[TopicPartition]) -> FetchRequest:
        """Return a request that nothing is read by: a log of another topic is refused for that, all others later."""
        topics: dict[bytes, FetchTopic] = {}
        for name in names:
            topic_id = self._context.topic_ids[name.topic]
            part = FetchPartition(partition=name.partition, current_leader_epoch=_NO_LEADER_EPOCH)
            topics.setdefault(topic_id, FetchTopic(topic_id=topic_id)).partitions.append(part)
        return FetchRequest(replica_state=ReplicaState(replica_id=self._me), topics=list(topics.values()))

    def _topics_proved(self, broker: LiveBroker, response: FetchResponse, names: Collection[TopicPartition]) -> None:
        context = self._context
        proved = {
            TopicPartition(context.topic_names[topic.topic_id], found.partition_index)
            for topic in response.responses
            if topic.topic_id in context.topic_names
            for found in topic.partitions
            if found.error_code == errors.UnknownLeaderEpochError.code
        }
        older = [name for name in names if name in proved and self._is_of_others(broker, name)]
        moved = {name: context.stop_epoch(name) for name in older}
        if moved:
            self._environment.report(f"broker {broker.id} is to delete replicas that others have: {_named(moved)}")
            self._environment.new_batch().send_ends(broker.id, (), moved)
        self._keeps(broker, [name for name in names if name not in proved])
        self._done.add((broker.id, broker.epoch))

    def _keeps(self, broker: LiveBroker, names: Collection[TopicPartition]) -> None:
        if names:
            self._environment.report(
                f"broker {broker.id} serves replicas of topics that ZooKeeper does not have, and keeps their logs: "
                f"{_named(names)}"
            )


def _named(names: Collection[TopicPartition]) -> str:
    """Return some names for a line of the log."""
    first = ", ".join(map(str, sorted(names)[:_NAMED]))
    return first if len(names) <= _NAMED else f"{first} and {len(names) - _NAMED} more"
