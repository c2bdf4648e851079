"""What nobody foresees: `sys.exit()` in callbacks, Ctrl-C while waiting, callbacks that block, names that cannot be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.client.producer import thread_waits
from barnabas.client.producer.producer import Producer
from barnabas.errors import IllegalArgumentError, IllegalStateError, IllegalTypeError, KafkaError, KafkaTimeoutError
from barnabas.protocol.topic_partition import TopicPartition
from tests.unit.client.producer.harness import Harness
from tests.unit.client.producer.test_producer import StoringBroker, connect
from tests.unit.client.producer.transactions.test_transactions import Transactions


@pytest.fixture
def broker() -> Iterator[StoringBroker]:
    with StoringBroker() as started:
        yield started
        started.gate.set()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Have SIGINT raise KeyboardInterrupt, also where a shell started the tests in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c(producer: Producer[Any, Any], taken: threading.Event) -> None:
    """Press it once a call of the producer waits, and again, as a person would, when nothing comes of it.

    A signal that arrives after Python let go of the GIL, and before the lock's system call, does not end that call: of
    20,000 waits for a bare `threading.Lock`, one went on to its end.
    """
    while producer.metrics()["waiting-threads"] != 1:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)
    while not taken.wait(2):
        os.kill(os.getpid(), signal.SIGINT)


def all_memory_is_back(producer: Producer[Any, Any]) -> bool:
    """Soon, for a batch gives its memory back right after its records have their results."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        metrics = producer.metrics()
        if metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]:
            return True
        time.sleep(0.01)
    return False


def test_sys_exit_in_a_callback_reaches_the_application_and_every_record_its_result(broker: StoringBroker) -> None:
    with connect(broker) as producer:
        futures = [producer.send("one", b"v", on_delivery=lambda *_: sys.exit(3)) for _ in range(3)]
        with pytest.raises(SystemExit) as raised:
            producer.flush(20)
        assert raised.value.code == 3
        assert [future.result(20).offset for future in futures] == [0, 1, 2]
        assert producer.send("one", b"after").result(20).partition == 0

    assert broker.values == [b"v", b"v", b"v", b"after"]


@pytest.mark.parametrize("name", ["send", "close", "partitions_for"])
def test_the_next_call_raises_it_whichever_that_is(broker: StoringBroker, name: str) -> None:
    producer = connect(broker)
    future = producer.send("one", b"v")
    future.result(20)
    done = threading.Event()

    def leave(_: Any) -> None:
        done.set()
        raise KeyboardInterrupt

    broker.gate.clear()
    producer.send("one", b"w").add_done_callback(leave)
    broker.gate.set()
    assert done.wait(20)
    calls = {
        "send": lambda: producer.send("one", b"x"),
        "close": producer.close,
        "partitions_for": lambda: producer.partitions_for("one"),
    }
    time.sleep(0.05)
    with pytest.raises(KeyboardInterrupt):
        calls[name]()
    producer.close()


def test_a_program_whose_callback_exits_ends_with_its_code(broker: StoringBroker) -> None:
    program = (
        "import sys\nfrom barnabas import Producer\n"
        f"with Producer(bootstrap_servers='{broker.host}:{broker.port}') as producer:\n"
        "    producer.send('one', b'v', on_delivery=lambda *_: sys.exit(7))\n"
    )

    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 7


def test_waiting_for_another_record_in_a_callback_is_refused_and_asking_is_not(broker: StoringBroker) -> None:
    said: list[Any] = []
    with connect(broker, linger_ms=0) as producer:
        producer.partitions_for("one")
        broker.gate.clear()
        other = producer.send("test", b"other", partition=0)

        def ask(*_: Any) -> None:
            later = producer.send("test", b"later", partition=1)
            for timeout in (None, 5.0, 0):
                try:
                    later.result(timeout)
                except KafkaError as error:
                    said.append(type(error))
            said.append(later.done())

        producer.send("one", b"first", on_delivery=ask)
        broker.gate.set()
        producer.flush(20)
        assert other.done()

    assert said == [IllegalStateError, IllegalStateError, KafkaTimeoutError, False]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_while_send_waits_for_memory_takes_nothing(broker: StoringBroker, ctrl_c: None) -> None:
    with connect(broker, buffer_memory=100_000, batch_size=1000, linger_ms=0, max_block_ms=20_000) as producer:
        producer.partitions_for("one")
        broker.gate.clear()
        producer.send("one", b"x" * 60_000)

        for _ in range(3):
            taken = threading.Event()
            threading.Thread(target=press_ctrl_c, args=(producer, taken), daemon=True).start()
            with pytest.raises(KeyboardInterrupt):
                producer.send("one", b"y" * 60_000)
            taken.set()
        broker.gate.set()
        producer.flush(20)
        assert all_memory_is_back(producer)
        assert producer.metrics()["waiting-threads"] == 0
        producer.send("one", b"z" * 90_000).result(20)


