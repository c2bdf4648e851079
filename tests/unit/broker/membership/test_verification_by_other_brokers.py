"""What a leader asks the coordinator of a transaction that is another broker, and what its answer is to a producer."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from tests.unit.broker.membership.test_cluster_member import added, asked_by_a_producer

VERIFIES, ADDS = 11, 12
BOTH = pytest.mark.parametrize("version", [VERIFIES, ADDS], ids=["verifies", "adds"])


def code_of(client: Any) -> int:
    [topic] = client.responses[0].responses
    return int(topic.partition_responses[0].error_code)


def log_end(found: Any) -> int:
    return int(found.state.replica_manager.used_partition("flights", 0).log.log_end_offset)


@BOTH
def test_it_asks_for_what_the_producer_writes_and_adds_it_only_by_the_second_protocol(version: int) -> None:
    found, client = asked_by_a_producer(version)
    assert log_end(found) == 0, "nothing is written before the answer"
    [asked] = found.answer("verification", added()).transactions
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("tx", 7, 2)
    assert asked.verify_only is (version == VERIFIES)
    assert [(topic.name, topic.partitions) for topic in asked.topics] == [("flights", [0])]
    found.advance(0)
    assert (code_of(client), log_end(found)) == (0, 1)


@BOTH
@pytest.mark.parametrize("refusal", [errors.InvalidTxnStateError, errors.TransactionAbortableError])
def test_what_is_not_in_the_transaction_is_not_written(version: int, refusal: type[errors.KafkaError]) -> None:
    found, client = asked_by_a_producer(version)
    found.answer("verification", added(refusal))
    found.advance(0)
    told = errors.TransactionAbortableError if version == VERIFIES else refusal
    assert (code_of(client), log_end(found)) == (told.code, 0)


@BOTH
@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (errors.InvalidProducerEpochError, errors.InvalidProducerEpochError),
        (errors.InvalidPidMappingError, errors.InvalidPidMappingError),
        (errors.NotCoordinatorError, errors.NotEnoughReplicasError),
    ],
)
def test_what_the_coordinator_refuses_is_not_written_and_the_producer_hears_why(
    version: int, refusal: type[errors.KafkaError], told: type[errors.KafkaError]
) -> None:
    """Of a coordinator that is to be found again a producer hears what it sends again upon."""
    found, client = asked_by_a_producer(version)
    found.answer("verification", added(refusal))
    found.advance(0)
    assert (code_of(client), log_end(found)) == (told.code, 0)


@BOTH
@pytest.mark.parametrize(
    "answer",
    [
        added(name="delays"),
        AddPartitionsToTxnResponse(error_code=errors.ClusterAuthorizationError.code),
        AddPartitionsToTxnResponse(),
    ],
    ids=["another topic", "refused altogether", "nothing"],
)
def test_an_answer_that_does_not_name_the_partition_allows_nothing(
    version: int, answer: AddPartitionsToTxnResponse
) -> None:
    found, client = asked_by_a_producer(version)
    found.answer("verification", answer)
    found.advance(0)
    assert code_of(client) != 0
    assert log_end(found) == 0
