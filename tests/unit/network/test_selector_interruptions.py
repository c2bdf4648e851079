"""A Selector whose calls a signal handler's exception ends anywhere: no descriptor is lost, and it goes on."""

from __future__ import annotations

import socket
import time
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from barnabas.network.selector import Selector
from tests.support.line_errors import LineErrors

FRAME = b"\0\0\0\4ping"
# Also the lines of Python's own sockets and of the system's selector: there a socket is neither here nor there.
PATHS = ("network/selector.py", socket.__file__)


class InterruptionError(Exception):
    """What the signal handler raises."""


class Echo:
    """A peer that is asked, by the same thread, to answer what it got."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.setblocking(False)
        self.port: int = self.listening.getsockname()[1]
        self.accepted: list[socket.socket] = []

    def answer(self) -> None:
        """Accepts who waits, and gives back what came."""
        try:
            self.accepted.append(self.listening.accept()[0])
        except BlockingIOError:
            pass
        for one in self.accepted:
            try:
                one.setblocking(False)
                one.sendall(one.recv(4096))
            except OSError:
                continue

    def forget(self) -> None:
        """Ends all connections."""
        for one in self.accepted:
            one.close()
        self.accepted.clear()

    def close(self) -> None:
        self.forget()
        self.listening.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


def converse(selector: Selector, echo: Echo, errors: LineErrors) -> None:
    """Connects, sends a frame, gets it back, and closes the connection."""
    deadline = time.monotonic() + 5
    with errors.watching():
        selector.connect(1, "peer", echo.port)
    has_sent = False
    received: list[bytes] = []
    while not received:
        assert time.monotonic() < deadline
        with errors.watching():
            selector.poll(0.0, 0.0)
            assert not selector.disconnected
            if not has_sent and selector.is_channel_ready(1):
                selector.send(1, [FRAME])
                has_sent = True
        received = [bytes(frame) for _, frame in selector.completed_receives]
        echo.answer()
    assert received == [FRAME[4:]]
    with errors.watching():
        selector.close(1)


@pytest.fixture
def new_selector(echo: Echo) -> Iterator[Callable[[], Selector]]:
    """Makes selectors that find the peer behind an address that refuses, so that the way to the next one is gone."""
    made: list[Selector] = []
    addresses = [(socket.AF_INET, ("127.0.0.1", 1)), (socket.AF_INET, ("127.0.0.1", echo.port))]
    resolver = SimpleNamespace(resolve=lambda host, port, done: done(list(addresses)))

    def make() -> Selector:
        made.append(Selector(resolver=resolver))
        return made[-1]

    yield make
    for selector in made:
        selector.close_all()


def test_an_interruption_at_any_line_loses_no_descriptor_and_costs_the_connection_only(
    echo: Echo, new_selector: Callable[[], Selector]
) -> None:
    selector, lines = new_selector(), LineErrors(PATHS)
    converse(selector, echo, lines)
    assert lines.count > 200

    for at in range(lines.count):
        errors = LineErrors(PATHS, at, InterruptionError)
        with warnings.catch_warnings(record=True) as unclosed:
            warnings.simplefilter("always")
            try:
                converse(selector, echo, errors)
            except InterruptionError:
                # As NetworkClient does after an interrupted poll.
                selector.close(1)
        assert not [str(one.message) for one in unclosed], errors.place
        converse(selector, echo, LineErrors(()))
        assert list(selector._selector.get_map()) == [selector._wakee.fileno()], errors.place
        echo.forget()


def interrupt_wait(selector: Selector, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a poll end while it waits."""

    def interrupted(timeout: float) -> list[object]:
        raise InterruptionError

    with monkeypatch.context() as patched:
        patched.setattr(selector._selector, "select", interrupted)
        with pytest.raises(InterruptionError):
            selector.poll(1.0, 0.0)
    assert selector.is_only_waiting


def get_answer(selector: Selector, echo: Echo, errors: LineErrors) -> None:
    """Connects and gets a frame back; goes on as NetworkClient does where a poll is interrupted."""
    deadline = time.monotonic() + 5
    selector.connect(1, "peer", echo.port)
    received: list[bytes] = []
    while not received:
        assert time.monotonic() < deadline, f"no answer after {errors.place}"
        try:
            with errors.watching():
                selector.poll(0.0, 0.0)
        except InterruptionError:
            if not selector.is_only_waiting:
                selector.close(1)
                selector.connect(1, "peer", echo.port)
            continue
        if 1 in selector.connected:
            selector.send(1, [FRAME])
        received = [bytes(frame) for _, frame in selector.completed_receives]
        echo.answer()


def test_a_poll_that_was_interrupted_while_it_waited_says_nothing_of_the_next_one(
    echo: Echo, new_selector: Callable[[], Selector], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = LineErrors(PATHS[:1])
    get_answer(new_selector(), echo, lines)
    assert lines.count > 50

    for at in range(lines.count):
        echo.forget()
        selector = new_selector()
        interrupt_wait(selector, monkeypatch)
        get_answer(selector, echo, LineErrors(PATHS[:1], at, InterruptionError))
        selector.close(1)
