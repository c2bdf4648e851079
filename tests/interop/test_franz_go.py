"""franz-go against our broker, through the program in tests/interop/go."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas import Broker
from tests.peers import foreign_programs

NewName = Callable[[str], str]


@pytest.fixture(scope="session")
def program() -> Path:
    return foreign_programs.go_program()


def run(program: Path, broker: Broker, *arguments: str) -> str:
    done = subprocess.run(
        [str(program), broker.bootstrap_servers, *arguments], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("balancer", "codec"),
    [
        ("range", "none"),
        ("roundrobin", "gzip"),
        ("sticky", "snappy"),
        ("cooperative-sticky", "lz4"),
        ("server-side", "zstd"),
    ],
)
def test_a_group_whose_members_come_and_go_moves_every_record_exactly_once(
    broker: Broker, new_name: NewName, program: Path, balancer: str, codec: str
) -> None:
    moved = run(program, broker, "etl", new_name("etl"), balancer, codec, "20000")
    assert int(moved.split()[1]) >= 20000


@pytest.mark.timeout(400)
def test_a_group_moves_every_record_exactly_once_in_transactions_though_members_vanish(
    broker: Broker, new_name: NewName, program: Path
) -> None:
    words = run(program, broker, "transactions", new_name("txn"), "12000").split()
    moved, aborted, vanished = (int(words[at]) for at in (1, 3, 5))
    assert moved == 12_000
    assert aborted > 0
    assert vanished > 0


def test_administration(broker: Broker, new_name: NewName, program: Path) -> None:
    assert run(program, broker, "admin", new_name("kadm")).splitlines()[-1] == "delete topics"
