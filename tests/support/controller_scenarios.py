"""Random requests for a controller: made on one of Apache Kafka's, told again to ours, records and answers compared.

A recording is a list of steps. Each has the request (or the broker whose session ended), the response without texts,
and the records that were written, all as bytes in hexadecimal digits.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.broker.controller.controller_apis import ControllerApis, ControllerIdentity
from barnabas.broker.metadata.metadata_delta import MetadataDelta
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.metadata.metadata_records import decode_record
from barnabas.broker.raft.raft_client import Batch
from barnabas.protocol.api import request_class, response_class
from barnabas.protocol.message import ZERO_UUID, Message, Struct
from barnabas.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState, TopicData
from barnabas.protocol.messages.alter_partition_request import PartitionData as AlteredPartition
from barnabas.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
)
from barnabas.protocol.messages.assign_replicas_to_dirs_request import TopicData as AssignedTopic
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.controllers import BROKER_FEATURES, Controllers, directory, registration

if TYPE_CHECKING:
    from tests.peers.java_controller import JavaController

Step = dict[str, Any]
_BROKERS = range(1, 6)
_FEATURES = {**BROKER_FEATURES, "share.version": (0, 1), "streams.version": (0, 1)}
_SESSION = 3.0


class Scenario:
    """Draws requests that make sense, mostly, upon an image."""

    def __init__(self, seed: int, cluster_id: str) -> None:
        self.random = random.Random(seed)
        self._cluster_id = cluster_id
        self._lives = dict.fromkeys(_BROKERS, 0)
        self._names = 0
        #: Brokers whose processes have died: they send no heartbeats before they register again.
        self.silent: set[int] = set()
        self.image = MetadataImage()
        #: Whether it draws only what Apache Kafka's controller brings to an end, for ours to be compared with it.
        self.only_as_kafka = False
        self._draws: list[tuple[int, Callable[[], tuple[Message, int] | None]]] = [
            (6, self._register),
            (3, self._fence),
            (2, self._shut_down),
            (3, self._directories),
            (8, self._create_topic),
            (2, self._delete_topic),
            (3, self._create_partitions),
            (20, self._alter_partition),
            (6, self._elect),
            (10, self._reassign),
            (2, self._list_reassignments),
            (4, self._assign),
            (6, self._configs),
            (2, self._quotas),
            (2, self._scram),
            (3, self._acls),
            (1, self._producer_ids),
            (3, self._features),
            (1, self._unregister),
        ]

    def draw(self) -> tuple[Message, int]:
        """Return the next request and its version."""
        while True:
            weights = [weight for weight, _ in self._draws]
            found = self.random.choices([draw for _, draw in self._draws], weights)[0]()
            if found is not None:
                return found

    def heartbeats(self) -> list[tuple[Message, int]]:
        """Return a heartbeat of each broker that is registered and stays."""
        return [
            self.heartbeat(broker_id, want_fence=broker.fenced and self.random.random() < 0.3)
            for broker_id, broker in self.image.brokers.items()
            if broker_id not in self.silent
        ]

    def steady_heartbeats(self) -> list[tuple[Message, int]]:
        """Return heartbeats that leave each broker as it is."""
        return [
            self.heartbeat(broker_id, want_fence=broker.fenced)
            for broker_id, broker in sorted(self.image.brokers.items())
            if broker_id not in self.silent
        ]

    def heartbeat(self, broker_id: int, **given: Any) -> tuple[Message, int]:
        """Return a heartbeat of a broker that has read everything."""
        broker = self.image.brokers[broker_id]
        if broker.in_controlled_shutdown:
            # Whoever leaves does not come back in the same life.
            given["want_fence"], given["want_shut_down"] = broker.fenced, not broker.fenced
        given.setdefault("current_metadata_offset", self.image.offset)
        given.setdefault("cordoned_log_dirs", broker.cordoned_directories and list(broker.cordoned_directories))
        return BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=broker.epoch, **given), 2

    # -- brokers -----------------------------------------------------------------------------------------------------

    def _register(self) -> tuple[Message, int]:
        broker_id = self.random.choice(sorted(self.silent) or _BROKERS)
        self.silent.discard(broker_id)
        existing = self.image.brokers.get(broker_id)
        if existing is None or self.random.random() < 0.7:
            self._lives[broker_id] += 1
        previous = existing.epoch if existing is not None and self.random.random() < 0.5 else -1
        count = 1 + broker_id % 2
        request = registration(
            broker_id,
            life=self._lives[broker_id],
            rack=self.random.choice((None, "a", "b")),
            directories=[directory(broker_id, number) for number in range(count)],
            features=_FEATURES,
            cluster_id=self._cluster_id,
            previous_broker_epoch=previous,
        )
        return request, 4

    def _registered(self) -> int | None:
        alive = sorted(set(self.image.brokers) - self.silent)
        return self.random.choice(alive) if alive else None

    def _fence(self) -> tuple[Message, int] | None:
        broker = self._registered()
        return None if broker is None else self.heartbeat(broker, want_fence=True)

    def _shut_down(self) -> tuple[Message, int] | None:
        broker = self._registered()
        return None if broker is None else self.heartbeat(broker, want_shut_down=True)

    def _directories(self) -> tuple[Message, int] | None:
        broker = self._registered()
        if broker is None:
            return None
        directories = list(self.image.brokers[broker].directories)
        if len(directories) > 1 and self.random.random() < 0.4:
            return self.heartbeat(broker, offline_log_dirs=directories[1:])
        return self.heartbeat(broker, cordoned_log_dirs=self.random.choice(([], directories, directories[:1])))

    def _unregister(self) -> tuple[Message, int]:
        return UnregisterBrokerRequest(self.random.choice(_BROKERS)), 0

    def _producer_ids(self) -> tuple[Message, int] | None:
        broker = self._registered()
        if broker is None:
            return None
        return AllocateProducerIdsRequest(broker, self.image.brokers[broker].epoch - self.random.randrange(2)), 0

    # -- topics ------------------------------------------------------------------------------------------------------

    def _replicas(self) -> list[int]:
        return self.random.sample(_BROKERS, self.random.randint(1, 4))

    def _create_topic(self) -> tuple[Message, int]:
        self._names += 1
        name = self.random.choice((f"topic-{self._names}", f"topic-{self._names}", "topic-1", f"a.{self._names % 3}"))
        first = self._replicas()
        assignments = [first, *(self.random.sample(_BROKERS, len(first)) for _ in range(self.random.randrange(3)))]
        configs = {
            "unclean.leader.election.enable": self.random.choice((None, "true")),
            "min.insync.replicas": self.random.choice((None, None, "2", "3")),
            "retention.ms": self.random.choice((None, "5000", "x")),
        }
        topic = CreatableTopic(
            name,
            -1,
            -1,
            [CreatableReplicaAssignment(index, list(found)) for index, found in enumerate(assignments)],
            [CreatableTopicConfig(key, value) for key, value in configs.items() if value is not None],
        )
        return CreateTopicsRequest([topic], 1000, self.random.random() < 0.1), 7

    def _topic(self) -> str | None:
        return self.random.choice(sorted(self.image.topic_ids)) if self.image.topic_ids else None

    def _delete_topic(self) -> tuple[Message, int] | None:
        name = self._topic()
        if name is None:
            return None
        by_id = DeleteTopicState(None, self.image.topic_ids[name])
        return DeleteTopicsRequest(
            [self.random.choice((DeleteTopicState(name), by_id, DeleteTopicState("none")))], [], 1000
        ), 6

    def _create_partitions(self) -> tuple[Message, int] | None:
        name = self._topic()
        topic = None if name is None else self.image.topic(name)
        if topic is None:
            return None
        count = len(topic.partitions)
        factors = {len(found.replicas) for found in topic.partitions.values()}
        if len(factors) > 1:
            return None  # which of them counts is chance there
        factor = factors.pop()
        assignment = CreatePartitionsAssignment(self.random.sample(_BROKERS, min(5, factor)))
        return CreatePartitionsRequest([CreatePartitionsTopic(topic.name, count + 1, [assignment])], 1000), 3

    def _partition(self) -> tuple[str, bytes, int] | None:
        name = self._topic()
        topic = None if name is None else self.image.topic(name)
        if topic is None:
            return None
        return topic.name, topic.id, self.random.choice(sorted(topic.partitions))

    def _alter_partition(self) -> tuple[Message, int] | None:
        found = self._partition()
        partition = None if found is None else self.image.partition(found[0], found[2])
        if found is None or partition is None or partition.leader not in self.image.brokers:
            return None
        leader = self.image.brokers[partition.leader]
        active = [id for id in partition.replicas if id in self.image.brokers and self.image.brokers[id].is_active]
        members = (
            active if self.random.random() < 0.5 else self.random.sample(active, self.random.randint(0, len(active)))
        )
        isr = [
            BrokerState(id, self.image.brokers[id].epoch) for id in {partition.leader: None, **dict.fromkeys(members)}
        ]
        if self.random.random() < 0.1:
            isr[-1].broker_epoch -= 1
        wrong = self.random.choice((0,) * 12 + (-1, 1))
        recovery = partition.leader_recovery_state if self.random.random() < 0.5 else 0
        asked = AlteredPartition(found[2], partition.leader_epoch, [], isr, recovery, partition.partition_epoch + wrong)
        return AlterPartitionRequest(leader.id, leader.epoch, [TopicData(found[1], [asked])]), 3

    def _elect(self) -> tuple[Message, int] | None:
        name = self._topic()
        wanted = None if name is None or self.random.random() < 0.2 else [TopicPartitions(name, [0, 1])]
        return ElectLeadersRequest(self.random.randrange(2), wanted, 1000), 2

    def _reassign(self) -> tuple[Message, int] | None:
        found = self._partition()
        if found is None:
            return None
        replicas = None if self.random.random() < 0.3 else self._replicas()
        if self.only_as_kafka and replicas is not None and self._is_confused_by(found[0], found[2], replicas):
            return None
        topics = [ReassignableTopic(found[0], [ReassignablePartition(found[2], replicas)])]
        return AlterPartitionReassignmentsRequest(1000, self.random.random() < 0.8, topics), 1

    def _is_confused_by(self, topic: str, index: int, target: list[int]) -> bool:
        """Whether Apache Kafka would go on with an earlier target beside this one, or count on an eligible replica that
        was moved away and comes back with an empty log.
        """
        partition = self.image.partition(topic, index)
        if partition is None:
            return False
        current = set(partition.replicas)
        goes_on_removing = bool(partition.removing_replicas) and current <= set(target)
        goes_on_adding = set(target) <= current and not set(partition.adding_replicas) <= set(target)
        counts_on_empty = bool((set(target) - current) & set(partition.elr))
        return goes_on_removing or goes_on_adding or counts_on_empty

    def _list_reassignments(self) -> tuple[Message, int]:
        return ListPartitionReassignmentsRequest(topics=None), 0

    def _assign(self) -> tuple[Message, int] | None:
        found, broker = self._partition(), self._registered()
        if found is None or broker is None:
            return None
        where = directory(broker, self.random.randrange(3))
        topics = [AssignedTopic(found[1], [PartitionData(found[2])])]
        return AssignReplicasToDirsRequest(broker, self.image.brokers[broker].epoch, [DirectoryData(where, topics)]), 0

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _configs(self) -> tuple[Message, int]:
        kind, name = self.random.choice(((2, self._topic() or "none"), (4, ""), (4, str(self._registered() or 1))))
        key, value, operation = self.random.choice(
            (
                ("min.insync.replicas", "2", 0),
                ("min.insync.replicas", None, 1),
                ("unclean.leader.election.enable", "true", 0),
                ("unclean.leader.election.enable", None, 1),
                ("cleanup.policy" if kind == 2 else "log.cleanup.policy", "compact", 2),
                ("cleanup.policy" if kind == 2 else "log.cleanup.policy", "delete", 3),
            )
        )
        resource = AlterConfigsResource(kind, name, [AlterableConfig(key, operation, value)])
        return IncrementalAlterConfigsRequest([resource], self.random.random() < 0.1), 1

    def _quotas(self) -> tuple[Message, int]:
        names = [("user", "alice"), ("user", None), ("client-id", "c"), ("ip", "1.2.3.4")]
        entity = [EntityData(*part) for part in dict(self.random.sample(names, self.random.randrange(1, 3))).items()]
        key = self.random.choice(("producer_byte_rate", "connection_creation_rate", "consumer_byte_rate"))
        op = OpData(key, self.random.choice((1.0, 2.0, 0.5, -1.0)), self.random.random() < 0.3)
        return AlterClientQuotasRequest([EntryData(entity, [op])]), 1

    def _scram(self) -> tuple[Message, int]:
        if self.random.random() < 0.4:
            return AlterUserScramCredentialsRequest([ScramCredentialDeletion("alice", 1)]), 0
        iterations = self.random.choice((4096, 5000, 10))
        upsertion = ScramCredentialUpsertion("alice", 1, iterations, b"salt", b"salted")
        return AlterUserScramCredentialsRequest([], [upsertion]), 0

    def _acls(self) -> tuple[Message, int]:
        if self.random.random() < 0.4:
            return DeleteAclsRequest(
                [DeleteAclsFilter(2, None, 1, self.random.choice((None, "User:a")), None, 1, 1)]
            ), 3
        who = self.random.choice(("User:a", "User:b", "nobody"))
        acls = [AclCreation(2, "flights", 3, who, "*", self.random.choice((3, 4)), 3)] * self.random.randint(1, 2)
        return CreateAclsRequest(acls), 3

    def _features(self) -> tuple[Message, int]:
        name, level, kind = self.random.choice(
            (
                ("eligible.leader.replicas.version", 1, 1),
                ("eligible.leader.replicas.version", 1, 1),
                ("group.version", 0, 2),
                ("group.version", 1, 1),
                ("metadata.version", 29, 2),
                ("metadata.version", 30, 1),
                ("transaction.version", 9, 1),
            )
        )
        return UpdateFeaturesRequest(1000, [FeatureUpdateKey(name, level, upgrade_type=kind)]), 2


# -- recording -------------------------------------------------------------------------------------------------------


def record(java: JavaController, seed: int, count: int) -> list[Step]:
    """Draw requests, ask Apache Kafka's controller, and return what it answered and wrote."""
    scenario = Scenario(seed, "YmFybmFiYXMtcGVlci0wMQ")
    scenario.only_as_kafka = True
    steps: list[Step] = []
    base = 0
    first: list[list[str]] = []
    while not scenario.image.controllers:  # it registers itself
        for base_offset, values in java.new_batches():
            base = base_offset + max(1, len(values))
            first.append([value.hex() for value in values])
            _follow(scenario, base - 1, values)
    steps.append({"log": first, "end": base})

    def ask(request: Message, version: int) -> None:
        response = java.ask(request, version)
        if getattr(request, "validate_only", False) and isinstance(request, CreateTopicsRequest):
            response.topics[0].topic_id = ZERO_UUID
        step = {
            "request": [request.API_KEY, version, request.encode(version).hex()],
            "response": shown(response).encode(version).hex(),
        }
        step["records"] = _written(java, scenario)
        steps.append(step)

    for number in range(count):
        for request, version in scenario.heartbeats():
            ask(request, version)
        if number % 25 == 24 and set(scenario.image.brokers) - scenario.silent:
            steps.append(_expire(java, scenario))
        else:
            ask(*scenario.draw())
    return steps


