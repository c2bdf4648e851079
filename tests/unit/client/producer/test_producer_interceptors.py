"""Interceptors of the producer."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas.client.producer.producer import Producer
from barnabas.client.producer.producer_interceptors import InterceptingSendPath, ProducerInterceptors
from barnabas.client.producer.producer_record import ProducerRecord
from barnabas.errors import ConfigError, KafkaTimeoutError
from tests.unit.client.producer.storing_broker import StoringBroker, connect


class Stamp:
    """Adds a header to each record, and notes what it is told."""

    def __init__(self, name: str = "stamp") -> None:
        self.name = name
        self.told: list[Any] = []

    def configure(self, settings: Any) -> None:
        self.told.append(settings["linger.ms"])

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.add(self.name, b"1")
        return record

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        self.told.append((str(metadata), error))

    def close(self) -> None:
        self.told.append("closed")


class Broken:
    def on_send(self, record: ProducerRecord) -> Any:
        raise ZeroDivisionError

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        raise ZeroDivisionError


class Forgetful:
    def on_send(self, record: ProducerRecord) -> Any:
        return None


def test_interceptors_change_records_in_turn_and_hear_what_became_of_them(broker: StoringBroker) -> None:
    first, second, answers = Stamp("first"), Stamp("second"), list[str]()

    with connect(broker, linger_ms=7, interceptor_classes=[first, second]) as producer:
        producer.send("one", b"v", headers={"own": b"0"}, on_delivery=lambda m, _: answers.append(str(m))).result(10)

    assert [header[0] for header in broker.records[0][1].headers] == ["own", "first", "second"]
    assert first.told == second.told == [7, ("one-0@0", None), "closed"]
    assert answers == ["one-0@0"]


def test_what_an_interceptor_raises_is_logged_and_harms_nothing(
    broker: StoringBroker, caplog: pytest.LogCaptureFixture
) -> None:
    last = Stamp()
    with (
        caplog.at_level(logging.WARNING, "barnabas.producer"),
        connect(broker, linger_ms=0, client_id="shop", interceptor_classes=[Broken, Forgetful(), last]) as producer,
    ):
        producer.send("one", b"v").result(10)

    assert broker.values == [b"v"]
    assert last.told[1] == ("one-0@0", None)
    assert [record.message[:22] for record in caplog.records] == ["shop: The interceptor "] * 3


def test_a_record_that_never_came_into_a_batch_is_acknowledged_with_its_error(broker: StoringBroker) -> None:
    stamp = Stamp()
    with connect(broker, linger_ms=0, max_block_ms=50, interceptor_classes=[stamp]) as producer:
        future = producer.send("one", b"v", partition=7)
        assert isinstance(future.exception(1), KafkaTimeoutError)

    place, error = stamp.told[1]
    assert place == "one-7@-1"
    assert isinstance(error, KafkaTimeoutError)


def test_without_interceptors_nothing_stands_before_the_send_path() -> None:
    with Producer(bootstrap_servers="localhost:1") as producer:
        assert not isinstance(producer._send_path, InterceptingSendPath)


@pytest.mark.parametrize(
    ("setting", "why"), [(object(), "no method on_send"), ("nope:Nope", "loaded"), ("x", "module:name")]
)
def test_an_interceptor_that_cannot_be_had_is_refused(setting: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        ProducerInterceptors([setting], {})


def test_interceptors_are_found_by_module_and_name() -> None:
    found = ProducerInterceptors(f"{__name__}:Forgetful", {})
    assert bool(found)
