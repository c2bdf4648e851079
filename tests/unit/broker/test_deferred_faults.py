"""What clients are told whose parked requests end by a fault of the broker, and what comes of coordinators."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker import delayed_fetch, delayed_produce
from barnabas.broker.groups.classic.rebalance import Rebalance
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from tests.support.core_broker import CoreBroker, batch, create, fetch, produce
from tests.support.slow_storage import SlowStorage, work_off

UNKNOWN = errors.UnknownServerError.code


def fail(*_: Any) -> Any:
    raise RuntimeError("planted")


def test_a_fetch_that_fails_is_answered_with_unknown_server_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = CoreBroker()
    failing, writer = broker.connect(), broker.connect()
    writer.request(create("t"), 7)
    assert failing.request(fetch("t", max_wait_ms=5000), 12) is None

    with monkeypatch.context() as patch:
        patch.setattr(delayed_fetch.DelayedFetch, "try_complete", fail)
        assert writer.request(produce("t", batch(b"a")), 9).responses[0].partition_responses[0].error_code == 0

    assert [answer.error_code for answer in failing.responses] == [UNKNOWN]
    assert len([line for line in broker.warnings if "failed at FetchRequest; please report this" in line]) == 1
    # The connection goes on.
    assert failing.request(fetch("t"), 12).error_code == 0


def test_a_produce_that_fails_names_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = SlowStorage()
    broker = CoreBroker(storage=storage)
    client = broker.connect()
    client.send(create("t", flush_messages="1"), 7)
    client.send(produce("t", batch(b"a")), 9)
    work_off(broker, storage)
    assert client.request(produce("t", batch(b"b")), 9) is None

    monkeypatch.setattr(delayed_produce, "is_done", fail)
    work_off(broker, storage)

    (_, _, answer) = client.responses
    assert [(one.index, one.error_code) for one in answer.responses[0].partition_responses] == [(0, UNKNOWN)]


def test_a_group_whose_rebalance_fails_is_read_anew_and_its_members_look_for_their_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = CoreBroker({"group.initial.rebalance.delay.ms": 100, "offsets.topic.num.partitions": 1})
    member, other = broker.connect(), broker.connect()
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    broker.advance(1)
    assert member.request(request, 3) is None

    with monkeypatch.context() as patch:
        patch.setattr(Rebalance, "complete_join", fail)
        broker.advance(1)

    assert [answer.error_code for answer in member.responses] == [errors.NotCoordinatorError.code]
    assert len([line for line in broker.warnings if "the join timer of a group; please report this" in line]) == 1
    other.send(request, 3)
    broker.advance(1)
    assert [answer.error_code for answer in other.responses] == [0]
