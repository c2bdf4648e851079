"""One client's connection, without its socket: bytes in, requests one after the other, responses out in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from barnabas.broker.network.request_buffer import RequestBuffer
from barnabas.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.instant import Instant
    from barnabas.broker.network.request_buffer import RequestMemory
    from barnabas.broker.network.transport import Buffers, Transport
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import Connection
    from barnabas.protocol.message import Message

#: Responses are gathered up to this size while there are more requests to work on.
OUTPUT_SIZE = 64 * 1024


class Channel(Protocol):
    """What a connection needs of the `RequestChannel` that holds it."""

    instant: Instant
    spare_buffers: list[memoryview]
    max_request_size: int

    @property
    def state(self) -> BrokerState:
        """What all connections of the broker share."""

    @property
    def request_memory(self) -> RequestMemory:
        """The memory that requests may take, of all connections."""

    @property
    def handle(self) -> Callable[[ClientConnection, memoryview], None]:
        """Work on one request."""

    def resume(self, connection: ClientConnection) -> None:
        """Note that a connection need not wait any more."""

    def refuse(self, connection: ClientConnection, reason: str, kind: str = "") -> None:
        """End a connection, for a reason that the operator should know."""

    def failed(self, connection: ClientConnection, what: str, problem: Exception) -> None:
        """End a connection for a fault of the broker."""


class ClientConnection:
    """The state of one connection.

    Like Kafka, it works on one request at a time: while one is parked, or while the client does not read its
    responses, the following ones stay in the buffer, and once that is full the socket is not read (`wants_input`).
    The owner of the socket stops reading when `wants_input` is False and says so in `reading_paused`.
    """

    __slots__ = (
        "_busy",
        "_channel",
        "_held",
        "_input_ended",
        "_muted",
        "_output",
        "_output_blocked",
        "_output_size",
        "_parked",
        "_transport",
        "_when_sent",
        "buffer",
        "closed",
        "handle",
        "info",
        "last_used",
        "reading_paused",
    )

    def __init__(self, channel: Channel, info: Connection, transport: Transport, now: float):
        self._channel = channel
        self._busy = False
        self._held = 0
        self._input_ended = False
        self._muted = 0
        self._output: list[bytes | bytearray | memoryview] = []
        self._output_blocked = False
        self._output_size = 0
        self._parked: DelayedOperation | None = None
        self._transport = transport
        self._when_sent: list[Callable[[], None]] = []
        self.info = info
        self.reading_paused = False
        self.closed = False
        self.last_used = now
        #: What is called with each request: what answers it, or the authenticator before that.
        self.handle: Callable[[ClientConnection, memoryview], None] = channel.handle
        self.buffer = RequestBuffer(channel.max_request_size, channel.spare_buffers, channel.request_memory)
        self.buffer.try_again = lambda: channel.resume(self)

    @property
    def wants_input(self) -> bool:
        """Whether the socket should be read."""
        return self.buffer.has_space and not self._output_blocked

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight here; a client that does not take its responses is idle, too."""
        return self._parked is None and not self._muted

    def received(self, count: int, instant: Instant) -> None:
        """Work on what is complete now that `count` bytes were put into `buffer.space()`."""
        self.buffer.filled(count)
        self.last_used = instant.now
        self._channel.instant = instant
        if self._parked is None:
            self._work()

    def receive(self, data: bytes | bytearray | memoryview, instant: Instant) -> None:
        """Take in bytes from elsewhere than `buffer.space()`; for those who have no socket."""
        view = memoryview(data)
        while len(view) and not self.closed:
            if not self.buffer.has_space:
                raise BufferError("the connection does not want input; look at wants_input first")
            space = self.buffer.space()
            count = min(len(space), len(view))
            space[:count] = view[:count]
            view = view[count:]
            self.received(count, instant)

    def put(self, buffers: Buffers) -> None:
        """Send a response: at once, or with those of the other requests that came along with its own."""
        if not self._busy:
            self._transport.write(buffers)
            return
        self._output += buffers
        for buffer in buffers:
            self._output_size += len(buffer)
        if self._output_size >= OUTPUT_SIZE:
            self._flush()

    def when_sent(self, notify: Callable[[], None]) -> None:
        """Call `notify` when all responses that were put so far are given to the socket."""
        if self._output:
            self._when_sent.append(notify)
        else:
            notify()

    def _flush(self) -> None:
        output, self._output = self._output, []
        self._output_size = 0
        self._transport.write(output)
        if self._when_sent:
            notify, self._when_sent = self._when_sent, []
            for one in notify:
                one()

    def end(self) -> None:
        """Close the socket, after the responses that were given so far, unless the client does not take them."""
        if self._output:
            self._flush()
        if self._output_blocked or self.closed:
            self.closed = True
            self._transport.abort()
        else:
            self.closed = True
            self._transport.close()

    def output_blocked(self, held: int) -> None:
        """Note that the client reads its responses too slowly, `held` bytes wait: no more requests are worked on."""
        self._output_blocked = True
        self._hold(held)

    def output_resumed(self, instant: Instant) -> None:
        """Go on, for the client has caught up."""
        self._output_blocked = False
        self._hold(0)
        self.last_used = instant.now
        self._channel.instant = instant
        if self._parked is None:
            self._work()

    def input_ended(self, instant: Instant) -> None:
        """Note that the client sends no more: `close()` follows when what it has sent is worked on and answered.

        As with Apache Kafka, which does not look at a connection while it works on one of its requests. The client may
        have closed its own side only; if it is gone, sending the next response says so.
        """
        self._input_ended = True
        self._channel.instant = instant
        self.go_on()

    def lost(self) -> None:
        """Note that the socket is gone; what is parked is cancelled, with all that came after it."""
        self.closed = True
        self._hold(0)
        if not self._busy:
            self.buffer.discard()
        parked, self._parked = self._parked, None
        if parked is not None:
            self._channel.state.purgatory.cancel(parked)

    def _hold(self, size: int) -> None:
        self._channel.state.unsent_bytes += size - self._held
        self._held = size

    def go_on(self) -> None:
        """Work on what has come in while a request was parked."""
        if self._parked is None and not self._busy and not self.closed:
            self._work()

    def mute(self) -> None:
        """Work on no more requests until `unmute`; each call needs its own (KIP-219)."""
        self._muted += 1

    def unmute(self) -> None:
        """Note that a time to wait is over."""
        self._muted -= 1
        self.go_on()

    def park(
        self, operation: DelayedOperation, answer: Callable[[Message], None], fail: Callable[[Exception], None]
    ) -> None:
        """Look at no further request until an operation is answered; `answer` gets the message then, or `fail` a fault.

        What `answer` itself raises ends the connection: a part of the response may be out.
        """
        self._parked = operation

        def respond(message: Message) -> None:
            end(answer, message)

        def give_up(problem: Exception) -> None:
            end(fail, problem)

        def end(tell: Callable[[Any], None], outcome: object) -> None:
            self._parked = None
            if self.closed:
                return
            try:
                tell(outcome)
            except Exception as problem:  # noqa: BLE001 - the caller is in the middle of others' work
                self._channel.failed(self, "answering a request", problem)
            if not self._busy:
                # Not here: the caller is in the middle of its own work, and the next request may ask it for more.
                self._channel.resume(self)

        self._channel.state.purgatory.park(operation, respond, give_up)

    def abort(self) -> None:
        """Close the socket now; what was not written is lost."""
        self.closed = True
        self._output.clear()
        self._transport.abort()

    def _work(self) -> None:
        try:
            self._work_on_input()
        except Exception as problem:  # noqa: BLE001 - a fault in the work of one connection must not end that of others
            self._channel.failed(self, "the work of a connection", problem)

    def _work_on_input(self) -> None:
        buffer = self.buffer
        self._busy = True
        try:
            while self._parked is None and not (self.closed or self._output_blocked or self._muted):
                frame = buffer.next_frame()
                if frame is None:
                    break
                self.handle(self, frame)
        except InvalidRequestError as problem:
            self._channel.refuse(self, str(problem), "size")
        finally:
            self._busy = False
            if self._output:
                self._flush()
        if self._input_ended and self.is_idle and not (self._output_blocked or self.closed):
            self.end()
        # A parked request may still use its frame no more than any other: what it keeps is a copy.
        if self.closed:
            buffer.discard()
        else:
            buffer.release()
        if self.reading_paused and self.wants_input and not self.closed:
            self.reading_paused = False
            self._transport.resume_reading()
