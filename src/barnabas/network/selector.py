"""Client sockets: the only file that touches them."""

from __future__ import annotations

import errno
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.errors import AuthenticationError, IllegalStateError, KafkaError, ProtocolError
from barnabas.network.kafka_channel import KafkaChannel
from barnabas.network.resolver import Address, Resolver, ThreadedResolver
from barnabas.network.selectable import Authentication, Buffer, Disconnection

if TYPE_CHECKING:
    from barnabas.network.security.channel_builder import ChannelSecurity
    from barnabas.network.security.sasl_client import Work
    from barnabas.network.security.sasl_client_authenticator import SaslClientAuthenticator, Step
    from barnabas.network.security.ssl_transport_layer import SslTransportLayer

_CONNECTING = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY)
_READ = selectors.EVENT_READ
_WRITE = selectors.EVENT_WRITE
_LONGEST_WAIT = 3600.0
# One connection may read this much in one poll before the others have their turn.
_READ_BUDGET = 16 * 1024 * 1024
# The system takes at most 1024 buffers (IOV_MAX) in one call.
_BUFFERS_PER_CALL = 512


class Selector:
    """Non-blocking sockets behind `Selectable`.

    `send_buffer` and `receive_buffer` are the sockets' sizes in bytes, -1 leaves them to the system. Names are looked
    up by `resolver`, by default in a thread of its own, so that a slow name server never holds up `poll`.
    All addresses of a host are tried one after the other, at once when one refuses; the connection counts as failed
    when the last one failed. How long an address may stay silent is the caller's to decide, by `close`.
    `channel_builder` secures connections by TLS and SASL; what of that blocks, its worker does.
    """

    def __init__(
        self,
        *,
        send_buffer: int = -1,
        receive_buffer: int = -1,
        resolver: Resolver | None = None,
        channel_builder: ChannelSecurity | None = None,
    ) -> None:
        self.connected: list[int] = []
        self.authentications: list[Authentication] = []
        self.disconnected: dict[int, Disconnection] = {}
        self.completed_sends: list[int] = []
        self.is_only_waiting = False
        self.completed_receives: list[tuple[int, Buffer]] = []
        self._send_buffer = send_buffer
        self._receive_buffer = receive_buffer
        self._resolver = ThreadedResolver() if resolver is None else resolver
        self._resolved: deque[tuple[KafkaChannel, int, list[Address] | OSError]] = deque()
        self._channels: dict[int, KafkaChannel] = {}
        self._to_write: list[KafkaChannel] = []
        self._failed: list[tuple[KafkaChannel, str, AuthenticationError | None]] = []
        self._channel_builder = channel_builder
        self._worked: deque[tuple[KafkaChannel, bytes | KafkaError]] = deque()
        self._unread: list[KafkaChannel] = []
        self._selector = selectors.DefaultSelector()
        self._waker, self._wakee = socket.socketpair()
        self._waker.setblocking(False)
        self._wakee.setblocking(False)
        self._is_wakeup_pending = False
        self._has_said_last_word = False
        self._selector.register(self._wakee, _READ, None)

    def fileno(self) -> int:
        """One descriptor that becomes readable when `poll` has something to do, for an event loop to watch."""
        fileno: int = self._selector.fileno()
        return fileno

    @property
    def has_unread(self) -> bool:
        """Whether `poll` has more to read than the descriptor tells: TLS has taken it from the system already."""
        return bool(self._unread)

    def connect(self, node_id: int, host: str, port: int, attempt: int = 0) -> None:
        """See `Selectable.connect`."""
        if node_id in self._channels:
            raise IllegalStateError(f"there is already a connection to node {node_id}")
        channel = KafkaChannel(node_id, host, port)
        self._channels[node_id] = channel

        def on_resolved(result: list[Address] | OSError) -> None:
            self._resolved.append((channel, attempt, result))
            if threading.get_ident() != owner:
                self.wakeup()

        # An answer that comes at once, in this thread, is seen by the next poll.
        owner = threading.get_ident()
        self._resolver.resolve(host, port, on_resolved)

    def _start_resolved(self) -> None:
        while self._resolved:
            channel, attempt, result = self._resolved.popleft()
            if self._channels.get(channel.node_id) is not channel:
                continue
            if isinstance(result, OSError):
                self._fail(channel, f"its name could not be resolved: {result.strerror or result}")
                continue
            channel.addresses.extend(result)
            channel.addresses.rotate(-attempt)
            self._connect_next(channel, "its name has no address")

    def _connect_next(self, channel: KafkaChannel, problem: str) -> None:
        while channel.addresses:
            family, sockaddr = channel.addresses.popleft()
            channel.address = (
                f"{channel.target} ({sockaddr[0]})" if sockaddr[0] not in channel.target else channel.target
            )
            # The channel has the socket before the socket has a descriptor, so that `close` finds what was opened
            # when a signal handler raises.
            opened = channel.socket = socket.socket.__new__(socket.socket)
            try:
                self._open(opened, family)
                status = opened.connect_ex(sockaddr)
            except OSError as error:
                problem = error.strerror or str(error)
                self._drop_socket(channel)
                continue
            if status == 0 or status in _CONNECTING:
                channel.interest = _WRITE
                self._selector.register(opened, _WRITE, channel)
                return
            problem = _describe(status)
            self._drop_socket(channel)
        self._fail(channel, problem)

    def _open(self, opened: socket.socket, family: int) -> None:
        opened.__init__(family, socket.SOCK_STREAM)  # type: ignore[misc]
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._send_buffer >= 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)
        if self._receive_buffer >= 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)

    def is_channel_ready(self, node_id: int) -> bool:
        """See `Selectable.is_channel_ready`."""
        channel = self._channels.get(node_id)
        return channel is not None and channel.is_ready

    def is_send_in_progress(self, node_id: int) -> bool:
        """See `Selectable.is_send_in_progress`."""
        channel = self._channels.get(node_id)
        return channel is not None and bool(channel.sending)

    def local_port(self, node_id: int) -> int:
        """See `Selectable.local_port`."""
        channel = self._channels.get(node_id)
        try:
            return 0 if channel is None or channel.socket is None else int(channel.socket.getsockname()[1])
        except OSError:
            return 0

    def set_max_receive_size(self, node_id: int, size: int) -> None:
        """See `Selectable.set_max_receive_size`."""
        channel = self._channels.get(node_id)
        # None: the poll that brought the frame which speaks for the node also brought the end of its connection.
        if channel is not None:
            channel.receive.max_size = size

    def send(self, node_id: int, buffers: Sequence[Buffer], *, expect_response: bool = True) -> None:
        """See `Selectable.send`.

        Raises `IllegalStateError` when there is no connection, or its last send is still in progress.

        """
        channel = self._channels.get(node_id)
        if channel is None or not channel.is_ready:
            raise IllegalStateError(f"there is no connection to node {node_id} to send on")
        if channel.sending:
            raise IllegalStateError(f"the last send to node {node_id} is still in progress")
        channel.sending = [buffer for buffer in buffers if len(buffer)]
        channel.is_last_word = not expect_response
        self._to_write.append(channel)

    def poll(self, timeout: float, now: float) -> float:
        """See `Selectable.poll`; `now` only matters to simulators, here the time is the system's monotonic clock."""
        # It stands yet where the last poll was interrupted while it waited.
        self.is_only_waiting = False
        self.connected = []
        self.authentications = []
        self.disconnected = {}
        self.completed_sends = []
        self.completed_receives = []
        if self._resolved:
            self._start_resolved()
        if self._worked:
            self._finish_worked()
        if self._to_write:
            to_write, self._to_write = self._to_write, []
            for channel in to_write:
                self._write(channel)
        unread, self._unread = self._unread, []
        if self._failed or self._has_said_last_word or unread:
            timeout = 0.0
            self._has_said_last_word = False
        # Whether an exception of a signal handler, which comes out of `select`, loses nothing.
        self.is_only_waiting = not unread and not self.completed_sends
        events = self._selector.select(min(max(timeout, 0.0), _LONGEST_WAIT))
        self.is_only_waiting = False
        for key, mask in events:
            channel = key.data
            if channel is None:
                self._drain_wakeups()
            elif not channel.is_connected:
                self._finish_connect(channel)
            elif channel.handshaking is not None:
                self._shake_hands(channel, channel.handshaking)
            else:
                if mask & _WRITE:
                    self._write(channel)
                if mask & _READ and channel.socket is not None:
                    self._read(channel)
        for channel in unread:
            if channel.socket is not None:
                self._read(channel)
        if self._failed:
            self._report_failures()
        return time.monotonic()

    def _finish_connect(self, channel: KafkaChannel) -> None:
        assert isinstance(channel.socket, socket.socket)
        status = channel.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            self._drop_socket(channel)
            self._connect_next(channel, _describe(status))
            return
        channel.is_connected = True
        channel.addresses.clear()
        self._set_interest(channel, _READ)
        self.connected.append(channel.node_id)
        if self._channel_builder is None:
            channel.is_ready = True
            return
        layer = self._channel_builder.transport_layer(channel.socket, channel.host, channel.address)
        if layer is None:
            self._begin_authentication(channel)
            return
        channel.socket = channel.handshaking = layer
        self._shake_hands(channel, layer)

    def _shake_hands(self, channel: KafkaChannel, layer: SslTransportLayer) -> None:
        try:
            wanted = layer.handshake()
        except AuthenticationError as error:
            self._fail(channel, str(error), error)
            return
        except OSError as error:
            self._fail(channel, error.strerror or str(error))
            return
        self._set_interest(channel, wanted or _READ)
        if not wanted:
            channel.handshaking = None
            self._begin_authentication(channel)

    def _begin_authentication(self, channel: KafkaChannel) -> None:
        assert self._channel_builder is not None
        channel.authenticator = self._channel_builder.authenticator(channel.address)
        if channel.authenticator is None:
            channel.is_ready = True
            self.authentications.append(Authentication(channel.node_id))
        else:
            self._apply_step(channel, channel.authenticator, channel.authenticator.start())

    def _apply_step(self, channel: KafkaChannel, authenticator: SaslClientAuthenticator, step: Step) -> None:
        if isinstance(step, bytes):
            channel.own_sending = [step]
            self._write(channel)
        elif step is not None:
            self._have_worked(channel, step)
        elif authenticator.is_complete:
            channel.is_ready = True
            began = channel.renewal_began
            renewed_in = None if began is None else time.monotonic() - began
            self.authentications.append(Authentication(channel.node_id, renewed_in))
            if channel.sending:
                self._write(channel)

    def _have_worked(self, channel: KafkaChannel, work: Work) -> None:
        assert self._channel_builder is not None

        def done(result: bytes | KafkaError) -> None:
            self._worked.append((channel, result))
            self.wakeup()

        self._channel_builder.worker.submit(work, done)

    def _finish_worked(self) -> None:
        while self._worked:
            channel, result = self._worked.popleft()
            authenticator = channel.authenticator
            if self._channels.get(channel.node_id) is not channel or authenticator is None:
                continue
            try:
                if isinstance(result, KafkaError):
                    raise authenticator.work_failed(result)
                self._apply_step(channel, authenticator, authenticator.worked(result))
            except KafkaError as error:
                self._fail(channel, str(error), error if isinstance(error, AuthenticationError) else None)

    def _handle_authentication_frame(self, channel: KafkaChannel, frame: Buffer) -> bool:
        """Whether a frame was the authenticator's; during a renewal NetworkClient's responses still arrive."""
        authenticator = channel.authenticator
        if authenticator is None or authenticator.is_complete:
            return False
        if not authenticator.owns(frame) and authenticator.was_complete:
            return False
        now = time.monotonic()
        self._apply_step(channel, authenticator, authenticator.received(frame, now))
        return True

    def _write(self, channel: KafkaChannel) -> None:
        if channel.socket is None:
            return
        if channel.own_sending:
            self._flush(channel, channel.own_sending)
            return
        authenticator = channel.authenticator
        if authenticator is not None and not channel.is_begun:
            if not channel.is_ready:
                return
            now = time.monotonic()
            if authenticator.is_renewal_due(now):
                channel.renewal_began = now
                # What is to be sent waits until the broker has accepted the client once more (KIP-368).
                channel.is_ready = False
                self._apply_step(channel, authenticator, authenticator.renew())
                return
        channel.is_begun = True
        if self._flush(channel, channel.sending):
            channel.is_begun = False
            self._has_said_last_word |= channel.is_last_word
            self.completed_sends.append(channel.node_id)

    def _flush(self, channel: KafkaChannel, sending: list[Buffer]) -> bool:
        """Whether all of it was handed over."""
        assert channel.socket is not None
        try:
            while sending:
                _consume(sending, channel.socket.sendmsg(sending[:_BUFFERS_PER_CALL]))
        except (BlockingIOError, InterruptedError):
            self._set_interest(channel, _READ | _WRITE)
            return False
        except OSError as error:
            # What the peer said before it closed may still be there to read; the read finds the end by itself.
            sending.clear()
            self._set_interest(channel, _READ)
            self._read(channel)
            self._fail(channel, error.strerror or str(error))
            return False
        if channel.interest & _WRITE:
            self._set_interest(channel, _READ)
        return True

    def _read(self, channel: KafkaChannel) -> None:
        receive = channel.receive
        budget = _READ_BUDGET
        try:
            while budget > 0:
                assert channel.socket is not None
                buffer = receive.buffer()
                count = channel.socket.recv_into(buffer)
                if count == 0:
                    self._fail(channel, "the peer closed the connection")
                    return
                for frame in receive.received(count):
                    if channel.authenticator is None or not self._handle_authentication_frame(channel, frame):
                        self.completed_receives.append((channel.node_id, frame))
                if count < len(buffer) or channel.socket is None:
                    return
                budget -= count
            self._note_unread(channel)
        except (BlockingIOError, InterruptedError):
            return
        except AuthenticationError as error:
            self._fail(channel, str(error), error)
        except ProtocolError as error:
            self._fail(channel, str(error))
        except OSError as error:
            self._fail(channel, error.strerror or str(error))

    def _note_unread(self, channel: KafkaChannel) -> None:
        """Note what TLS has decrypted already: it makes no descriptor readable, so the next poll must not wait."""
        if self._channel_builder is None or channel.socket is None or isinstance(channel.socket, socket.socket):
            return
        if channel.socket.has_pending():
            self._unread.append(channel)
            self.wakeup()

    def _set_interest(self, channel: KafkaChannel, interest: int) -> None:
        if channel.interest != interest and channel.socket is not None:
            channel.interest = interest
            self._selector.modify(channel.socket, interest, channel)

    def _fail(self, channel: KafkaChannel, reason: str, error: AuthenticationError | None = None) -> None:
        if self._channels.get(channel.node_id) is channel:
            self._drop_socket(channel)
            del self._channels[channel.node_id]
            self._failed.append((channel, reason, error))

    def _report_failures(self) -> None:
        for channel, reason, error in self._failed:
            self.disconnected[channel.node_id] = Disconnection(
                reason,
                channel.address,
                was_connected=channel.is_connected,
                authentication_error=error,
                was_authenticated=channel.renewal_began is not None,
            )
        self._failed.clear()

    def _drop_socket(self, channel: KafkaChannel) -> None:
        if channel.socket is not None:
            # An interrupted call may have left it without its registration, or even without its descriptor.
            with suppress(KeyError, ValueError):
                self._selector.unregister(channel.socket)
            if isinstance(channel.socket, socket.socket):
                # Python's own `close` notes that it was called before it closes: a second one would do nothing.
                socket.SocketType.close(channel.socket)
            else:
                channel.socket.close()
            channel.socket = None
            channel.interest = 0

    def wakeup(self) -> None:
        """See `Selectable.wakeup`; calls that come before the poll notices the first one cost nothing."""
        if not self._is_wakeup_pending:
            self._is_wakeup_pending = True
            try:
                self._waker.send(b"\0")
            except OSError:
                # Full: a byte is waiting already. Closed: there are no more polls.
                return

    def _drain_wakeups(self) -> None:
        # In this order: a wakeup between the two is lost, but the poll that it wants to end is ending. The other way
        # round its byte could be read here with the flag left set, and no wakeup would ever come through again.
        try:
            self._wakee.recv(4096)
        except BlockingIOError:
            pass
        self._is_wakeup_pending = False

    def close(self, node_id: int) -> None:
        """See `Selectable.close`."""
        channel = self._channels.get(node_id)
        if channel is not None:
            self._drop_socket(channel)
            del self._channels[node_id]
        # What an interrupted poll had yet to report is no news of the connection that is made next.
        self._failed = [failed for failed in self._failed if failed[0].node_id != node_id]

    def close_all(self) -> None:
        """See `Selectable.close_all`."""
        for node_id in list(self._channels):
            self.close(node_id)
        self._selector.close()
        self._waker.close()
        self._wakee.close()


def _consume(buffers: list[Buffer], count: int) -> None:
    """Take `count` bytes off the front."""
    done = 0
    for buffer in buffers:
        size = len(buffer)
        if count < size:
            break
        count -= size
        done += 1
    del buffers[:done]
    if count:
        buffers[0] = memoryview(buffers[0])[count:]


def _describe(status: int) -> str:
    import os

    return os.strerror(status)
