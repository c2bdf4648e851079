"""Ports of this machine for nodes that have to know each other's before they run."""

from __future__ import annotations

import socket

#: Where the nodes of a cluster on this machine reach each other.
HOST = "127.0.0.1"


def free_address() -> str:
    """Return a free port with its host; the system gives it to no other socket for a minute.

    It remembers a connection there.
    """
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        with socket.create_connection((HOST, port)):
            accepted, _ = listener.accept()
            accepted.close()  # the side that closes first is the one that waits
    return f"{HOST}:{port}"
