"""A broker that does not answer: commands show what the others tell, say who is missing, and give an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas import AdminClient, Broker, NewTopic, Producer
from barnabas.cli.main import main
from barnabas.client.admin.results import FromBrokers, Results
from barnabas.errors import KafkaError, KafkaTimeoutError

SILENT: dict[int, KafkaError] = {2: KafkaTimeoutError("broker 2 did not answer in time")}


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A broker with a group and an open transaction and, as it seems to an admin client, another one that is silent."""

    def add_a_silent_one(name: str) -> None:
        method = getattr(AdminClient, name)

        def ask(self: Any, *arguments: Any, raise_errors: bool = True, **more: Any) -> Any:
            found = method(self, *arguments, **more)
            if isinstance(found, FromBrokers):
                found.errors = SILENT
            else:
                found = Results(dict(found), SILENT)
            if raise_errors:
                raise SILENT[2]
            return found

        monkeypatch.setattr(AdminClient, name, ask)

    with Broker(in_process=True) as broker:
        with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t")])
            admin.alter_consumer_group_offsets("readers", {("t", 0): 0})
        with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="payments") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("t", b"1").result()
            for name in ("list_groups", "list_transactions", "describe_log_dirs"):
                add_a_silent_one(name)
            yield broker.bootstrap_servers
            producer.abort_transaction()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["cluster"], "1 groups"),
        (["group", "list"], "readers"),
        (["txn", "list"], "payments"),
        (["log-dir"], "/"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_the_others_tell_is_shown(
    words: list[str], shown: str, servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*words, "-b", servers])

    said = capsys.readouterr()
    assert (code, shown in said.out) == (1, True)
    assert "broker 2 did not answer in time" in said.err
