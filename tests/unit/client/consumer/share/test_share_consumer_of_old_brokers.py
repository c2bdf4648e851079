"""A share consumer of a broker of Apache Kafka 4.1, which knows neither renewals nor limits of records."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import ShareConsumer
from barnabas.errors import UnsupportedVersionError
from barnabas.protocol.api import ApiKey
from tests.support.scripted_queue import ACCEPTED, ARCHIVED, AVAILABLE, ScriptedQueue

VERSION = 1


class OldQueue(ScriptedQueue):
    """Speaks version 1 of what a share session says."""

    def _api_versions(self) -> Any:
        response = super()._api_versions()
        for known in response.api_keys:
            if known.api_key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE):
                known.max_version = VERSION
        return response


@pytest.fixture
def cluster() -> OldQueue:
    made = OldQueue()
    made.append("t", 0, *[b"%d" % number for number in range(6)])
    return made


def consumer_of(cluster: OldQueue, **settings: Any) -> ShareConsumer:
    return cluster.share_consumer("t", group_id="g", **settings)


def test_records_are_accepted_released_and_rejected(cluster: OldQueue) -> None:
    consumer = consumer_of(cluster, share_acknowledgement_mode="explicit")
    kinds = {0: "release", 1: "reject"}
    for record in consumer.poll(5):
        consumer.acknowledge(record, kinds.get(record.offset, "accept"))
    assert list(consumer.commit_sync().values()) == [None]
    assert cluster.states() == {ACCEPTED: 4, ARCHIVED: 1, AVAILABLE: 1}


def test_a_renewal_is_refused_when_it_is_asked_for_and_what_else_is_said_is_taken(cluster: OldQueue) -> None:
    consumer = consumer_of(cluster, share_acknowledgement_mode="explicit")
    records = list(consumer.poll(5))
    with pytest.raises(
        UnsupportedVersionError, match=r"4\.2 or later: the broker supports SHARE_ACKNOWLEDGE in versions"
    ):
        consumer.acknowledge(records[0], "renew")
    for record in records:
        consumer.acknowledge(record)
    assert list(consumer.commit_sync().values()) == [None]
    assert cluster.states() == {ACCEPTED: 6}


def test_a_limit_of_records_is_refused_for_they_would_get_more(cluster: OldQueue) -> None:
    consumer = consumer_of(cluster, share_acquire_mode="record_limit", max_poll_records=2)
    for _ in range(2):
        with pytest.raises(UnsupportedVersionError, match=r"record_limit needs brokers of Apache Kafka 4\.2 or later"):
            consumer.poll(5)
    assert cluster.states() == {AVAILABLE: 6}
    consumer.close()