def _expire(java: JavaController, scenario: Scenario) -> Step:
    """Let one broker be silent until its session ends; the others go on."""
    victim = scenario.random.choice(sorted(set(scenario.image.brokers) - scenario.silent))
    scenario.silent.add(victim)
    deadline = time.monotonic() + _SESSION + 0.8
    written: list[str] = []
    while time.monotonic() < deadline:
        for request, version in scenario.steady_heartbeats():
            java.ask(request, version)
        written += _written(java, scenario)
        time.sleep(0.3)
    silent = sorted(scenario.silent)
    return {"expired": victim, "silent": silent, "records": written + _written(java, scenario)}


def _written(java: JavaController, scenario: Scenario) -> list[str]:
    found: list[str] = []
    for base_offset, values in java.new_batches():
        _follow(scenario, base_offset + len(values) - 1, values)
        found += [value.hex() for value in values]
    return found


def _follow(scenario: Scenario, last_offset: int, values: Sequence[bytes]) -> None:
    delta = MetadataDelta(scenario.image)
    for value in values:
        delta.replay(decode_record(value))
    scenario.image = delta.apply(last_offset, 1)


def shown(response: Any) -> Any:
    """Return a response without texts and waiting times, its parts in one order."""
    for name in response.__slots__:
        value = getattr(response, name)
        if name == "error_message":
            setattr(response, name, None if not isinstance(response, Message) else "")
        elif name == "throttle_time_ms":
            setattr(response, name, 0)
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            setattr(response, name, sorted((shown(one) for one in value), key=repr))
    return response


