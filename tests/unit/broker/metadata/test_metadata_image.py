"""The image of a cluster's metadata: what each record says, and that no image ever changes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from barnabas.broker.metadata.metadata_delta import MetadataDelta
from barnabas.broker.metadata.metadata_image import Endpoint, MetadataImage
from barnabas.broker.metadata.metadata_records import RECORDS, decode_record, encode_record, record_class
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.errors import IllegalStateError, ProtocolError, UnsupportedVersionError
from barnabas.protocol.json_view import to_message
from barnabas.protocol.message import Message
from tests.vectors.message_vectors import vectors_of

FLIGHTS, PLANES = bytes(15) + b"\x0f", bytes(15) + b"\x0a"


def record(kind: str, /, **fields: Any) -> Message:
    found = next(cls for cls in map(record_class, RECORDS) if cls.__name__ == kind)
    return found(**fields)


def image_of(*records: Message, on: MetadataImage | None = None, offset: int = 9) -> MetadataImage:
    delta = MetadataDelta(on or MetadataImage())
    for one in records:
        delta.replay(one)
    return delta.apply(offset, 3)


def broker(id: int, epoch: int = 5, **more: Any) -> Message:
    usual = {"broker_epoch": epoch, "rack": f"rack-{id}", "log_dirs": [bytes([id]) * 16]}
    return record("RegisterBrokerRecord", broker_id=id, **{**usual, **more})


def topic(name: str = "flights", id: bytes = FLIGHTS) -> Message:
    return record("TopicRecord", name=name, topic_id=id)


def partition(index: int = 0, id: bytes = FLIGHTS, **more: Any) -> Message:
    usual = {"replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
    return record("PartitionRecord", partition_id=index, topic_id=id, **{**usual, **more})


def changed(index: int = 0, **fields: Any) -> Message:
    return record("PartitionChangeRecord", partition_id=index, topic_id=FLIGHTS, **fields)


# -- bytes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record_type", RECORDS)
def test_every_record_goes_through_its_frame_unchanged_in_every_version(record_type: int) -> None:
    cls = record_class(record_type)
    found = [vector for vector in vectors_of("message-vectors-metadata") if vector.message == cls.NAME]
    assert {vector.version for vector in found} == set(range(cls.VALID_VERSIONS[0], cls.VALID_VERSIONS[1] + 1))
    for vector in found:
        value = encode_record(to_message(cls, vector.version, vector.json), vector.version)
        assert value == bytes((1, record_type, vector.version)) + vector.data
        again = decode_record(value)
        assert type(again) is cls
        assert again.encode(vector.version) == vector.data


def test_a_record_of_a_type_or_frame_that_is_not_known_is_named_as_such() -> None:
    with pytest.raises(UnsupportedVersionError, match="type 99"):
        decode_record(bytes((1, 99, 0)))
    with pytest.raises(UnsupportedVersionError, match="frame version 7"):
        decode_record(bytes((7, 2, 0)))
    for damaged in (b"", b"\x01", b"\x01\x80", b"\x01\xff\xff\xff\xff\xff\xff", encode_record(topic(), 0)[:-1]):
        with pytest.raises(ProtocolError):
            decode_record(damaged)


# -- brokers ---------------------------------------------------------------------------------------------------------


def test_a_broker_is_fenced_until_it_is_unfenced_in_the_same_epoch() -> None:
    registered = image_of(broker(1))
    assert not registered.brokers[1].is_alive
    unfenced = image_of(record("UnfenceBrokerRecord", id=1, epoch=5), on=registered)
    assert unfenced.brokers[1].is_alive
    assert unfenced.brokers[1].rack == "rack-1"
    with pytest.raises(IllegalStateError, match="broker 1 of epoch 4"):
        image_of(record("FenceBrokerRecord", id=1, epoch=4), on=unfenced)
    with pytest.raises(IllegalStateError, match="broker 2"):
        image_of(record("FenceBrokerRecord", id=2, epoch=5), on=unfenced)


@pytest.mark.parametrize(
    ("fields", "fenced", "leaving", "directories"),
    [
        ({}, True, False, 1),
        ({"fenced": -1}, False, False, 1),
        ({"fenced": 1}, True, False, 1),
        ({"in_controlled_shutdown": 1}, True, True, 1),
        ({"log_dirs": [FLIGHTS, PLANES]}, True, False, 2),
    ],
)
def test_a_change_of_a_registration_changes_what_it_names(
    fields: dict[str, Any], fenced: bool, leaving: bool, directories: int
) -> None:
    change = record("BrokerRegistrationChangeRecord", broker_id=1, broker_epoch=5, **fields)
    found = image_of(broker(1), change).brokers[1]
    assert (found.fenced, found.in_controlled_shutdown, len(found.directories)) == (fenced, leaving, directories)


def test_a_broker_that_is_unregistered_is_gone() -> None:
    found = image_of(broker(1), broker(2), record("UnregisterBrokerRecord", broker_id=1, broker_epoch=5))
    assert list(found.brokers) == [2]


def test_where_a_broker_is_reached_stands_under_the_names_of_its_listeners() -> None:
    module = type(broker(1)).__module__
    endpoint = __import__(module, fromlist=["BrokerEndpoint"]).BrokerEndpoint
    found = image_of(broker(1, end_points=[endpoint(name="PLAINTEXT", host="a", port=9092, security_protocol=0)]))
    assert found.brokers[1].listeners == {"PLAINTEXT": Endpoint("a", 9092, 0)}


# -- topics ----------------------------------------------------------------------------------------------------------


def test_a_topic_is_found_by_name_and_id_with_its_partitions() -> None:
    found = image_of(topic(), partition(0), partition(1, leader=2))
    assert found.topic("flights") is found.topics[FLIGHTS]
    assert found.partition("flights", 1) == PartitionRegistration((1, 2, 3), (1, 2, 3), 2, 0, 0)
    assert found.partition("flights", 2) is None
    assert found.topic("planes") is None


def test_a_change_of_the_isr_leaves_the_leader_epoch_and_one_of_the_leader_begins_another() -> None:
    before = image_of(topic(), partition(0))
    shrunk = image_of(changed(isr=[1, 2]), on=before).partition("flights", 0)
    assert shrunk == PartitionRegistration((1, 2, 3), (1, 2), 1, 0, 1)
    moved = image_of(changed(leader=2, isr=[2]), changed(leader=2), on=before).partition("flights", 0)
    assert moved == PartitionRegistration((1, 2, 3), (2,), 2, 2, 2)


def test_a_change_can_name_everything_that_a_partition_has() -> None:
    fields = {
        "replicas": [4, 5], "removing_replicas": [1], "adding_replicas": [5], "eligible_leader_replicas": [3],
        "last_known_elr": [2], "directories": [FLIGHTS, PLANES], "leader_recovery_state": 1, "leader": -1,
    }  # fmt: skip
    found = image_of(topic(), partition(0), changed(**fields)).partition("flights", 0)
    assert found == PartitionRegistration(
        (4, 5), (1, 2, 3), -1, 1, 1, (3,), (2,), (5,), (1,), (FLIGHTS, PLANES), leader_recovery_state=1
    )


@pytest.mark.parametrize("of", [{"topic_name": "flights"}, {}])
def test_eligible_leader_replicas_are_cleared_of_a_topic_or_of_all(of: dict[str, str]) -> None:
    change = changed(eligible_leader_replicas=[3], last_known_elr=[2])
    found = image_of(topic(), partition(0), change, record("ClearElrRecord", **of)).partition("flights", 0)
    assert found is not None
    assert (found.elr, found.last_known_elr, found.partition_epoch) == ((), (), 2)


def test_a_topic_that_is_removed_takes_its_settings_along_and_its_name_is_free() -> None:
    config = record("ConfigRecord", resource_type=2, resource_name="flights", name="retention.ms", value="1")
    before = image_of(topic(), partition(0), config)
    removed = image_of(record("RemoveTopicRecord", topic_id=FLIGHTS), on=before)
    assert (removed.topics, removed.topic_ids, removed.configs) == ({}, {}, {})
    again = image_of(record("RemoveTopicRecord", topic_id=FLIGHTS), topic(id=PLANES), on=before)
    assert again.topic("flights") == again.topics[PLANES]


def test_records_of_what_is_not_there_are_refused() -> None:
    for one in (partition(0), changed(0), record("RemoveTopicRecord", topic_id=FLIGHTS)):
        with pytest.raises(IllegalStateError, match=FLIGHTS.hex()):
            image_of(one)
    with pytest.raises(IllegalStateError, match="partition 7"):
        image_of(topic(), changed(7))


# -- the rest --------------------------------------------------------------------------------------------------------


def test_a_setting_is_put_and_deleted_and_a_resource_without_any_is_gone() -> None:
    def config(value: str | None, name: str = "retention.ms") -> Message:
        return record("ConfigRecord", resource_type=2, resource_name="flights", name=name, value=value)

    found = image_of(config("1"), config("2", "segment.bytes"), config("3"))
    assert found.configs == {(2, "flights"): {"retention.ms": "3", "segment.bytes": "2"}}
    assert image_of(config(None), config(None, "segment.bytes"), on=found).configs == {}


def test_a_quota_belongs_to_its_entity_in_whatever_order_that_is_named() -> None:
    kind = __import__(record_class(14).__module__, fromlist=["EntityData"]).EntityData
    parts = [kind(entity_type="user", entity_name="alice"), kind(entity_type="client-id", entity_name=None)]
    put = record("ClientQuotaRecord", entity=parts, key="producer_byte_rate", value=5.0)
    removed = record("ClientQuotaRecord", entity=parts[::-1], key="producer_byte_rate", remove=True)
    entity = frozenset({("user", "alice"), ("client-id", None)})
    assert image_of(put).client_quotas == {entity: {"producer_byte_rate": 5.0}}
    assert image_of(put, removed).client_quotas == {}


def test_a_feature_at_level_0_is_not_in_use() -> None:
    def level(number: int) -> Message:
        return record("FeatureLevelRecord", name="transaction.version", feature_level=number)

    assert image_of(level(2)).features == {"transaction.version": 2}
    assert image_of(level(2), level(0)).features == {}


def test_what_has_a_key_is_put_and_removed_by_it() -> None:
    acl = record("AccessControlEntryRecord", id=FLIGHTS, resource_name="flights")
    scram = record("UserScramCredentialRecord", name="alice", mechanism=2)
    token = record("DelegationTokenRecord", token_id="t")
    found = image_of(acl, scram, token, record("ProducerIdsRecord", next_producer_id=3000))
    assert (list(found.acls), list(found.scram_credentials), list(found.delegation_tokens)) == (
        [FLIGHTS], [("alice", 2)], ["t"],
    )  # fmt: skip
    assert found.next_producer_id == 3000
    gone = image_of(
        record("RemoveAccessControlEntryRecord", id=FLIGHTS),
        record("RemoveUserScramCredentialRecord", name="alice", mechanism=2),
        record("RemoveDelegationTokenRecord", token_id="t"),
        on=found,
    )
    assert (gone.acls, gone.scram_credentials, gone.delegation_tokens) == ({}, {}, {})


def test_records_that_say_nothing_of_the_cluster_change_the_offset_only() -> None:
    before = image_of(topic(), partition(0))
    after = image_of(record("NoOpRecord"), record("ZkMigrationStateRecord"), on=before, offset=20)
    assert after == before._replace(offset=20)


# -- what images share -----------------------------------------------------------------------------------------------


def test_an_image_shares_with_the_next_all_that_did_not_change() -> None:
    topics = [one for n in range(100) for one in (topic(f"t{n}", bytes([n]) * 16), partition(0, bytes([n]) * 16))]
    before = image_of(broker(1), *topics, topic(), partition(0), partition(1))
    after = image_of(changed(1, isr=[1]), on=before)
    assert after.brokers is before.brokers
    assert after.topic_ids is before.topic_ids
    assert after.configs is before.configs
    others = [id for id in before.topics if id != FLIGHTS]
    assert all(after.topics[id] is before.topics[id] for id in others)
    assert after.topics[FLIGHTS].partitions[0] is before.topics[FLIGHTS].partitions[0]
    assert after.topics[FLIGHTS].partitions[1] is not before.topics[FLIGHTS].partitions[1]


def test_no_record_changes_an_image_that_is_there() -> None:
    before = image_of(
        broker(1), topic(), partition(0), partition(1),
        record("ConfigRecord", resource_type=2, resource_name="flights", name="a", value="1"),
        record("FeatureLevelRecord", name="kraft.version", feature_level=1),
    )  # fmt: skip
    copy = deepcopy(before)
    image_of(
        broker(1, 6), broker(2), record("UnfenceBrokerRecord", id=1, epoch=6), changed(0, leader=2, isr=[2]),
        partition(2), topic("planes", PLANES), partition(0, PLANES),
        record("ConfigRecord", resource_type=2, resource_name="flights", name="a", value=None),
        record("FeatureLevelRecord", name="kraft.version", feature_level=0),
        record("RemoveTopicRecord", topic_id=FLIGHTS), record("UnregisterBrokerRecord", broker_id=2),
        on=before,
    )  # fmt: skip
    assert before == copy
