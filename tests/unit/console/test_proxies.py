"""Whom a trusted proxy speaks for; and that no one else is believed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")

from barnabas.console.proxies import Proxies, parse_network
from barnabas.errors import ConfigError

TRUSTED = Proxies([parse_network("10.0.0.0/8"), parse_network("::1"), parse_network("127.0.0.1")])


def seen(peer: str | None, *headers: tuple[str, str], scheme: str = "http") -> tuple[str, str]:
    """Address and scheme of a request as the console takes it."""
    scope: dict[str, Any] = {
        "type": "http", "scheme": scheme, "client": None if peer is None else (peer, 4711),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
    }  # fmt: skip
    found = TRUSTED.seen_through(scope)
    return found["client"][0] if found["client"] else "", found["scheme"]


FOR, PROTO = "x-forwarded-for", "x-forwarded-proto"


@pytest.mark.parametrize(
    ("peer", "headers", "expected"),
    [
        ("10.1.1.1", [(FOR, "203.0.113.5"), (PROTO, "https")], ("203.0.113.5", "https")),
        ("127.0.0.1", [(FOR, "203.0.113.5, 10.9.9.9")], ("203.0.113.5", "http")),
        # What the client wrote itself stands before what the proxy has seen.
        ("10.1.1.1", [(FOR, "10.0.0.7, 198.51.100.1, 203.0.113.5")], ("203.0.113.5", "http")),
        ("10.1.1.1", [(FOR, "198.51.100.1"), (FOR, "203.0.113.5"), (PROTO, "https, http")], ("203.0.113.5", "http")),
        ("::1", [(FOR, "[2001:db8::5]:443"), (PROTO, "HTTPS")], ("2001:db8::5", "https")),
        ("::ffff:10.1.1.1", [(FOR, "203.0.113.5:9000")], ("203.0.113.5", "http")),
        ("10.1.1.1", [(FOR, "unknown"), (PROTO, "gopher")], ("10.1.1.1", "http")),
        ("10.1.1.1", [(FOR, "203.0.113.5, _hidden, 10.2.2.2")], ("10.2.2.2", "http")),
        ("10.1.1.1", [], ("10.1.1.1", "http")),
        ("203.0.113.9", [(FOR, "10.1.1.1"), (PROTO, "https")], ("203.0.113.9", "http")),
        (None, [(FOR, "10.1.1.1"), (PROTO, "https")], ("", "http")),
    ],
)
def test_a_trusted_proxy_says_for_whom_it_asks(
    peer: str | None, headers: list[tuple[str, str]], expected: tuple[str, str]
) -> None:
    assert seen(peer, *headers) == expected


@given(st.text(st.characters(codec="latin-1"), max_size=60), st.text(st.characters(codec="latin-1"), max_size=20))
def test_a_stranger_writes_what_it_likes_into_these_headers(forwarded: str, scheme: str) -> None:
    assert seen("203.0.113.9", (FOR, forwarded), (PROTO, scheme)) == ("203.0.113.9", "http")
    # Behind a proxy that appends what it sees, too.
    assert seen("10.1.1.1", (FOR, f"{forwarded}, 203.0.113.9"))[0] == "203.0.113.9"


@pytest.mark.parametrize("text", ["", "proxy", "10.0.0.0/33", "10.0.0.1/8", "1.2.3"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--trusted-proxy"):
        parse_network(text)
