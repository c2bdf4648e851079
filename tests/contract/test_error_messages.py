"""Where nothing went wrong, the error message is null or empty as it is in Kafka: clients show it, and test for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import AdminClient, NewTopic, errors
from barnabas.protocol import api, json_view
from tests.support.core_broker import SocketClient

NOT_THERE_YET = {
    error.code
    for error in (
        errors.UnknownTopicOrPartitionError,
        errors.NotLeaderOrFollowerError,
        errors.CoordinatorNotAvailableError,
    )
}
TOPIC = "?"  # stands for the test's topic
RETENTION = [{"name": "retention.ms", "value": "100000"}]
NEW_TOPIC = {"name": "?-new", "numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []}
TOPIC_CONFIG = {"resourceType": 2, "resourceName": TOPIC}

CASES: list[tuple[str, int, dict[str, Any], list[str | None]]] = [
    ("CreateTopics", 7, {"topics": [NEW_TOPIC], "timeoutMs": 5000, "validateOnly": False}, [None]),
    (
        "CreatePartitions",
        3,
        {"topics": [{"name": TOPIC, "count": 2, "assignments": None}], "timeoutMs": 5000, "validateOnly": False},
        [None],
    ),
    ("AlterConfigs", 2, {"resources": [{**TOPIC_CONFIG, "configs": RETENTION}], "validateOnly": False}, [None]),
    (
        "DescribeConfigs",
        4,
        {
            "resources": [{**TOPIC_CONFIG, "configurationKeys": None}],
            "includeSynonyms": False,
            "includeDocumentation": False,
        },
        [""],
    ),
    ("DescribeCluster", 1, {"includeClusterAuthorizedOperations": False, "endpointType": 1}, [None]),
    ("DescribeClientQuotas", 1, {"components": [], "strict": False}, [""]),
    ("FindCoordinator", 3, {"key": "g", "keyType": 0}, ["NONE"]),
    ("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": ["g"]}, ["", ""]),
    ("DescribeProducers", 0, {"topics": [{"name": TOPIC, "partitionIndexes": [0]}]}, [None]),
    (
        "DeleteTopics",
        6,
        {"topics": [{"name": TOPIC, "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}], "timeoutMs": 5000},
        [None],
    ),
]


def about(topic: str, value: Any) -> Any:
    """A request's JSON form, with the topic put in."""
    if isinstance(value, dict):
        return {name: about(topic, field) for name, field in value.items()}
    if isinstance(value, list):
        return [about(topic, one) for one in value]
    return value.replace(TOPIC, topic) if isinstance(value, str) else value


def outcomes(answer: Any) -> Iterator[tuple[int, str | None]]:
    """Every error code and message in an answer, the outer ones first."""
    if isinstance(answer, list):
        for one in answer:
            yield from outcomes(one)
    elif hasattr(answer, "FIELDS"):
        if hasattr(answer, "error_message"):
            yield answer.error_code, answer.error_message
        for name in answer.__slots__:
            yield from outcomes(getattr(answer, name))


@pytest.mark.parametrize(
    ("name", "version", "fields", "expected"), CASES, ids=[f"{name} {version}" for name, version, _, _ in CASES]
)
def test_what_went_well_has_kafkas_message(
    bootstrap_servers: str,
    new_name: Callable[[str], str],
    name: str,
    version: int,
    fields: dict[str, Any],
    expected: list[str | None],
) -> None:
    topic = new_name("topic")
    with AdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=1)])
    encoded = json_view.to_bytes(f"{name}Request", version, about(topic, fields))
    request = api.message_class(f"{name}Request").decode(encoded, version)

    with SocketClient(bootstrap_servers) as client:
        found = list(outcomes(client.request(request, version)))
        while {code for code, _ in found} & NOT_THERE_YET:  # Apache Kafka's new topics and coordinators take a moment
            time.sleep(0.1)
            found = list(outcomes(client.request(request, version)))

    assert found == [(0, message) for message in expected]
