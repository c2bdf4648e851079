"""The console is not exposed unasked, and knows its own names."""

from __future__ import annotations

import pytest

from barnabas.console.settings import ConsoleSettings, check_exposure, host_names
from barnabas.errors import ConfigError

BASE = ConsoleSettings({}, ())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.1.2.3"])
def test_this_machine_only_needs_nothing(host: str) -> None:
    check_exposure(BASE._replace(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "kafka.example", ""])
def test_other_machines_need_tls(host: str) -> None:
    with pytest.raises(ConfigError, match="--tls-certificate"):
        check_exposure(BASE._replace(host=host))
    check_exposure(BASE._replace(host=host, tls_certificate="c.pem", tls_key="k.pem"))


def test_half_of_tls_is_refused() -> None:
    with pytest.raises(ConfigError, match="belong together"):
        check_exposure(BASE._replace(tls_key="k.pem"))


def test_the_console_answers_to_its_own_names_and_those_allowed() -> None:
    names = host_names(BASE._replace(allowed_hosts=("Console.Example",)), 8080)

    assert names == {"127.0.0.1:8080", "localhost:8080", "[::1]:8080", "console.example"}


def test_the_default_port_may_be_left_out() -> None:
    assert "localhost" in host_names(BASE, 80)
    assert "localhost" not in host_names(BASE, 443)
    exposed = BASE._replace(host="c.example", tls_certificate="c", tls_key="k")
    assert host_names(exposed, 443) == {"c.example", "c.example:443"}
