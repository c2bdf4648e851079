"""Batches as the listeners of the quorum's log get them."""

from barnabas.broker.metadata.metadata_records import encode_record
from barnabas.broker.raft.offset_and_epoch import LeaderAndEpoch, OffsetAndEpoch
from barnabas.broker.raft.raft_client import Batch
from barnabas.protocol.messages.no_op_record import NoOpRecord
from barnabas.protocol.messages.topic_record import TopicRecord


def test_a_batch_decodes_its_records_in_order() -> None:
    values = [encode_record(TopicRecord(name="flights", topic_id=bytes(16)), 0), encode_record(NoOpRecord(), 0)]
    batch = Batch(base_offset=7, last_offset=8, epoch=3, append_timestamp=1_000, values=values)
    topic, nothing = batch.records()
    assert isinstance(topic, TopicRecord)
    assert topic.name == "flights"
    assert isinstance(nothing, NoOpRecord)


def test_the_log_of_the_later_epoch_is_ahead_whatever_its_length() -> None:
    assert OffsetAndEpoch(offset=3, epoch=2).is_at_least(OffsetAndEpoch(offset=9, epoch=1))
    assert not OffsetAndEpoch(offset=9, epoch=1).is_at_least(OffsetAndEpoch(offset=3, epoch=2))
    assert OffsetAndEpoch(offset=3, epoch=2).is_at_least(OffsetAndEpoch(offset=3, epoch=2))


def test_only_the_node_that_is_named_leads() -> None:
    assert LeaderAndEpoch(leader_id=1, epoch=4).is_leader(1)
    assert not LeaderAndEpoch(leader_id=None, epoch=4).is_leader(1)
