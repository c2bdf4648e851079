"""Commands for quotas and for leaders, on a broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import AdminClient, Broker, NewTopic
from barnabas.cli.main import main

Run = Callable[..., Any]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run a command that succeeds, and give what it printed as JSON."""
    with Broker(in_process=True) as broker:
        with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("flights", 2)])

        def run_command(*words: str) -> Any:
            capsys.readouterr()
            assert main([*words, "-b", broker.bootstrap_servers, "-o", "json"]) == 0, capsys.readouterr().err
            return json.loads(capsys.readouterr().out)

        yield run_command


def listed(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in ("user", "clientId", "ip", "quota", "value")) for row in rows]


def test_quotas_are_set_listed_by_entity_and_removed(run: Run) -> None:
    run("quota", "set", "--user", "alice", "producer_byte_rate=1048576", "request_percentage=50")
    run("quota", "set", "--client-id-default", "consumer_byte_rate=2e6")

    assert listed(run("quota", "list")) == [
        (None, "(default)", None, "consumer_byte_rate", 2e6),
        ("alice", None, None, "producer_byte_rate", 1048576.0),
        ("alice", None, None, "request_percentage", 50.0),
    ]
    run("quota", "unset", "--user", "alice", "request_percentage")
    assert listed(run("quota", "list", "--user", "alice")) == [
        ("alice", None, None, "producer_byte_rate", 1048576.0),
    ]


def test_a_dry_run_changes_no_quota(run: Run) -> None:
    run("quota", "set", "--user", "alice", "producer_byte_rate=5", "--dry-run")

    assert run("quota", "list") == []


def test_who_leads_already_is_said(run: Run) -> None:
    assert run("leader", "elect", "flights:1") == [{"topic": "flights", "partition": 1, "result": "leads already"}]
    assert [row["partition"] for row in run("leader", "elect", "flights")] == [0, 1]
