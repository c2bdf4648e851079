"""What a broker said of one partition's batch, and the errors that the application gets for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import (
    ClusterAuthorizationError,
    InvalidRecordError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    TopicAuthorizationError,
    for_code,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.client.producer.producer_batch import ProducerBatch
    from barnabas.network.client_request import ClientResponse
    from barnabas.protocol.messages.produce_response import BatchIndexAndErrorMessage, PartitionProduceResponse


class PartitionResponse(NamedTuple):
    """What a broker said of one partition's batch, or what stands in for it where no answer came."""

    error: KafkaError | None
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[BatchIndexAndErrorMessage] = ()
    leader_id: int = -1
    leader_epoch: int = -1


def parse(data: PartitionProduceResponse) -> PartitionResponse:
    """One partition's part of a ProduceResponse."""
    error = None if data.error_code == 0 else for_code(data.error_code, data.error_message or None)
    return PartitionResponse(
        error,
        data.base_offset,
        data.log_append_time_ms,
        data.log_start_offset,
        data.record_errors,
        data.current_leader.leader_id,
        data.current_leader.leader_epoch,
    )


def error_of_request(response: ClientResponse) -> KafkaError | None:
    """Why a request ended without an answer; None where none was asked for (acks=0)."""
    if response.timed_out:
        return KafkaTimeoutError(f"Node {response.destination} did not answer within request.timeout.ms")
    if response.disconnected:
        return NetworkError(f"The connection to node {response.destination} ended before it answered: {response.error}")
    return response.error


def errors_of_batch(
    batch: ProducerBatch, response: PartitionResponse
) -> tuple[KafkaError, dict[int, KafkaError] | None]:
    """Return the error for the records of a batch that failed, and those of single records by their place in it."""
    error = response.error
    assert error is not None
    tp = batch.topic_partition
    if isinstance(error, TopicAuthorizationError):
        error = TopicAuthorizationError(f"This producer may not write to topic {tp.topic!r}")
        error.resources = (tp.topic,)
    elif isinstance(error, ClusterAuthorizationError):
        error = ClusterAuthorizationError("This producer may not write idempotently (IDEMPOTENT_WRITE on the cluster)")
    if not response.record_errors:
        return error, None
    # The code stands for the whole batch: only where one record is named is it certainly that record's.
    single = len(response.record_errors) == 1
    by_index: dict[int, KafkaError] = {}
    for entry in response.record_errors:
        message = entry.batch_index_error_message or str(error)
        by_index[entry.batch_index] = type(error)(message) if single else InvalidRecordError(message)
    return error, by_index