# -- telling ours ----------------------------------------------------------------------------------------------------


class _RecordedIds(random.Random):
    """Makes the ids that the recording has."""

    def __init__(self) -> None:
        super().__init__(1)
        self.ids: list[bytes] = []

    def getrandbits(self, k: int, /) -> int:
        return int.from_bytes(self.ids.pop(0), "big") if k == 128 and self.ids else super().getrandbits(k)


def differences(steps: Sequence[Step], levels: Mapping[str, int], config: Mapping[str, Any]) -> list[str]:
    """Tell our controller the steps of a recording; return what differs, up to the first record that does."""
    ids = _RecordedIds()
    controllers = Controllers(levels=levels, config=config, settings={"session_timeout": _SESSION}, random=ids)
    for values in steps[0]["log"]:
        start = controllers.quorum.end
        found = [bytes.fromhex(value) for value in values]
        controllers.quorum.log.append(Batch(start, start + max(1, len(found)) - 1, 1, 0, found))
    controllers.quorum.commit()
    controllers.quorum.elect(100, announce=False)
    assert controllers.quorum.end == steps[0]["end"]
    apis = ControllerApis(controllers.active, ControllerIdentity("", "CONTROLLER"))
    problems: list[str] = []
    for number, step in enumerate(steps[1:], 1):
        wanted = sorted(step["records"])
        ids.ids = [found for value in step["records"] if (found := _id_of(value)) is not None]
        before = len(controllers.quorum.log)
        response = _told(controllers, apis, step)
        written = sorted(value.hex() for batch in controllers.quorum.log[before:] for value in batch.values)
        if response is not None and response != step["response"]:
            problems.append(
                f"step {number}: {_request(step)}\n  ours   {_response(step, response)}\n"
                f"  theirs {_response(step, step['response'])}"
            )
        if written != wanted:
            return [
                *problems,
                f"step {number}: {_request(step)}\n{_listed('ours', written)}{_listed('theirs', wanted)}",
            ]
    return problems


