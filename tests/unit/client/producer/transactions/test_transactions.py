"""The transactional producer on virtual time: what it asks whom, in which order, and what each error does to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from barnabas import errors
from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.client.producer.transactions.states import SOURCES, PreparedTxnState, State
from barnabas.errors import (
    CommitFailedError,
    IllegalArgumentError,
    IllegalStateError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionalIdAuthorizationError,
    UnsupportedVersionError,
)
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from barnabas.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from barnabas.protocol.messages.api_versions_response import FinalizedFeatureKey
from barnabas.protocol.messages.end_txn_response import EndTxnResponse
from barnabas.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id_response import InitProducerIdResponse
from barnabas.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.protocol.producer_identity import increment_sequence
from tests.support.network_fakes import all_api_versions
from tests.unit.client.producer.harness import T0, T1, Harness

TRANSACTIONS = {
    ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN,
}  # fmt: skip


def code(name: str) -> int:
    return next(number for number, found in errors.BY_CODE.items() if found.name == name)


class Transactions(Harness):
    """A coordinator at node 1; `errors[api]` are the codes of its next answers."""

    def __init__(self, version: int = 2, **settings: Any) -> None:
        super().__init__(transactional_id="id", **settings)
        self.version = version
        self.epoch = -1
        self.errors: dict[int, list[int]] = {}
        self.kept = (-1, -1)
        self.selector.handlers = {
            **(self.selector.handlers or {}),
            ApiKey.API_VERSIONS: lambda _: self._api_versions(),
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.INIT_PRODUCER_ID: self._init,
            ApiKey.ADD_PARTITIONS_TO_TXN: self._add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: lambda _: AddOffsetsToTxnResponse(
                error_code=self._error(ApiKey.ADD_OFFSETS_TO_TXN)
            ),
            ApiKey.TXN_OFFSET_COMMIT: self._txn_offset_commit,
            ApiKey.END_TXN: self._end,
        }

    def _api_versions(self) -> Any:
        answer = all_api_versions()
        answer.finalized_features = [
            FinalizedFeatureKey(
                name="transaction.version", max_version_level=self.version, min_version_level=self.version
            )
        ]
        answer.finalized_features_epoch = 1
        return answer

    def _error(self, api: int) -> int:
        waiting = self.errors.get(api)
        return waiting.pop(0) if waiting else 0

    def _find_coordinator(self, request: Any) -> Any:
        found = [
            Coordinator(key=key, node_id=1, host="h", port=1, error_code=self._error(ApiKey.FIND_COORDINATOR))
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    def _init(self, request: Any) -> Any:
        error = self._error(ApiKey.INIT_PRODUCER_ID)
        self.epoch += not error
        return InitProducerIdResponse(error_code=error, producer_id=7, producer_epoch=self.epoch)

    def _add_partitions(self, request: Any) -> Any:
        error = self._error(ApiKey.ADD_PARTITIONS_TO_TXN)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
                        for number in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def _txn_offset_commit(self, request: Any) -> Any:
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(
                            partition_index=found.partition_index, error_code=self._error(ApiKey.TXN_OFFSET_COMMIT)
                        )
                        for found in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _end(self, request: Any) -> Any:
        error = self._error(ApiKey.END_TXN)
        if error or self.version < 2:
            return EndTxnResponse(error_code=error)
        self.epoch += 1
        return EndTxnResponse(producer_id=7, producer_epoch=self.epoch)

    def begin(self) -> None:
        assert self.run(self.manager.init_transactions()) is None
        self.manager.begin_transaction()

    def run(self, result: Any) -> BaseException | None:
        """Turn until the operation has its result; returns its error."""
        for _ in range(100):
            if result.is_completed:
                break
            self.turn(0.05)
        result.is_acked = True
        assert result.is_completed
        error: BaseException | None = result.error
        return error

    def asked(self) -> list[str]:
        """The requests about transactions since the last call, in their order."""
        said = [
            (f"{message.NAME[:-7]} {'commit' if message.committed else 'abort'}" if message.NAME == "EndTxnRequest"
             else message.NAME[:-7])
            for _, header, message in self.selector.received
            if header.request_api_key in TRANSACTIONS
        ]  # fmt: skip
        self.selector.received.clear()
        return said

    def versions_of(self, api: int) -> set[int]:
        return {header.request_api_version for _, header, _ in self.selector.received if header.request_api_key == api}


@pytest.mark.parametrize(("source", "target"), list(itertools.product(State, State)))
def test_states_change_only_as_the_table_says(source: State, target: State) -> None:
    manager = Transactions().manager.states
    manager.state = source

    if source in SOURCES[target]:
        manager.transition_to(target)
        assert manager.state is target
    else:
        with pytest.raises(IllegalStateError, match=source.value):
            manager.transition_to(target)
        assert manager.state is source


def test_version_2_adds_partitions_with_the_records_and_takes_the_next_epoch_from_the_end() -> None:
    harness = Transactions(version=2)
    harness.begin()
    assert harness.asked() == ["FindCoordinator", "InitProducerId"]

    futures = [harness.send(b"%d" % partition, partition=partition) for partition in (0, 1)]
    harness.settle()
    assert [batch.is_transactional for batch in harness.batches()] == [True, True]
    assert harness.waiting()[0].transactional_id == "id"
    commit = harness.manager.begin_commit()
    harness.settle()
    assert not commit.is_completed
    harness.respond()

    assert harness.run(commit) is None
    assert all(future.exception(0) is None for future in futures)
    assert harness.versions_of(ApiKey.PRODUCE) == {13}
    assert harness.versions_of(ApiKey.END_TXN) == {5}
    assert harness.asked() == ["EndTxn commit"]
    assert harness.manager.sequences.producer == (7, 1)
    harness.manager.begin_transaction()
    harness.send(b"next")
    harness.settle()
    assert [(batch.producer_epoch, batch.base_sequence) for batch in harness.batches()] == [(1, 0)]


@pytest.mark.parametrize("version", [0, 1])
def test_before_version_2_partitions_and_groups_are_added_first(version: int) -> None:
    harness = Transactions(version=version)
    harness.begin()
    harness.asked()

    harness.send(b"v", partition=1)
    harness.settle()
    harness.respond()
    sent = harness.manager.send_offsets({T0: OffsetAndMetadata(3)}, ConsumerGroupMetadata("g"))
    assert harness.run(sent) is None
    assert harness.run(harness.manager.begin_commit()) is None

    assert harness.versions_of(ApiKey.PRODUCE) == {11}
    assert harness.versions_of(ApiKey.END_TXN) == {4}
    assert harness.versions_of(ApiKey.TXN_OFFSET_COMMIT) == {4}
    assert harness.asked() == [
        "AddPartitionsToTxn", "AddOffsetsToTxn", "FindCoordinator", "TxnOffsetCommit", "EndTxn commit",
    ]  # fmt: skip
    assert harness.manager.sequences.producer == (7, 0)


def test_no_record_leaves_before_its_partition_was_added() -> None:
    harness = Transactions(version=1)
    harness.begin()
    harness.errors[ApiKey.ADD_PARTITIONS_TO_TXN] = [code("CONCURRENT_TRANSACTIONS")] * 2
    harness.send(b"v")
    harness.settle()
    assert harness.waiting() == []

    harness.turn(0.019, times=3)
    assert harness.waiting() == []
    harness.turn(0.03, times=3)
    harness.turn(0.03, times=3)
    assert len(harness.waiting()) == 1


def test_a_group_s_offsets_go_to_its_coordinator_at_once_in_version_2_and_only_the_rest_again() -> None:
    harness = Transactions(version=2)
    harness.begin()
    harness.asked()
    harness.errors[ApiKey.TXN_OFFSET_COMMIT] = [0, code("COORDINATOR_LOAD_IN_PROGRESS")]

    offsets = {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(2)}
    assert harness.run(harness.manager.send_offsets(offsets, ConsumerGroupMetadata("g", 4, "m"))) is None

    commits = [message for _, _, message in harness.selector.received if message.NAME == "TxnOffsetCommitRequest"]
    assert [[p.partition_index for p in commit.topics[0].partitions] for commit in commits] == [[0, 1], [1]]
    assert (commits[0].generation_id, commits[0].member_id) == (4, "m")
    assert harness.asked() == ["FindCoordinator", "TxnOffsetCommit", "TxnOffsetCommit"]


@pytest.mark.parametrize("name", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"])
@pytest.mark.parametrize("api", [ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN, ApiKey.ADD_PARTITIONS_TO_TXN])
def test_a_coordinator_that_moved_is_looked_for_again(api: ApiKey, name: str) -> None:
    harness = Transactions(version=1)
    harness.errors[api] = [code(name)]
    assert harness.run(harness.manager.init_transactions()) is None
    harness.manager.begin_transaction()
    harness.send(b"v")
    harness.turn(0.2, times=3)
    harness.turn(0.2, times=3)
    harness.respond()
    assert harness.run(harness.manager.begin_commit()) is None
    assert harness.asked().count("FindCoordinator") == 2


def test_a_lost_connection_makes_the_request_go_out_again() -> None:
    harness = Transactions()
    handler = (harness.selector.handlers or {}).pop(ApiKey.INIT_PRODUCER_ID)
    result = harness.manager.init_transactions()
    harness.settle()
    harness.selector.break_connection(1)
    assert harness.selector.handlers is not None
    harness.selector.handlers[ApiKey.INIT_PRODUCER_ID] = handler
    assert harness.run(result) is None


FATAL = ["PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE",
         "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"]  # fmt: skip


def fail_partition(harness: Transactions) -> BaseException | None:
    future = harness.send(b"v")
    harness.settle()
    return future.exception(0)


def fail_offsets(harness: Transactions) -> BaseException | None:
    return harness.run(harness.manager.send_offsets({T0: OffsetAndMetadata(3)}, ConsumerGroupMetadata("g")))


def fail_commit(harness: Transactions) -> BaseException | None:
    harness.send(b"v")
    harness.settle()
    harness.respond()
    return harness.run(harness.manager.begin_commit())


@pytest.mark.parametrize("name", FATAL)
@pytest.mark.parametrize(
    ("api", "provoke"),
    [
        (ApiKey.ADD_PARTITIONS_TO_TXN, fail_partition),
        (ApiKey.ADD_OFFSETS_TO_TXN, fail_offsets),
        (ApiKey.END_TXN, fail_commit),
    ],
)
def test_errors_that_end_the_producer(api: ApiKey, provoke: Callable[[Any], BaseException | None], name: str) -> None:
    harness = Transactions(version=1)
    harness.begin()
    harness.errors[api] = [code(name)]
    is_fenced = name in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")

    failed = provoke(harness)

    assert harness.manager.has_fatal_error
    assert isinstance(failed, ProducerFencedError) is is_fenced
    with pytest.raises(KafkaError, match="taken over" if is_fenced else "close it"):
        harness.manager.begin_abort()
    with pytest.raises(KafkaError):
        harness.send(b"more")


def test_an_abort_that_the_broker_wants_aborted_is_the_end_instead_of_a_circle() -> None:
    harness = Transactions()
    harness.begin()
    harness.send(b"v")
    harness.settle()
    harness.respond()
    harness.errors[ApiKey.END_TXN] = [code("TRANSACTION_ABORTABLE")]
    assert isinstance(harness.run(harness.manager.begin_abort()), TransactionAbortableError)
    assert harness.manager.has_fatal_error


@pytest.mark.parametrize(("version", "asked"), [(1, ["EndTxn abort", "InitProducerId"]), (2, ["EndTxn abort"])])
def test_a_failed_record_allows_only_an_abort_which_brings_a_new_epoch(version: int, asked: list[str]) -> None:
    harness = Transactions(version=version)
    harness.begin()
    failed = harness.send(b"v")
    harness.settle()
    harness.respond(code("INVALID_RECORD"))

    assert failed.exception(0) is not None
    with pytest.raises(KafkaError, match="abort_transaction"):
        harness.send(b"more")
    with pytest.raises(TransactionAbortableError) as raised:
        harness.manager.begin_commit()
    assert isinstance(raised.value.__cause__, errors.InvalidRecordError)
    harness.asked()
    assert harness.run(harness.manager.begin_abort()) is None
    assert harness.asked() == asked
    assert harness.manager.sequences.producer == (7, 1)
    harness.manager.begin_transaction()
    harness.send(b"goes on")
    harness.settle()
    assert [(batch.producer_epoch, batch.base_sequence) for batch in harness.batches()] == [(1, 0)]


def test_a_record_that_fails_while_the_commit_waits_fails_the_commit() -> None:
    harness = Transactions()
    harness.begin()
    harness.send(b"v")
    harness.settle()
    commit = harness.manager.begin_commit()
    harness.respond(code("INVALID_RECORD"))

    assert isinstance(harness.run(commit), TransactionAbortableError)
    assert harness.run(harness.manager.begin_abort()) is None
    assert "EndTxn commit" not in harness.asked()


def test_records_that_expire_after_they_were_sent_fail_the_transaction() -> None:
    harness = Transactions(delivery_timeout_ms=1000, request_timeout_ms=900)
    harness.begin()
    future = harness.send(b"v")
    harness.settle()
    harness.turn(1.1, times=3)
    assert isinstance(future.exception(0), errors.KafkaTimeoutError)
    with pytest.raises(TransactionAbortableError, match="expired"):
        harness.manager.begin_commit()
    assert harness.run(harness.manager.begin_abort()) is None


def test_an_abort_drops_unsent_records_and_waits_for_those_under_way() -> None:
    harness = Transactions(linger_ms=1000)
    harness.begin()
    under_way = harness.send(b"v", partition=0)
    harness.turn(1.0, times=4)
    harness.settle()
    unsent = harness.send(b"w", partition=1)
    abort = harness.manager.begin_abort()
    harness.settle()

    assert isinstance(unsent.exception(0), TransactionAbortedError)
    assert not abort.is_completed
    harness.respond()
    assert harness.run(abort) is None
    assert under_way.exception(0) is None


def test_a_commit_does_not_wait_for_linger() -> None:
    harness = Transactions(linger_ms=60_000)
    harness.begin()
    harness.send(b"v")
    harness.settle()
    assert harness.waiting() == []
    harness.manager.begin_commit()
    harness.settle()
    assert len(harness.waiting()) == 1


def test_a_denied_init_can_be_called_again_once_it_is_allowed() -> None:
    harness = Transactions()
    harness.errors[ApiKey.INIT_PRODUCER_ID] = [code("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")]
    assert isinstance(harness.run(harness.manager.init_transactions()), TransactionalIdAuthorizationError)
    harness.settle()
    assert harness.run(harness.manager.init_transactions()) is None


def test_a_call_that_timed_out_must_be_called_again_and_gets_the_same_result() -> None:
    harness = Transactions()
    first = harness.manager.init_transactions()
    harness.settle()
    assert harness.manager.init_transactions() is first
    with pytest.raises(IllegalStateError, match=r"init_transactions\(\) timed out"):
        harness.manager.begin_transaction()
    first.wait(0)
    harness.manager.begin_transaction()


def test_closing_aborts_the_transaction_whose_commit_failed_after_the_application_had_stopped_waiting() -> None:
    harness = Transactions()
    harness.begin()
    harness.send(b"v")
    harness.settle()
    harness.respond()
    harness.errors[ApiKey.END_TXN] = [code("TRANSACTION_ABORTABLE")]
    harness.manager.begin_commit()
    harness.settle()
    assert harness.manager.state is State.ABORTABLE_ERROR
    harness.asked()

    assert harness.sender.is_ending_transaction()
    harness.settle()

    assert harness.asked() == ["EndTxn abort"]
    assert not harness.sender.is_ending_transaction()


@pytest.mark.parametrize("name", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"])
def test_offsets_of_a_member_that_is_none_any_more_fail_the_transaction(name: str) -> None:
    harness = Transactions()
    harness.begin()
    harness.errors[ApiKey.TXN_OFFSET_COMMIT] = [code(name)]
    failed = harness.run(harness.manager.send_offsets({T0: OffsetAndMetadata(1)}, ConsumerGroupMetadata("g", 4, "m")))
    assert isinstance(failed, CommitFailedError if name != "FENCED_INSTANCE_ID" else errors.FencedInstanceIdError)
    assert harness.manager.state is State.ABORTABLE_ERROR


def test_sequence_numbers_close_up_behind_a_batch_that_the_broker_refused() -> None:
    harness = Transactions(batch_size=1)
    harness.begin()
    futures = [harness.send(b"first")]
    harness.settle()
    harness.respond()
    futures += [harness.send(b"%d" % n) for n in range(3)]
    harness.settle()
    assert [batch.base_sequence for batch in harness.batches()] == [1, 2, 3]
    harness.respond(code("INVALID_RECORD"))

    assert harness.manager.sequences.entry(T0).next_sequence == increment_sequence(0, 3)
    assert [batch.base_sequence for batch in harness.manager.sequences.entry(T0).in_flight] == [1, 2]


def test_two_phases_need_a_broker_that_has_them() -> None:
    harness = Transactions(transaction_two_phase_commit_enable=True)
    versions = all_api_versions()
    assert next(api.max_version for api in versions.api_keys if api.api_key == ApiKey.INIT_PRODUCER_ID) == 5
    failed = harness.run(harness.manager.init_transactions())
    assert isinstance(failed, UnsupportedVersionError)
    assert "KIP-939" in str(failed)


def two_phases(kept: tuple[int, int] = (-1, -1)) -> Transactions:
    harness = Transactions(transaction_two_phase_commit_enable=True)
    answer = harness._api_versions()
    next(api for api in answer.api_keys if api.api_key == ApiKey.INIT_PRODUCER_ID).max_version = 6
    assert harness.selector.handlers is not None
    harness.selector.handlers[ApiKey.API_VERSIONS] = lambda _: answer
    harness.selector.handlers[ApiKey.INIT_PRODUCER_ID] = lambda request: InitProducerIdResponse(
        producer_id=7,
        producer_epoch=9,
        ongoing_txn_producer_id=kept[0] if request.keep_prepared_txn else -1,
        ongoing_txn_producer_epoch=kept[1] if request.keep_prepared_txn else -1,
    )
    return harness


@pytest.mark.parametrize("end", ["begin_commit", "begin_abort"])
def test_a_prepared_transaction_is_kept_for_the_next_producer_which_ends_it(end: str) -> None:
    first = two_phases()
    first.begin()
    first.send(b"v")
    first.settle()
    first.respond()
    prepared = first.manager.prepare()
    assert PreparedTxnState.parse(str(prepared)) == prepared == (7, 9)
    assert not first.manager.states.has_ongoing_transaction
    with pytest.raises(IllegalStateError, match="prepared"):
        first.send(b"more")

    second = two_phases(kept=prepared)
    assert second.run(second.manager.init_transactions(keep_prepared_txn=True)) is None
    assert second.manager.state is State.PREPARED_TRANSACTION
    assert second.manager.prepared == prepared
    finish: Callable[[], Any] = getattr(second.manager, end)
    assert second.run(finish()) is None
    assert second.asked()[-1] == f"EndTxn {end[6:]}"
    assert second.manager.state is State.READY


def test_a_prepared_state_is_text_and_nothing_else_is() -> None:
    assert PreparedTxnState.parse("") == PreparedTxnState()
    assert str(PreparedTxnState()) == ""
    for text in ("5", "5:", "a:b", "5:-1"):
        with pytest.raises(IllegalArgumentError, match="producer id:epoch"):
            PreparedTxnState.parse(text)
