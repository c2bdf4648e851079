"""What becomes of records when a broker does not let the producer in."""

from __future__ import annotations

import pytest

from barnabas.errors import SaslAuthenticationError
from tests.unit.client.producer.harness import Harness

DENIAL = SaslAuthenticationError("Authentication failed: Invalid username or password")


def connects(h: Harness, port: int = 1) -> int:
    return sum(1 for _, _, at, _ in h.selector.connects if at == port)


def let_pass(h: Harness, seconds: float) -> None:
    for _ in range(int(seconds * 5)):
        h.turn(0.2)


@pytest.mark.parametrize("settings", [{}, {"enable_idempotence": False}], ids=["idempotent", "not"])
def test_records_for_a_broker_that_denies_fail_with_its_reason_and_not_by_time(settings: dict[str, bool]) -> None:
    h = Harness(**settings)
    h.selector.denying[1] = DENIAL
    future = h.send()

    let_pass(h, 2)

    with pytest.raises(SaslAuthenticationError, match="Invalid username or password"):
        future.result(0)


@pytest.mark.parametrize("settings", [{}, {"enable_idempotence": False}], ids=["idempotent", "not"])
def test_without_records_it_is_left_alone_and_with_the_next_one_tried_again(settings: dict[str, bool]) -> None:
    h = Harness(**settings)
    h.selector.denying[1] = DENIAL
    h.send()
    let_pass(h, 50)
    assert connects(h) <= 2
    before = connects(h)

    h.selector.denying.clear()
    h.metadata._fatal_error = None  # the send() that failed has told it
    future = h.send()
    for _ in range(20):
        h.turn(0.5)
        if h.waiting():
            h.respond()

    assert connects(h) == before + 1
    assert future.result(0).offset == 0


def test_other_brokers_records_go_on() -> None:
    h = Harness(nodes=2, leaders=lambda partition: partition + 1)
    h.settle()
    h.selector.denying[2] = DENIAL
    denied, sent = h.send(partition=1), h.send(partition=0)

    let_pass(h, 1)
    h.respond()

    assert sent.result(0).offset == 0
    with pytest.raises(SaslAuthenticationError):
        denied.result(0)


def test_a_batch_that_may_be_stored_waits_for_a_broker_that_can_say() -> None:
    h = Harness()
    future = h.send()
    h.settle()
    assert len(h.waiting()) == 1
    h.selector.denying[1] = DENIAL
    h.selector.deny(1, 1)

    let_pass(h, 2)

    assert not future.done()
    h.selector.denying.clear()
    h.metadata._fatal_error = None  # the application was told
    for _ in range(20):
        h.turn(0.5)
        if h.waiting():
            h.respond()
    assert future.result(0).offset == 0


def test_a_transactional_producer_has_failed_for_good() -> None:
    h = Harness(transactional_id="t")
    h.selector.denying[1] = DENIAL
    h.manager.init_transactions()

    let_pass(h, 5)

    assert h.manager.has_fatal_error
    assert h.manager.last_error is DENIAL