def _told(controllers: Controllers, apis: ControllerApis, step: Step) -> str | None:
    if "expired" in step:
        scenario = Scenario(0, "")
        scenario.silent = set(step["silent"])

        def beat() -> None:
            scenario.image = controllers.active.state.image
            for request, version in scenario.steady_heartbeats():
                controllers.given(apis.handle(controllers.context(version), request))

        for _ in range(8):
            beat()
            controllers.now += _SESSION / 6
            controllers.tick(0.01)
        beat()
        return None
    key, version, data = step["request"]
    request: Any = request_class(key).decode(bytes.fromhex(data), version)
    response: Any = controllers.given(apis.handle(controllers.context(version), request))
    if isinstance(request, CreateTopicsRequest) and request.validate_only:
        response.topics[0].topic_id = ZERO_UUID  # it stands for nothing
    return shown(response).encode(version).hex()  # type: ignore[no-any-return]


def _id_of(value: str) -> bytes | None:
    record = decode_record(bytes.fromhex(value))
    if isinstance(record, TopicRecord):
        return record.topic_id
    return record.id if isinstance(record, AccessControlEntryRecord) else None


def _request(step: Step) -> str:
    if "expired" in step:
        return f"the session of broker {step['expired']} ends"
    key, version, data = step["request"]
    return repr(request_class(key).decode(bytes.fromhex(data), version))


def _response(step: Step, data: str) -> str:
    key, version, _ = step["request"]
    return repr(response_class(key).decode(bytes.fromhex(data), version))


def _listed(whose: str, values: Sequence[str]) -> str:
    return "".join(f"  {whose} {decode_record(bytes.fromhex(value))!r}\n" for value in values)
