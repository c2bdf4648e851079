from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.client_quota_manager import ClientQuotas
from barnabas.broker.config import BrokerConfig, parse_limits
from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.network.connection_quotas import ConnectionQuotas
from barnabas.errors import ConfigError


class Limits:
    def __init__(self, settings: dict[str, Any] | None = None, rates: dict[str | None, float] | None = None):
        config = BrokerConfig(settings)
        metadata = ClusterMetadata(MemoryStore())
        for address, rate in (rates or {}).items():
            metadata.put_client_quotas({frozenset({("ip", address)}): {"connection_creation_rate": rate}})
        self.config = config
        self.quotas = ConnectionQuotas(config, ClientQuotas(metadata, config))

    def admitted(self, address: str, times: int, now: float = 0.0) -> int:
        return sum(self.quotas.admit(address, "PLAINTEXT", now) is None for _ in range(times))


def test_all_connections_together() -> None:
    limits = Limits({"max.connections": 3})
    assert [limits.admitted("a", 2), limits.admitted("b", 2)] == [2, 1]
    limits.quotas.release("a", "PLAINTEXT")
    assert limits.admitted("b", 2) == 1


def test_those_of_one_listener() -> None:
    limits = Limits(
        {
            "listeners": "PUBLIC://127.0.0.1:0,INTERNAL://127.0.0.1:0",
            "listener.security.protocol.map": "PUBLIC:PLAINTEXT,INTERNAL:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "listener.name.public.max.connections": 2,
            "max.connections": 5,
        }
    )
    taken = [limits.quotas.admit("a", listener, 0.0) is None for listener in ["PUBLIC"] * 3 + ["INTERNAL"] * 4]
    assert taken == [True, True, False, True, True, True, False]
    limits.quotas.release("a", "PUBLIC")
    refusals = [limits.quotas.admit("a", "PUBLIC", 0.0) for _ in range(2)]
    assert refusals[0] is None
    assert refusals[1] is not None
    assert limits.quotas.count == 5


def test_those_of_one_address_and_exceptions_from_that() -> None:
    limits = Limits({"max.connections.per.ip": 2, "max.connections.per.ip.overrides": "10.0.0.1:4, 10.0.0.2:0"})
    assert [limits.admitted(address, 9) for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3")] == [4, 0, 2]


def test_limits_that_change_while_the_broker_runs() -> None:
    limits = Limits({"max.connections.per.ip": 2})
    assert limits.admitted("a", 9) == 2
    limits.config.apply_dynamic({"max.connections.per.ip": "3"}, {})
    assert limits.admitted("a", 9) == 1
    limits.config.apply_dynamic({"max.connections.per.ip": "3"}, {"max.connections.per.ip.overrides": "a:5"})
    assert limits.admitted("a", 9) == 2


def test_how_fast_one_address_may_come() -> None:
    limits = Limits(rates={"a": 2, None: 1})
    # In a window of ten seconds.
    assert (limits.admitted("a", 50), limits.admitted("b", 50)) == (20, 10)
    refusal = limits.quotas.admit("a", "PLAINTEXT", 0.0)
    assert refusal is not None
    assert 0 < refusal.delay <= 1
    assert limits.admitted("a", 50, now=12.0) == 20


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:-1"])
def test_overrides_that_make_no_sense(text: str) -> None:
    with pytest.raises(ConfigError, match="ADDRESS:LIMIT"):
        parse_limits(text)


def test_overrides_with_addresses_of_both_kinds() -> None:
    assert parse_limits("127.0.0.1:1,[::1]:2") == {"127.0.0.1": 1, "::1": 2}


def pauses(limits: Limits, times: int, now: float = 0.0, listener: str = "PLAINTEXT") -> list[float | None]:
    return [limits.quotas.pause(listener, now) for _ in range(times)]


WINDOW = {"quota.window.num": 2, "quota.window.size.seconds": 1}


class TestHowFastAllMayCome:
    def test_beyond_the_rate_they_wait_and_then_they_are_refused(self) -> None:
        limits = Limits({"max.connection.creation.rate": 5, **WINDOW})
        found = pauses(limits, 200)
        assert found[:5] == [0.0] * 5
        waits = [wait for wait in found[5:] if wait is not None]
        assert waits == sorted(waits)
        assert 0 < waits[0] <= 0.3
        assert 25 < waits[-1] <= 30
        assert len(waits) == pytest.approx(150, abs=10)
        assert found[-1] is None
        # Who was refused has taken nothing of the rate.
        assert limits.quotas.pause("PLAINTEXT", 100.0) == 0.0

    def test_a_listener_has_its_own_and_that_of_brokers_no_other(self) -> None:
        limits = Limits(
            {
                "listeners": "PUBLIC://127.0.0.1:0,INTERNAL://127.0.0.1:0,OTHER://127.0.0.1:0",
                "listener.security.protocol.map": "PUBLIC:PLAINTEXT,INTERNAL:PLAINTEXT,OTHER:PLAINTEXT",
                "inter.broker.listener.name": "INTERNAL",
                "listener.name.public.max.connection.creation.rate": 2,
                "max.connection.creation.rate": 4,
                **WINDOW,
            }
        )
        assert pauses(limits, 50, listener="INTERNAL") == [0.0] * 50
        assert [wait == 0.0 for wait in pauses(limits, 3, listener="PUBLIC")] == [True, True, False]
        assert [wait == 0.0 for wait in pauses(limits, 2, listener="OTHER")] == [True, False]

    def test_it_may_change_while_the_broker_runs(self) -> None:
        limits = Limits(WINDOW)
        assert pauses(limits, 1000) == [0.0] * 1000
        limits.config.apply_dynamic({"max.connection.creation.rate": "1"}, {})
        assert [wait == 0.0 for wait in pauses(limits, 2)] == [True, False]
