"""Controllers under random requests, lost leaderships and crashes between append and commit.

Promises after every step: no partition is led by who may lack records or is not alive; epochs only grow; what the log
says, what live controllers go by, and what a snapshot and the rest of the log make are the same; whoever was answered
finds the answer in the log.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.controller import controller_state, partition_changes
from barnabas.broker.controller.cluster_control_manager import ClusterControlManager, PreviousLife
from barnabas.broker.controller.controller_apis import ControllerApis, ControllerIdentity
from barnabas.broker.controller.controller_state import ControllerState, Replayed
from barnabas.broker.controller.deferred import Deferred, DeferredQueue
from barnabas.broker.controller.envelopes import says_not_controller
from barnabas.broker.controller.isr_control_manager import IsrControlManager
from barnabas.broker.controller.partition_change_builder import PartitionChangeBuilder
from barnabas.broker.controller.partition_indexes import PartitionIndexes, _Groups
from barnabas.broker.controller.partition_reassignment import CompletedReassignment, PartitionReassignmentReplicas
from barnabas.broker.controller.quorum_controller import QuorumController
from barnabas.broker.metadata import image_records as image_records_module
from barnabas.broker.metadata import metadata_delta
from barnabas.broker.metadata.image_records import image_records
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.protocol.message import Message
from barnabas.protocol.messages.alter_partition_request import AlterPartitionRequest
from barnabas.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from tests.support.controller_scenarios import Scenario
from tests.support.controllers import CLUSTER_ID, WITH_ELR, Controllers
from tests.support.memory_quorum import MemorySnapshot

_STEPS = 120


class BrokenError(AssertionError):
    """A promise was not kept."""


def promise(holds: bool, text: str) -> None:
    if not holds:
        raise BrokenError(text)


class History:
    """One run: three controllers, and a model of what was promised."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.controllers = Controllers(
            3, levels=WITH_ELR, seed=seed, config={"min.insync.replicas": 2}, settings={"max_records_per_batch": 40}
        )
        self.scenario = Scenario(seed, CLUSTER_ID)
        self.waiting: list[tuple[Deferred[Message], Message, QuorumController, int]] = []
        self.replayed = Replayed()
        self.seen = 0
        self.elect()

    def elect(self) -> None:
        quorum = self.controllers.quorum
        waiting = len(quorum.log) - quorum.committed
        quorum.elect(self.random.choice(sorted(quorum.nodes)), keep=self.random.randint(0, waiting))

    @property
    def active(self) -> QuorumController | None:
        return next((found for found in self.controllers.controllers.values() if found.is_active), None)

    def run(self) -> None:
        for _ in range(_STEPS):
            self.step()
            self.check()
        self.controllers.settle()
        self.check()
        promise(not self.controllers.reports, f"a controller gave up: {self.controllers.reports}")

    def step(self) -> None:
        chance = self.random.random()
        if self.active is None or chance < 0.04:
            self.elect()
        elif chance < 0.06:
            self.controllers.crash(self.random.choice(sorted(self.controllers.controllers)))
        elif chance < 0.25:
            self.controllers.quorum.commit(self.random.randint(1, 3))
        elif chance < 0.29:
            self.controllers.now += self.random.choice((2.0, 10.0))
            self.active.tick(self.controllers.instant())
        else:
            self.ask(self.active)

    def ask(self, active: QuorumController) -> None:
        self.scenario.image = active.state.image
        before = active.state.image
        requests = [self.scenario.draw()]
        if self.random.random() < 0.5:
            requests += self.scenario.heartbeats()
        for request, version in requests:
            apis = ControllerApis(active, ControllerIdentity(CLUSTER_ID, "CONTROLLER"))
            if not active.is_active:
                return
            end = active.next_write_offset
            answer = apis.handle(self.controllers.context(version), request)
            promise(active.is_active, f"{request} cost the leadership: {self.controllers.reports}")
            self.waiting.append((answer, request, active, active.next_write_offset - 1))
            self.check_request(request, before, active, wrote=active.next_write_offset > end)
            before = active.state.image

    def check_request(self, request: Any, before: MetadataImage, active: QuorumController, *, wrote: bool) -> None:
        if isinstance(request, AlterPartitionRequest) and wrote:
            asked = request.topics[0].partitions[0]
            partition = before.topics[request.topics[0].topic_id].partitions[asked.partition_index]
            promise(asked.partition_epoch == partition.partition_epoch, "an old partition epoch was taken")
            for member in asked.new_isr_with_epochs:
                broker = before.brokers[member.broker_id]
                promise(broker.is_active and broker.epoch == member.broker_epoch, "who is not eligible joined an ISR")
        if isinstance(request, BrokerRegistrationRequest) and wrote:
            old = before.brokers.get(request.broker_id)
            is_new = old is None or old.incarnation_id != request.incarnation_id
            is_clean = old is not None and old.epoch == request.previous_broker_epoch
            after = active.state.image
            if is_new and not is_clean and after.features.get("eligible.leader.replicas.version"):
                for topic in after.topics.values():
                    for found in topic.partitions.values():
                        promise(request.broker_id not in (*found.isr, *found.elr), "an unclean end stayed in sync")

    # -- promises ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        active = self.active
        if active is not None:
            check_partitions(active.state.image)
            fresh = PartitionIndexes.of(active.state.image)
            promise(indexes_of(active.state.indexes) == indexes_of(fresh), "an index is not the image's")
        self.check_log()
        self.check_answers()

    def check_log(self) -> None:
        quorum = self.controllers.quorum
        for batch in quorum.log[self.seen : quorum.committed]:
            if batch.values:
                old = self.replayed
                self.replayed = controller_state.replayed(old, list(batch.records()), batch.base_offset, batch.epoch)
                check_change(old.image, self.replayed.image)
        self.seen = quorum.committed
        for controller in self.controllers.controllers.values():
            promise(controller.committed_image == self.replayed.stable.image, "a controller differs from the log")
        if self.random.random() < 0.05 and self.replayed.before_transaction is None:
            self.check_snapshot()

    def check_snapshot(self) -> None:
        image = self.replayed.image
        reader = MemorySnapshot(OffsetAndEpoch(image.offset + 1, image.epoch), list(image_records(image)))
        standby = Controllers().controllers[100]
        standby.handle_load_snapshot(reader)
        promise(standby.committed_image == image, "a snapshot is not what it was made of")

    def check_answers(self) -> None:
        quorum, still = self.controllers.quorum, []
        end = quorum.log[quorum.committed - 1].last_offset if quorum.committed else -1
        for waiting in self.waiting:
            answer, request, asked, offset = waiting
            if not answer.is_done:
                if asked in self.controllers.controllers.values():
                    still.append(waiting)  # else its process has died, and the connection with it
                continue
            response: Any = answer.value
            is_refused = says_not_controller(response)
            promise(is_refused or not _wrote(response) or offset <= end, f"{request} was answered too early")
            if not is_refused and _wrote(response):
                self.check_creation(response)
        self.waiting = still
        promise(len(still) < 60 or quorum.committed < len(quorum.log), "an answer never comes")

    def check_creation(self, response: Any) -> None:
        if type(response).__name__ != "CreateTopicsResponse":
            return
        ids = {
            getattr(record, "topic_id", None)
            for batch in self.controllers.quorum.log[: self.controllers.quorum.committed]
            for record in batch.records()
        }
        for topic in response.topics:
            if not topic.error_code and not self._only_asked(topic.topic_id):
                promise(topic.topic_id in ids, "a topic was promised and is not in the log")

    def _only_asked(self, topic_id: bytes) -> bool:
        return topic_id not in self.created

    @property
    def created(self) -> set[bytes]:
        """Topics that requests were to create, not only to ask about."""
        return {
            result.topic_id
            for answer, request, _, _ in self.waiting
            if type(request).__name__ == "CreateTopicsRequest" and not getattr(request, "validate_only", False)
            for result in getattr(answer.value, "topics", ())
        }


