"""`max.connection.creation.rate`: connections beyond it are served, only later."""

from __future__ import annotations

import socket
import ssl
import time
from pathlib import Path

import pytest

from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from tests.peers.secure_kafka import Certificates
from tests.support.secured_broker import secured_broker

SETTINGS = {
    "max.connection.creation.rate": "4",
    "quota.window.num": "2",
    "quota.window.size.seconds": "1",
}
REQUEST = encode_request(ApiVersionsRequest(), 0, 0, "test")


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_connections_beyond_the_rate_are_served_later(listener: str, tmp_path: Path) -> None:
    certificates = Certificates.make(tmp_path)
    # One listener: the broker's own limit does not hold for that of brokers where there are others.
    own = {"listeners": f"{listener}://127.0.0.1:0", "ssl.keystore.location": str(certificates.broker)}
    with secured_broker(tmp_path / "broker", {**SETTINGS, **own}) as broker:
        host, _, port = broker.servers[listener].rpartition(":")
        context = ssl.create_default_context(cafile=str(certificates.authority))
        crowd = [socket.create_connection((host, int(port)), 10) for _ in range(7)]
        # Who is gone when its turn comes does no harm.
        crowd.pop(5).close()
        started, took = time.monotonic(), []
        for one in crowd:
            if listener == "SSL":
                one = context.wrap_socket(one, server_hostname="localhost")
            one.sendall(REQUEST)
            assert one.recv(4)
            took.append(time.monotonic() - started)
            one.close()

    assert took[-1] > 0.4
    assert took[0] < took[-1] - 0.3
