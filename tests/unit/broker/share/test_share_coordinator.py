"""The share coordinator keeps the state of share-partitions, and has it again after a crash."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.share.coordinator.share_group_offset import SHARE_SNAPSHOT, SHARE_UPDATE
from barnabas.broker.share.persister import SharePartitionKey
from barnabas.protocol.messages import (
    delete_share_group_state_request,
    initialize_share_group_state_request,
    read_share_group_state_request,
    read_share_group_state_summary_request,
    write_share_group_state_request,
)
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.records import read_batches
from tests.support.core_broker import CoreBroker, CoreClient, create

UPDATES = "share.coordinator.snapshot.update.records.per.snapshot"


class Asker:
    """Asks the share coordinator about partition 0 of the topic t in the group g."""

    def __init__(self, broker: CoreBroker) -> None:
        self.broker = broker
        self.client: CoreClient = broker.connect()
        topic = broker.node.metadata.topic("t")
        if topic is None:
            self.client.request(create("t", 1), 7)
            topic = broker.node.metadata.topic("t")
        assert topic is not None
        self.topic_id = topic.id
        broker.advance(1)

    def ask(self, module: Any, name: str, topic: str, version: int, partition: int = 0, **fields: Any) -> Any:
        asked = module.PartitionData(partition=partition, **fields)
        topics = [getattr(module, topic)(topic_id=self.topic_id, partitions=[asked])]
        response = self.client.request(getattr(module, name)(group_id="g", topics=topics), version)
        return response.results[0].partitions[0]

    def initialize(self, state_epoch: int = 1, start_offset: int = 0, **fields: Any) -> Any:
        module = initialize_share_group_state_request
        fields = {"state_epoch": state_epoch, "start_offset": start_offset, **fields}
        return self.ask(module, "InitializeShareGroupStateRequest", "InitializeStateData", 0, **fields)

    def write(self, *batches: tuple[int, int, int, int], **fields: Any) -> Any:
        module = write_share_group_state_request
        told = {"state_epoch": 1, "leader_epoch": 0, "start_offset": 0, "delivery_complete_count": 0, **fields}
        told["state_batches"] = [module.StateBatch(*batch) for batch in batches]
        return self.ask(module, "WriteShareGroupStateRequest", "WriteStateData", 1, **told)

    def read(self, leader_epoch: int = 0) -> Any:
        module = read_share_group_state_request
        return self.ask(module, "ReadShareGroupStateRequest", "ReadStateData", 0, leader_epoch=leader_epoch)

    def batches(self) -> list[tuple[int, int, int, int]]:
        found = self.read(-1).state_batches
        return [(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in found]

    def summary(self) -> Any:
        module = read_share_group_state_summary_request
        return self.ask(module, "ReadShareGroupStateSummaryRequest", "ReadStateSummaryData", 1, leader_epoch=0)

    def delete(self) -> Any:
        return self.ask(delete_share_group_state_request, "DeleteShareGroupStateRequest", "DeleteStateData", 0)

    def stored_types(self) -> list[int]:
        """The types of the records in the partition of the topic that holds the share-partition."""
        log = self.log()
        found = log.read(log.log_start_offset, 1 << 20).records
        return [int.from_bytes(record.key[:2], "big") for batch in read_batches(found) for record in batch]

    def log(self) -> Any:
        key = SharePartitionKey("g", self.topic_id, 0).coordinator_key
        number = self.broker.state.share_coordinator.partition_for(key)
        return self.broker.state.replica_manager.partition("__share_group_state", number).log


@pytest.fixture
def asker(broker: CoreBroker) -> Asker:
    return Asker(broker)


def test_what_is_written_is_read(asker: Asker) -> None:
    assert asker.initialize(start_offset=10).error_code == 0
    assert asker.write((10, 14, 2, 1), (15, 19, 0, 1), start_offset=10, delivery_complete_count=5).error_code == 0
    found = asker.read()
    assert (found.state_epoch, found.start_offset) == (1, 10)
    assert asker.batches() == [(10, 14, 2, 1), (15, 19, 0, 1)]
    summary = asker.summary()
    assert (summary.start_offset, summary.delivery_complete_count) == (10, 5)


def test_what_was_stored_is_there_after_a_crash(asker: Asker) -> None:
    asker.initialize()
    for offset in range(12):
        asker.write((offset, offset, 2, 1), start_offset=offset // 2)
    before = asker.batches()
    after = Asker(asker.broker.crashed())
    assert after.batches() == before == [(5, 11, 2, 1)]


@pytest.mark.parametrize("updates", [0, 1, 3])
def test_after_so_many_updates_comes_a_snapshot(updates: int) -> None:
    asker = Asker(CoreBroker({UPDATES: updates}))
    asker.initialize()
    for offset in range(2 * (updates + 1)):
        asker.write((offset, offset, 4, 1))
    again = [SHARE_UPDATE] * updates + [SHARE_SNAPSHOT]
    assert asker.stored_types() == [SHARE_SNAPSHOT, *again, *again]


def test_a_write_of_an_older_leader_or_state_is_refused(asker: Asker) -> None:
    asker.initialize(state_epoch=3)
    asker.read(leader_epoch=5)
    assert asker.write((0, 0, 2, 1), state_epoch=3, leader_epoch=4).error_code == errors.FencedLeaderEpochError.code
    assert asker.write((0, 0, 2, 1), state_epoch=2, leader_epoch=5).error_code == errors.FencedStateEpochError.code
    assert asker.write((0, 0, 2, 1), state_epoch=-1, leader_epoch=-1).error_code == 0
    assert asker.read(leader_epoch=4).error_code == errors.FencedLeaderEpochError.code
    assert asker.initialize(state_epoch=2).error_code == errors.FencedStateEpochError.code
    assert asker.batches() == [(0, 0, 2, 1)]


def test_a_leader_epoch_that_was_read_with_is_known_after_a_crash(asker: Asker) -> None:
    asker.initialize()
    asker.read(leader_epoch=7)
    assert Asker(asker.broker.crashed()).summary().leader_epoch == 7


def test_what_begins_anew_has_nothing_of_before(asker: Asker) -> None:
    asker.initialize()
    asker.write((0, 9, 2, 1))
    assert asker.initialize(state_epoch=2, start_offset=-1).error_code == 0
    assert asker.batches() == []
    assert asker.summary().delivery_complete_count == -1


def test_what_is_deleted_is_gone_after_a_crash(asker: Asker) -> None:
    asker.initialize()
    assert asker.delete().error_code == 0
    assert asker.delete().error_code == 0
    for one in (asker, Asker(asker.broker.crashed())):
        assert one.read().error_code == errors.InvalidRequestError.code
        assert one.summary().start_offset == -1


def test_an_uninitialized_share_partition_is_neither_read_nor_written(asker: Asker) -> None:
    assert asker.read().error_code == errors.InvalidRequestError.code
    refused = asker.write((0, 0, 2, 1))
    assert refused.error_code == errors.InvalidRequestError.code
    assert "uninitialized" in refused.error_message


def test_partitions_that_are_not_there_are_refused(asker: Asker) -> None:
    assert asker.initialize(partition=1).error_code == errors.UnknownTopicOrPartitionError.code
    assert asker.initialize(partition=-1).error_code == errors.InvalidRequestError.code


def test_records_that_nothing_needs_are_deleted(asker: Asker) -> None:
    asker.initialize()
    for _ in range(3):
        asker.initialize(state_epoch=1)
    assert asker.log().log_start_offset == 0
    # The sweep looks at one partition a tick, and there are fifty.
    asker.broker.advance(310)
    # Four snapshots, and a fifth because there was no write for long.
    assert asker.log().log_start_offset == 4
    assert asker.read().error_code == 0


def test_what_has_no_writes_gets_a_snapshot_so_that_it_holds_up_nothing() -> None:
    asker = Asker(CoreBroker({"share.coordinator.state.topic.num.partitions": 1}))
    asker.initialize()
    asker.write((0, 9, 2, 1))
    asker.broker.advance(310)
    assert asker.stored_types() == [SHARE_SNAPSHOT]
    assert asker.batches() == [(0, 9, 2, 1)]


def test_find_coordinator_names_who_keeps_a_share_partition(asker: Asker) -> None:
    key = SharePartitionKey("g", asker.topic_id, 0).coordinator_key
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key, "g", "g:x:0"])
    found = asker.client.request(request, 6).coordinators
    codes = [one.error_code for one in found]
    assert codes == [0, errors.InvalidRequestError.code, errors.InvalidRequestError.code]


def test_a_deleted_topic_takes_its_states_along(asker: Asker) -> None:
    asker.initialize()
    asker.broker.state.share_coordinator.on_topic_deleted(asker.topic_id, asker.broker.instant)
    assert asker.summary().start_offset == -1