_READS = ("BrokerHeartbeatResponse", "ListPartitionReassignmentsResponse")


def _wrote(response: Any) -> bool:
    # What fails as a whole wrote nothing, and is told at once.
    return not getattr(response, "error_code", 0) and type(response).__name__ not in _READS


def check_partitions(image: MetadataImage) -> None:
    for topic in image.topics.values():
        for found in topic.partitions.values():
            promise(set(found.isr) <= set(found.replicas), "who has no replica is in sync")
            promise(not set(found.isr) & set(found.elr), "in ISR and ELR at once")
            promise(len(set(found.replicas)) == len(found.replicas), "a replica stands twice")
            promise(set(found.adding_replicas) <= set(found.replicas), "what is added is no replica")
            if found.leader >= 0:
                promise(found.leader in found.isr, "who is not in sync leads")
                broker = image.brokers.get(found.leader)
                promise(broker is not None and broker.is_active, "who is not alive leads")


def check_change(old: MetadataImage, new: MetadataImage) -> None:
    for topic_id, topic in new.topics.items():
        before = old.topics.get(topic_id)
        if before is None or before is topic:
            continue
        for index, found in topic.partitions.items():
            was = before.partitions.get(index)
            if was is None or was is found:
                continue
            promise(found.partition_epoch > was.partition_epoch, "a partition epoch did not grow")
            promise(found.leader_epoch >= was.leader_epoch, "a leader epoch went back")
            if found.leader != was.leader:
                promise(found.leader_epoch > was.leader_epoch, "another leader in the same epoch")
            may_lead = {*was.isr, *was.elr, -1, *found.isr[1:]}
            # Who ends a reassignment by joining the ISR may lead at once.
            has_ended = was.is_reassigning and not found.is_reassigning
            is_clean = found.leader in may_lead or len(found.isr) > 1 or has_ended
            is_allowed = found.leader_recovery_state or was.last_known_elr == (found.leader,)
            promise(bool(is_clean or is_allowed), "a leader that may lack records, and nobody is told")


