"""Kafka's SslTransportLayer: TLS on a non-blocking socket, in the shape of the socket that the Selector uses."""

from __future__ import annotations

import selectors
import socket
import ssl
from collections.abc import Sequence
from typing import Any

from barnabas.errors import SslAuthenticationError
from barnabas.network.selectable import Buffer

_READ = selectors.EVENT_READ
_WRITE = selectors.EVENT_WRITE
# The most that one TLS record carries; handing over less for each of many small buffers would cost a record each.
_RECORD_SIZE = 16384


class SslTransportLayer:
    """Encrypts what is sent and decrypts what is received; `handshake` comes first.

    What would block raises BlockingIOError, as a socket does. A peer that refuses this client's certificate, or whose
    own is not trusted, is a SslAuthenticationError; a connection that merely ends is an OSError.
    """

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, host: str, target: str) -> None:
        self._target = target
        self._socket = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
        self._has_received = False

    def handshake(self) -> int:
        """Go on with the handshake: 0 when it is done, else the event to wait for.

        Raises `SslAuthenticationError` when the two do not agree, or one does not trust the other. Raises
        `OSError` when the connection ended.

        """
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            return _READ
        except ssl.SSLWantWriteError:
            return _WRITE
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError):
            raise OSError(
                "the peer closed the connection during the TLS handshake; does it expect TLS on this port?"
            ) from None
        except ssl.CertificateError as error:
            problem = getattr(error, "verify_message", "") or str(error)
            hint = "; is its issuer in ssl.truststore.location?" if "issuer" in problem or "self" in problem else ""
            raise SslAuthenticationError(
                f"SSL handshake failed with {self._target}: its certificate is not accepted: {problem}{hint}"
            ) from None
        except ssl.SSLError as error:
            raise SslAuthenticationError(f"SSL handshake failed with {self._target}: {_reason(error)}") from None
        except ValueError as error:
            raise SslAuthenticationError(f"SSL handshake failed with {self._target}: {error}") from None
        return 0

    def sendmsg(self, buffers: Sequence[Buffer]) -> int:
        """Send a part of the buffers; how many bytes."""
        first = buffers[0]
        if len(first) < _RECORD_SIZE and len(buffers) > 1:
            first = memoryview(_joined(buffers))
        try:
            return self._socket.send(first)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None

    def recv_into(self, buffer: memoryview) -> int:
        """Fill the buffer as far as there is something to read; 0 when the peer closed the connection."""
        filled = 0
        try:
            while filled < len(buffer):
                count = self._socket.recv_into(buffer[filled:])
                if count == 0:
                    break
                filled += count
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not filled:
                raise BlockingIOError from None
        except ssl.SSLError as error:
            if not filled:
                raise self._problem(error) from None
        self._has_received |= filled > 0
        return filled

    def _problem(self, error: ssl.SSLError) -> Exception:
        """In TLS 1.3 a broker judges the client's certificate after the handshake, and says so by an alert."""
        if not self._has_received and "ALERT" in (error.reason or ""):
            return SslAuthenticationError(f"SSL handshake failed with {self._target}: {_reason(error)}")
        return OSError(f"TLS failed: {_reason(error)}")

    def has_pending(self) -> bool:
        """Whether there is something to read that the socket's descriptor does not show."""
        return self._socket.pending() > 0

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def getsockname(self) -> Any:
        """Return this end's address, as the socket's method does."""
        return self._socket.getsockname()

    def close(self) -> None:
        """End the connection at once, with TLS's own goodbye (close_notify) if it can be said without waiting."""
        try:
            self._socket.unwrap()
        except (OSError, ValueError):
            pass
        self._socket.close()


def _joined(buffers: Sequence[Buffer]) -> bytes:
    parts: list[memoryview] = []
    room = _RECORD_SIZE
    for buffer in buffers:
        parts.append(memoryview(buffer)[:room])
        room -= len(parts[-1])
        if not room:
            break
    return b"".join(parts)


_EXPLANATIONS = {
    "WRONG_VERSION_NUMBER": "the broker's bytes are not TLS: is this a listener without TLS?",
    "UNKNOWN_CA": "the broker does not trust this client's certificate (unknown CA)",
    "CERTIFICATE_UNKNOWN": "the broker does not trust this client's certificate",
    "CERTIFICATE_REQUIRED": "the broker demands a client certificate: set ssl.keystore.*",
    "BAD_CERTIFICATE": "the broker refuses this client's certificate, or demands one (ssl.keystore.*)",
    "PROTOCOL_VERSION": "no common TLS version (ssl.enabled.protocols)",
    "HANDSHAKE_FAILURE": "no common cipher suite, or the broker demands a client certificate (ssl.keystore.*)",
}


def _reason(error: ssl.SSLError) -> str:
    reason = error.reason or str(error)
    for sign, explanation in _EXPLANATIONS.items():
        if sign in reason:
            return f"{explanation} [{reason}]"
    return reason.replace("_", " ").lower()
