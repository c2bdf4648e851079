"""TLS between a socket and its connection, by Python's `ssl`; handshakes are computed in threads of their own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

#: Handshakes are computed in so many threads; OpenSSL does its arithmetic without the interpreter's lock.
_THREADS = 2
#: What a client may send until its handshake is done: a chain of large certificates takes some 20 KB.
_MOST_HANDSHAKE_BYTES = 128 * 1024
#: So many bytes are taken from the socket at once; they are decrypted before anything else happens.
_INPUT_SIZE = 256 * 1024
_REASONS = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS, which this listener wants (security.protocol=SSL or SASL_SSL)",
    "HTTP_REQUEST": "it speaks HTTP without TLS",
    "HTTPS_PROXY_REQUEST": "it speaks to a proxy, in HTTP",
    "UNSUPPORTED_PROTOCOL": "it offers only versions of TLS that ssl.enabled.protocols leaves out",
    "NO_SHARED_CIPHER": "it offers no cipher suite that this listener takes (ssl.cipher.suites)",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has sent no certificate, and ssl.client.auth is required",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust who has issued this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept this broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it finds that this broker's certificate has expired",
}


class Inner(Protocol):
    """The connection's protocol, which sees its bytes as if there was no TLS, and this transport as its own."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.BaseProtocol."""

    def secured(self, certificate: bytes | None) -> None:
        """Take note that the handshake is done, and of the client's certificate in DER, which was verified."""

    def insecure(self, reason: str) -> None:
        """Take note that the handshake has failed; the socket is closed."""

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""

    def eof_received(self) -> bool | None:
        """See asyncio.BufferedProtocol."""

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol."""

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol."""

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BaseProtocol."""


class Handshakes:
    """Where all connections of a server have their handshakes computed, and what they share."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads: ThreadPoolExecutor | None = None
        #: Bytes from a socket, until they are decrypted in the same call.
        self.input = memoryview(bytearray(_INPUT_SIZE))

    def compute(self, shake: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Call `shake` in a thread, and `done` on the loop with what it has raised."""
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(_THREADS, "tls-handshake")

        def run() -> None:
            problem: Exception | None = None
            try:
                shake()
            except Exception as raised:  # noqa: BLE001 - its connection has to be told
                problem = raised
            try:
                self._loop.call_soon_threadsafe(done, problem)
            except RuntimeError:
                # The loop is closed, and all connections with it.
                return

        self._threads.submit(run)

    def close(self) -> None:
        """Begin no more handshakes."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


class TlsTransport(asyncio.BufferedProtocol):
    """To the socket a protocol, to the connection (`inner`) a transport.

    While a handshake is computed the socket is not read, so nothing is kept of what a client sends in that time.
    """

    def __init__(self, handshakes: Handshakes, context: ssl.SSLContext, inner: Inner):
        self._handshakes = handshakes
        self._inner = inner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._transport: asyncio.Transport | None = None
        self._is_open = False
        self._is_computing = False
        self._is_closed = False
        self._is_paused = False
        self._is_held = False
        self._handshake_bytes = 0

    # -- below: the socket's protocol ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; the connection is admitted or refused before anything is computed for it."""
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(cast("asyncio.BaseTransport", self))

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        return self._handshakes.input

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what the socket has brought."""
        if self._is_closed:
            return
        self._incoming.write(self._handshakes.input[:nbytes])
        if self._is_open:
            self._decrypt()
            return
        self._handshake_bytes += nbytes
        if self._handshake_bytes > _MOST_HANDSHAKE_BYTES:
            self._fail(f"it has sent {self._handshake_bytes} bytes, and its handshake is not done")
        elif not self._is_held:
            self._shake()

    def eof_received(self) -> bool | None:
        """Let the connection answer what it has; without a connection there is nothing to answer."""
        if not self._is_open:
            return False
        self._decrypt()
        return self._is_closed or self._inner.eof_received()

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BaseProtocol."""
        self._is_closed = True
        self._inner.connection_lost(exc)

    def hold(self) -> None:
        """Begin no handshake until `let_go`."""
        self._is_held = True

    def let_go(self) -> None:
        """Begin with what has come so far."""
        self._is_held = False
        if self._handshake_bytes and not self._is_closed:
            self._shake()

    # -- the handshake ------------------------------------------------------------------------------------------------

    def _shake(self) -> None:
        assert self._transport is not None
        self._is_computing = True
        self._transport.pause_reading()
        self._handshakes.compute(self._tls.do_handshake, self._shaken)

    def _shaken(self, problem: Exception | None) -> None:
        self._is_computing = False
        if self._is_closed:
            self._end()
            return
        self._flush()
        if isinstance(problem, ssl.SSLWantReadError):
            self._read_again()
        elif problem is not None:
            self._fail(reason_of(problem))
        else:
            self._is_open = True
            self._inner.secured(self._tls.getpeercert(binary_form=True))
            self._read_again()
            self._decrypt()

    def _fail(self, reason: str) -> None:
        self._is_closed = True
        self._inner.insecure(reason)
        self._end()

    # -- above: the connection's transport ----------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        if self._is_closed or not self._is_open:
            return
        try:
            self._tls.write(data)
        except ssl.SSLError as problem:
            self._fail(reason_of(problem))
            return
        self._flush()

    def pause_reading(self) -> None:
        """Decrypt no more, and leave what comes in the socket."""
        self._is_paused = True
        if self._transport is not None and not self._is_computing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on, with what was not decrypted first."""
        self._is_paused = False
        if self._transport is not None:
            self._read_again()
            asyncio.get_running_loop().call_soon(self._decrypt)

    def close(self) -> None:
        """End the connection when what was written is out."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._is_computing:
            # `_shaken` ends it, for a thread uses the TLS object.
            return
        if self._is_open:
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                # What is missing is the client's goodbye, for which the broker does not wait.
                pass
            self._flush()
        self._end()

    def abort(self) -> None:
        """End the connection now."""
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def get_write_buffer_size(self) -> int:
        """See asyncio.Transport."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def set_write_buffer_limits(self, high: int) -> None:
        """See asyncio.Transport."""
        assert self._transport is not None
        self._transport.set_write_buffer_limits(high)

    def is_closing(self) -> bool:
        """See asyncio.Transport."""
        return self._is_closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See asyncio.BaseTransport."""
        assert self._transport is not None
        return self._transport.get_extra_info(name, default)

    def _decrypt(self) -> None:
        """Give the connection what has come, as long as it wants input."""
        while self._is_open and not (self._is_closed or self._is_paused):
            buffer = self._inner.get_buffer(-1)
            count, is_over = self._read_into(buffer)
            if count:
                self._inner.buffer_updated(count)
            if is_over:
                if not self._is_closed and not self._inner.eof_received():
                    self.close()
                return
            if count < len(buffer):
                break
        if self._outgoing.pending and not self._is_closed:
            self._flush()

    def _read_into(self, buffer: memoryview) -> tuple[int, bool]:
        """Return how many bytes were decrypted, and whether the client has ended its side."""
        count = 0
        try:
            while count < len(buffer):
                more = self._tls.read(len(buffer) - count, cast("Any", buffer[count:]))
                if not more:
                    return count, True
                count += cast("int", more)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            return count, True
        except ssl.SSLError as problem:
            self._fail(reason_of(problem))
        return count, False

    def _read_again(self) -> None:
        assert self._transport is not None
        if not (self._is_paused or self._is_computing or self._is_closed):
            self._transport.resume_reading()

    def _flush(self) -> None:
        assert self._transport is not None
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    def _end(self) -> None:
        assert self._transport is not None
        if not self._is_computing and self._outgoing.pending:
            # The alert that says why.
            self._transport.write(self._outgoing.read())
        self._transport.close()


def reason_of(problem: Exception) -> str:
    """Return what is wrong, as an operator may understand it."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {problem.verify_message}"
    reason = getattr(problem, "reason", None) or ""
    return _REASONS.get(reason) or (reason.replace("_", " ").lower() if reason else str(problem))