def indexes_of(indexes: PartitionIndexes) -> list[Any]:
    groups: list[Any] = [
        {key: sorted(value) for key, value in found._groups.items()}
        for found in vars(indexes).values()
        if isinstance(found, _Groups)
    ]
    return [*groups, indexes._folded_names]


@pytest.mark.parametrize("seed", range(6))
def test_promises_hold(seed: int) -> None:
    History(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_promises_hold_in_many_histories(seed: int) -> None:
    History(seed).run()


# -- planted faults --------------------------------------------------------------------------------------------------


def _answer_at_once(self: Any, offset: int, deferred: Any, value: Any) -> None:
    deferred.complete(value)


def _drop_nothing(self: Any, new: Replayed, *, is_active: bool) -> None:
    if self.replayed.image.offset <= new.image.offset:
        self.replayed = new
    self.indexes = PartitionIndexes.of(self.replayed.image) if is_active else PartitionIndexes()


def _without(method: str) -> Callable[..., None]:
    return lambda self, *given, **more: None


def _always(value: Any) -> Callable[..., Any]:
    return lambda *given, **more: value


def _shows_uncommitted(self: QuorumController) -> MetadataImage:
    return self.state.image


def _completes_early(self: PartitionReassignmentReplicas, isr: Any) -> CompletedReassignment | None:
    if not self.adding and not self.removing:
        return None
    return CompletedReassignment([one for one in self.replicas if one not in self.removing], list(isr))


def _any_leads(self: PartitionChangeBuilder, replica: int) -> bool:
    return replica >= 0 and self._rules.is_acceptable_leader(replica)


def _no_epochs(self: IsrControlManager, broker_id: int, partition: Any, asked: Any) -> Any:
    isr = [member.broker_id for member in asked.new_isr_with_epochs]
    return None if broker_id == partition.leader and set(isr) <= set(partition.replicas) else errors.InvalidRequestError


def _forgets_gone(self: Any, wanted: Any, **who: int) -> Any:
    return []


def _keeps_leader_epoch(found: Any, record: Any) -> Any:
    changed = _CHANGED(found, record)
    return changed._replace(leader_epoch=found.leader_epoch)


def _keeps_unclean(self: Any) -> None:
    self.unclean_shutdown = ()
    _POPULATE(self)


_POPULATE = PartitionChangeBuilder._populate_elr
_CHANGED = metadata_delta.changed_partition

FAULTS: dict[str, tuple[Any, str, Any]] = {
    "answers before the commit": (DeferredQueue, "add", _answer_at_once),
    "keeps what was not committed": (ControllerState, "restart", _drop_nothing),
    "lets answers wait beyond its leadership": (DeferredQueue, "fail_all", _without("fail_all")),
    "shows what is not committed": (QuorumController, "committed_image", property(_shows_uncommitted)),
    "elects anybody": (PartitionChangeBuilder, "_may_lead", _any_leads),
    "elects who is fenced": (partition_changes.PartitionChanges, "_acceptor", _always(lambda broker_id: True)),
    "moves no leaders": (partition_changes.PartitionChanges, "updates", _forgets_gone),
    "takes any ISR": (IsrControlManager, "_problem", _no_epochs),
    "ends reassignments early": (PartitionReassignmentReplicas, "completed", _completes_early),
    "takes every end for clean": (
        ClusterControlManager,
        "previous_life",
        lambda self, request, version: PreviousLife(request.broker_id, True),
    ),
    "keeps who ended uncleanly": (PartitionChangeBuilder, "_populate_elr", _keeps_unclean),
    "forgets the index": (PartitionIndexes, "change", _without("change")),
    "begins no leader epoch": (
        __import__("barnabas.broker.metadata.metadata_delta", fromlist=["x"]),
        "changed_partition",
        _keeps_leader_epoch,
    ),
    "writes no ACLs into snapshots": (image_records_module, "_settings", lambda image: iter(())),
    "follows no registrations": (ClusterControlManager, "follow", _without("follow")),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, instead = FAULTS[fault]
    monkeypatch.setattr(where, name, instead)
    for seed in range(40):
        try:
            History(seed).run()
        except (BrokenError, errors.KafkaError, KeyError):
            return
    pytest.fail(f"40 histories do not find a controller that {fault}")
