"""Streams groups (KIP-1071): Apache Kafka's own classes answer as ours do; see `streams_oracle`."""

from __future__ import annotations

import json
import subprocess
from random import Random
from typing import Any

import pytest

from tests.peers import foreign_programs
from tests.support import streams_oracle
from tests.vectors.test_streams_group_vectors import check_assignments

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def answers(questions: list[Any]) -> list[Any]:
    """What StreamsGroupOracle makes of the questions."""
    command = ["java", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    done = subprocess.run(
        [*command, "-cp", foreign_programs.java_class_path(), "StreamsGroupOracle"],
        input="".join(json.dumps(question) + "\n" for question in questions),
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(questions), done.stderr[-1000:]
    return found


def asked(kind: str, count: int) -> list[tuple[Any, Any]]:
    """New questions, with answers."""
    random = Random()
    questions = [streams_oracle.QUESTIONS[kind](random) for _ in range(count)]
    return list(zip(questions, answers(questions), strict=True))


def test_records() -> None:
    for question, answer in asked("records", 500):
        assert streams_oracle.written(question) == answer, question


def test_internal_topics() -> None:
    for question, answer in asked("configure", 3000):
        answer.pop("message", None)
        if streams_oracle.is_alike(question):
            assert streams_oracle.configured(question) == answer, question


def test_assignments() -> None:
    check_assignments(asked("assign", 3000))