def test_close_with_a_timeout_ends_beside_a_callback_that_does_not(
    broker: StoringBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_waits, "FORCED_END", 0.2)
    release, entered = threading.Event(), threading.Event()
    producer = connect(broker)

    def block(*_: Any) -> None:
        entered.set()
        release.wait(30)

    producer.send("one", b"v", on_delivery=block)
    assert entered.wait(20)
    began = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match="callback"):
        producer.close(0.2)
    assert time.monotonic() - began < 5
    release.set()
    producer.close()


def test_a_topic_that_cannot_be_sent_is_refused_and_poisons_nothing(broker: StoringBroker) -> None:
    with connect(broker, max_block_ms=5000) as producer:
        for name in ("x\ud800", "x" * 40_000):
            with pytest.raises(IllegalArgumentError, match="topic"):
                producer.send(name, b"v")
            with pytest.raises(IllegalArgumentError, match="topic"):
                producer.partitions_for(name)
        assert producer.send("one", b"v").result(20).offset == 0


@pytest.mark.parametrize(
    ("offsets", "error"),
    [
        ({TopicPartition("t", 0): OffsetAndMetadata(1.5)}, IllegalTypeError),  # type: ignore[arg-type]  # refused
        ({TopicPartition("t", 0): OffsetAndMetadata(2**70)}, IllegalArgumentError),
        ({TopicPartition("t", 0): OffsetAndMetadata(1, "\ud800")}, IllegalArgumentError),
        ({TopicPartition("t\ud800", 0): 1}, IllegalArgumentError),
    ],
)
def test_offsets_that_cannot_be_sent_are_refused_by_name(offsets: Any, error: type[Exception]) -> None:
    with Producer(bootstrap_servers="localhost:1", transactional_id="id") as producer:
        with pytest.raises(error, match="offsets"):
            producer.send_offsets_to_transaction(offsets, "g")
        producer.close(0)


def test_a_request_that_cannot_be_built_fails_its_call_and_the_transaction_can_be_aborted() -> None:
    harness = Transactions()
    harness.begin()

    # What no check at the door has seen.
    offsets = {TopicPartition("t", 0): OffsetAndMetadata(1.5)}  # type: ignore[arg-type]  # the wrong one
    broken = harness.manager.send_offsets(offsets, ConsumerGroupMetadata("g"))
    harness.turn(0.05, times=20)

    assert broken.is_completed
    assert isinstance(broken.error, KafkaError)
    assert harness.run(harness.manager.begin_abort()) is None
    harness.manager.begin_transaction()


def test_an_unexpected_error_between_taking_and_sending_fails_those_batches_and_nothing_else() -> None:
    harness = Harness(partitions=2)
    harness.send(b"before", partition=0)
    harness.settle()
    harness.respond()
    plain = harness.client.send

    def broken(request: Any, now: float) -> None:
        raise ZeroDivisionError("a bug")

    harness.client.send = broken  # type: ignore[method-assign]  # the bug
    lost = harness.send(b"lost", partition=0)
    with pytest.raises(ZeroDivisionError):
        harness.turn()
    harness.client.send = plain  # type: ignore[method-assign]

    with pytest.raises(KafkaError, match="unexpected error"):
        lost.result(0)
    assert harness.pool.available_memory == harness.pool.total_memory
    after = harness.send(b"after", partition=0)
    harness.settle()
    harness.respond()
    assert after.exception(0) is None
