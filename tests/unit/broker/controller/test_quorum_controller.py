"""The controller over its log: when responses leave, and what becomes of what is not committed."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.broker.controller.controller_result import ControllerResult
from barnabas.broker.metadata.image_records import image_records
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.protocol.messages.abort_transaction_record import AbortTransactionRecord
from barnabas.protocol.messages.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.end_transaction_record import EndTransactionRecord
from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord
from barnabas.protocol.messages.no_op_record import NoOpRecord
from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord
from barnabas.protocol.messages.producer_ids_record import ProducerIdsRecord
from tests.support.controllers import WITH_ELR, Controllers, registration
from tests.support.memory_quorum import MemorySnapshot


def ready(count: int = 2) -> Controllers:
    """Controllers of which 100 is active, with brokers 1 to 3."""
    controllers = Controllers(count)
    controllers.elect()
    controllers.start(1, 2, 3)
    return controllers


def create(controllers: Controllers, name: str):  # type: ignore[no-untyped-def]
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=3)])
    topics = controllers.active.managers.topics
    return controllers.active.write(lambda: topics.create_topics(controllers.context(), request, (name,)))


def test_an_empty_log_begins_with_the_bootstrap_metadata_as_one_transaction() -> None:
    controllers = Controllers(levels=WITH_ELR)
    controllers.elect()
    first, *levels, config, last = controllers.quorum.records()
    assert isinstance(first, BeginTransactionRecord)
    assert isinstance(last, EndTransactionRecord)
    assert [level.name for level in levels if isinstance(level, FeatureLevelRecord)] == [
        "metadata.version",
        "eligible.leader.replicas.version",
        "group.version",
        "transaction.version",
    ]
    assert controllers.active.committed_image.configs[4, ""] == {"min.insync.replicas": "1"}, config


def test_a_log_that_is_not_empty_gets_no_bootstrap_metadata() -> None:
    controllers = ready()
    before = len(controllers.quorum.records())
    controllers.elect(101)
    assert len(controllers.quorum.records()) == before


def test_a_transaction_that_the_last_controller_left_open_is_aborted() -> None:
    controllers = ready()
    half = [ApiMessageAndVersion(BeginTransactionRecord()), ApiMessageAndVersion(ProducerIdsRecord(next_producer_id=9))]
    controllers.active.write(lambda: ControllerResult(half, None))
    controllers.settle()
    assert controllers.controllers[101].committed_image.next_producer_id == 0, "readers see no half of it"
    assert controllers.active.state.image.next_producer_id == 9
    active = controllers.elect(101)
    assert isinstance(controllers.quorum.records()[-1], AbortTransactionRecord)
    assert active.state.image.next_producer_id == 0
    assert active.state.indexes.with_broker_in_isr(1) == []


def test_a_response_leaves_when_its_records_are_committed() -> None:
    controllers = ready()
    response = create(controllers, "flights")
    assert not response.is_done
    assert "flights" in controllers.active.state.image.topic_ids, "the next request goes by it already"
    assert "flights" not in controllers.active.committed_image.topic_ids
    controllers.quorum.commit()
    assert response.is_done
    assert "flights" in controllers.active.committed_image.topic_ids


def test_a_response_without_records_waits_for_what_it_may_have_read() -> None:
    controllers = ready()
    create(controllers, "flights")
    refused = create(controllers, "flights")
    assert not refused.is_done, "the topic that is in its way may never have been"
    controllers.quorum.commit()
    assert refused.value is not None
    assert refused.value.topics[0].error_code == errors.TopicExistsError.code


def test_responses_leave_in_the_order_of_the_log() -> None:
    controllers = ready()
    order: list[str] = []
    for name in ("a", "b"):
        create(controllers, name).then(lambda value, problem, name=name: order.append(name))
    controllers.quorum.commit(1)
    assert order == ["a"]
    controllers.quorum.commit()
    assert order == ["a", "b"]


def test_who_is_not_active_answers_not_controller_and_names_the_leader() -> None:
    controllers = ready()
    problem = controllers.controllers[101].write(lambda: ControllerResult((), None)).problem
    assert isinstance(problem, errors.NotControllerError)
    assert "100" in str(problem)


def test_a_lost_leadership_drops_what_is_not_committed() -> None:
    controllers = ready()
    response = create(controllers, "flights")
    old = controllers.active
    controllers.elect(101, keep=0)
    assert isinstance(response.problem, errors.NotControllerError)
    assert not old.is_active
    assert "flights" not in old.state.image.topic_ids
    assert old.state.image == controllers.active.state.image


def test_what_a_lost_leadership_left_in_the_log_comes_back_by_the_log() -> None:
    controllers = ready()
    response = create(controllers, "flights")
    old = controllers.active
    controllers.elect(101)
    assert isinstance(response.problem, errors.NotControllerError), "nobody could know"
    assert "flights" in old.state.image.topic_ids
    assert "flights" in controllers.active.state.image.topic_ids


def test_a_record_that_does_not_fit_never_reaches_the_log() -> None:
    controllers = ready()
    before = len(controllers.quorum.log)
    wrong = [ApiMessageAndVersion(PartitionChangeRecord(partition_id=0, topic_id=bytes([7] * 16), isr=[1]))]
    response = controllers.active.write(lambda: ControllerResult(wrong, None))
    assert isinstance(response.problem, errors.UnknownServerError)
    assert len(controllers.quorum.log) == before
    assert controllers.quorum.nodes[100].resigned == [1], "memory may not be trusted now"
    assert controllers.reports


def test_an_error_of_the_client_costs_no_leadership() -> None:
    controllers = ready()

    def refuse() -> ControllerResult[None]:
        raise errors.InvalidRequestError("no")

    assert isinstance(controllers.active.write(refuse).problem, errors.InvalidRequestError)
    assert controllers.active.is_active


def test_an_unexpected_error_costs_the_leadership() -> None:
    controllers = ready()
    controller = controllers.active

    def fail() -> ControllerResult[None]:
        return 1 / 0  # type: ignore[return-value]

    assert isinstance(controller.write(fail).problem, errors.UnknownServerError)
    assert not controller.is_active
    assert "ZeroDivisionError" in controllers.reports[0]


def test_a_leader_that_the_log_has_left_answers_not_controller() -> None:
    controllers = ready()
    controller = controllers.active
    controllers.quorum.epoch += 1  # another leader, of whom this one has not heard
    response = create(controllers, "flights")
    assert isinstance(response.problem, errors.NotControllerError)
    assert not controller.is_active


def test_what_is_not_atomic_is_written_in_several_batches() -> None:
    controllers = Controllers(settings={"max_records_per_batch": 2})
    controllers.elect()
    before = len(controllers.quorum.log)
    records = [ApiMessageAndVersion(NoOpRecord()) for _ in range(5)]
    controllers.active.write(lambda: ControllerResult(records, None))
    assert [len(batch.values) for batch in controllers.quorum.log[before:]] == [2, 2, 1]


def test_what_is_atomic_and_too_large_is_not_written() -> None:
    controllers = Controllers(settings={"max_records_per_batch": 5})
    controllers.elect()
    records = [ApiMessageAndVersion(NoOpRecord()) for _ in range(6)]
    response = controllers.active.write(lambda: ControllerResult(records, None, True))
    assert isinstance(response.problem, errors.UnknownServerError)


def test_a_standby_begins_anew_from_a_snapshot() -> None:
    controllers = ready()
    controllers.create("flights", [[1, 2, 3]])
    image = controllers.active.committed_image
    reader = MemorySnapshot(OffsetAndEpoch(image.offset + 1, image.epoch), list(image_records(image)))
    standby = controllers.controllers[101]
    standby.handle_load_snapshot(reader)
    assert standby.committed_image == image
    assert standby.state.replayed.registration_offsets == dict.fromkeys((1, 2, 3), image.offset)


def test_an_active_controller_loads_no_snapshot() -> None:
    controllers = ready()
    with pytest.raises(errors.IllegalStateError):
        controllers.active.handle_load_snapshot(MemorySnapshot(OffsetAndEpoch(1, 1), []))


def test_readers_hear_of_what_is_committed() -> None:
    controllers = ready()
    seen: list[int] = []
    controllers.active.on_committed.append(lambda committed, now: seen.append(len(committed.image.topics)))
    create(controllers, "flights")
    assert seen == []
    controllers.quorum.commit()
    assert seen == [1]


def test_a_fault_in_one_answer_costs_that_answer_alone() -> None:
    controllers = ready()
    told: list[str] = []
    controllers.active.on_fault = lambda what, problem: told.append(f"{what}: {problem}")

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of this program")

    create(controllers, "flights").then(fail)
    other = create(controllers, "trains")
    controllers.quorum.commit()
    assert other.is_done
    assert controllers.active.is_active
    assert told == ["giving the answer of the controller: a fault of this program"]
    assert controllers.active.counts.metadata_errors == 1


def test_a_fault_of_one_who_is_told_of_the_metadata_keeps_it_from_none_else() -> None:
    controllers = ready()
    told: list[str] = []
    seen: list[int] = []
    controllers.active.on_fault = lambda what, problem: told.append(what)

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of this program")

    controllers.active.on_committed[:] = [fail, lambda committed, now: seen.append(len(committed.image.topics))]
    create(controllers, "flights")
    controllers.quorum.commit()
    assert (seen, told) == ([1], ["publishing the metadata"])
    assert controllers.active.counts.metadata_errors == 1


def test_an_idle_controller_writes_no_op_records() -> None:
    controllers = Controllers(settings={"max_idle_interval": 0.5})
    controllers.elect()
    before = len(controllers.quorum.records())
    controllers.tick(2.0)
    news = controllers.quorum.records()[before:]
    assert len(news) in (3, 4)
    assert all(isinstance(record, NoOpRecord) for record in news)


def test_a_controller_that_is_not_active_does_nothing_by_the_clock() -> None:
    controllers = ready()
    before = len(controllers.quorum.records())
    standby = controllers.controllers[101]
    controllers.now += 1000
    standby.tick(controllers.instant())
    assert len(controllers.quorum.records()) == before
    assert standby.next_deadline() == float("inf")


def test_an_epoch_of_a_broker_is_the_offset_of_its_registration() -> None:
    controllers = ready()
    epoch = controllers.register(9)
    offsets = controllers.active.state.replayed.registration_offsets
    assert epoch == offsets[9]


def test_a_heartbeat_to_a_standby_is_refused() -> None:
    controllers = ready()
    standby = controllers.controllers[101]
    request = registration(1)
    assert isinstance(standby.register_broker(controllers.context(4), request).problem, errors.NotControllerError)
