"""Fetch sessions: what each request names, and what the broker's answers do to the session (KIP-227)."""

from __future__ import annotations

from barnabas.client.consumer.fetching.fetch_config import FetchConfig
from barnabas.client.consumer.fetching.fetch_request import fetch_request
from barnabas.client.consumer.fetching.fetch_session_handler import FetchPartitionData, FetchSessionHandler
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.messages.fetch_response import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID, OTHER_ID = b"1" * 16, b"2" * 16


def data(offset: int, topic_id: bytes = ID) -> FetchPartitionData:
    return FetchPartitionData(topic_id, offset, 100)


def opened(*partitions: TopicPartition) -> FetchSessionHandler:
    """A session that the broker granted with these partitions at offset 0."""
    handler = FetchSessionHandler(1)
    handler.build({partition: data(0) for partition in partitions})
    assert handler.handle_response(FetchResponse(session_id=7))
    return handler


def test_the_first_request_is_full_and_asks_for_a_session() -> None:
    request = FetchSessionHandler(1).build({T0: data(0), T1: data(5)})

    assert (request.session_id, request.session_epoch) == (0, 0)
    assert request.is_full
    assert dict(request.to_send) == {T0: data(0), T1: data(5)}


def test_later_requests_name_only_what_changed() -> None:
    request = opened(T0, T1).build({T0: data(0), T1: data(9)})

    assert (request.session_id, request.session_epoch) == (7, 1)
    assert dict(request.to_send) == {T1: data(9)}
    assert list(request.to_forget) == []


def test_partitions_that_are_no_longer_wanted_are_forgotten_and_may_come_back() -> None:
    handler = opened(T0, T1)

    first = handler.build({T0: data(0)})
    assert list(first.to_forget) == [(T1, ID)]
    assert dict(first.to_send) == {}
    handler.handle_response(FetchResponse(session_id=7))
    second = handler.build({T0: data(0), T1: data(0)})

    assert second.session_epoch == 2
    assert dict(second.to_send) == {T1: data(0)}


def test_names_are_kept_for_the_topics_of_the_session_only() -> None:
    handler = FetchSessionHandler(1)
    for number in range(50):
        topic, topic_id = f"t{number}", b"%016d" % number
        there = {TopicPartition(topic, partition): data(0, topic_id) for partition in range(3)}
        handler.build({**there, T0: data(0)})
        assert handler.topic_names() == {topic_id: topic, ID: "t"}
        handler.handle_response(FetchResponse(session_id=7))
        (last,) = [partition for partition in there if partition.partition == 2]
        handler.build({T0: data(number), last: data(0, topic_id)}, there)
        assert handler.topic_names() == {topic_id: topic, ID: "t"}
        handler.handle_response(FetchResponse(session_id=7))


def test_a_recreated_topic_is_known_by_its_new_id_only() -> None:
    handler = opened(T0, T1)
    handler.build({T0: data(0, OTHER_ID), T1: data(0)}, [T0])
    assert handler.topic_names() == {ID: "t", OTHER_ID: "t"}
    handler.handle_response(FetchResponse(session_id=7))
    handler.build({T0: data(0, OTHER_ID), T1: data(0, OTHER_ID)}, [T1])
    assert handler.topic_names() == {OTHER_ID: "t"}


def test_a_recreated_topic_is_forgotten_under_its_old_id() -> None:
    request = opened(T0).build({T0: data(0, OTHER_ID)})

    assert list(request.to_forget) == [(T0, ID)]
    by_id = fetch_request(request, FetchConfig()).build(17)
    by_name = fetch_request(request, FetchConfig()).build(12)
    assert [(topic.topic_id, topic.partitions) for topic in by_id.forgotten_topics_data] == [(ID, [0])]
    assert by_name.forgotten_topics_data == []
    assert by_name.topics[0].topic == "t"


def test_topics_without_an_id_are_asked_for_by_name() -> None:
    handler = opened(T0)

    request = handler.build({T0: data(0, ZERO_UUID)})

    assert request.is_full
    assert request.session_id == 7
    builder = fetch_request(request, FetchConfig())
    assert builder.high == 12
    assert builder.build(12).topics[0].topic == "t"


def test_a_broker_without_room_for_a_session_gets_full_requests() -> None:
    handler = FetchSessionHandler(1)
    handler.build({T0: data(0)})
    handler.handle_response(FetchResponse(session_id=0))

    assert handler.build({T0: data(0)}).is_full


def test_a_session_that_the_broker_lost_is_begun_anew() -> None:
    handler = opened(T0)

    assert not handler.handle_response(FetchResponse(error_code=70))

    request = handler.build({T0: data(0)})
    assert (request.session_id, request.session_epoch) == (0, 0)


def test_after_a_wrong_epoch_or_a_lost_answer_the_old_session_is_closed_and_a_new_one_asked_for() -> None:
    handler = opened(T0)
    assert not handler.handle_response(FetchResponse(error_code=71))
    assert handler.build({T0: data(0)})[:2] == (7, 0)

    handler = opened(T0)
    handler.handle_error()
    assert handler.build({T0: data(0)})[:2] == (7, 0)


def test_the_epoch_wraps_to_one() -> None:
    handler = opened(T0)
    handler._epoch = 2**31 - 1

    handler.handle_response(FetchResponse(session_id=7))

    assert handler.build({T0: data(0)}).session_epoch == 1


def test_closing_needs_a_session() -> None:
    assert FetchSessionHandler(1).build_final() is None
    final = opened(T0).build_final()
    assert final is not None
    assert final[:2] == (7, -1)
