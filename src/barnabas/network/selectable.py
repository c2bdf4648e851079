"""What NetworkClient needs of the outside world: connections that carry frames, and time that passes in `poll`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.protocol.buffer import Buffer as Buffer

if TYPE_CHECKING:
    from barnabas.errors import AuthenticationError


class Authentication(NamedTuple):
    """A broker has accepted this client, by TLS or SASL; `renewed_in` seconds, if it had done so before (KIP-368)."""

    node_id: int
    renewed_in: float | None = None


class Disconnection:
    """Why a connection ended: `reason` for people, `address` that was tried or connected, `was_connected`.

    With an `authentication_error` there is no point in trying again; `was_authenticated` says that it came when a
    session was to be renewed.
    """

    __slots__ = ("address", "authentication_error", "reason", "was_authenticated", "was_connected")

    def __init__(
        self,
        reason: str,
        address: str,
        *,
        was_connected: bool,
        authentication_error: AuthenticationError | None = None,
        was_authenticated: bool = False,
    ) -> None:
        self.authentication_error = authentication_error
        self.reason = reason
        self.address = address
        self.was_authenticated = was_authenticated
        self.was_connected = was_connected

    def __repr__(self) -> str:
        return f"Disconnection({self.reason!r}, {self.address!r}, was_connected={self.was_connected})"


class Selectable(Protocol):
    """Connections by node id. `Selector` does it with sockets, a simulator with virtual ones.

    The results of the last `poll` stand in the six collections until the next. Only the owner's thread may call
    anything but `wakeup`.
    """

    @property
    def connected(self) -> Sequence[int]:
        """Nodes whose connection was established in the last poll; TLS and SASL may follow."""

    @property
    def authentications(self) -> Sequence[Authentication]:
        """Those of the last poll; none of nodes that ask for no TLS or SASL."""

    @property
    def disconnected(self) -> Mapping[int, Disconnection]:
        """Nodes whose connection ended, or could not be made, in the last poll; not those closed by `close`."""

    @property
    def completed_sends(self) -> Sequence[int]:
        """Nodes to which a send was handed over completely in the last poll."""

    @property
    def completed_receives(self) -> Sequence[tuple[int, Buffer]]:
        """Node and frame, without the size in front, in the order of arrival."""

    def connect(self, node_id: int, host: str, port: int, attempt: int) -> None:
        """Start to connect; the result comes with a later poll. `attempt` says which address to begin with."""

    def is_channel_ready(self, node_id: int) -> bool:
        """Whether bytes can be sent there now or soon: the connection is made, and TLS and SASL are done."""

    def is_send_in_progress(self, node_id: int) -> bool:
        """Whether the last send has not been handed over completely."""

    def send(self, node_id: int, buffers: Sequence[Buffer], *, expect_response: bool = True) -> None:
        """Queue one frame, its size included, for the next poll; one at a time for each node.

        Without `expect_response` the poll that hands it over returns at once: nothing else will come of it.
        """

    def local_port(self, node_id: int) -> int:
        """Return the port of this end of a connection; 0 where there is none."""

    def set_max_receive_size(self, node_id: int, size: int) -> None:
        """Bound the frames that the node may send from now on."""

    def poll(self, timeout: float, now: float) -> float:
        """Transmit and receive, wait up to `timeout` seconds when there is nothing to do; return the time then."""

    def wakeup(self) -> None:
        """Make the current or next poll return without waiting; from any thread."""

    def close(self, node_id: int) -> None:
        """End a connection at once; nothing is reported for it."""

    def close_all(self) -> None:
        """End everything; the object is not usable any more."""
