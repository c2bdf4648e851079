"""Tests that were skipped for lack of a program are counted, and what brings it is named."""

from __future__ import annotations

import pytest

from tests.peers import apache_kafka, foreign_programs
from tests.support.missing_programs import missing_programs, without_class


def test_what_is_missing_is_counted_and_the_remedy_named_once() -> None:
    reasons = {
        "Skipped: Java is missing (apt-get install openjdk-17-jre-headless)": 3,
        "Skipped: javac is missing (apt-get install openjdk-17-jdk-headless)": 2,
        "Skipped: fish is not installed": 1,
    }

    assert missing_programs(reasons) == (
        "NOT RUN: 5 tests, for lack of Java (3), javac (2). To run them: apt-get install openjdk-17-jdk-headless"
    )


def test_nothing_is_said_where_nothing_is_missing() -> None:
    assert missing_programs({"Skipped: fish is not installed": 1}) == ""


def test_the_reasons_of_the_peers_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    reasons = [str(apache_kafka.why_not())]
    for build in (foreign_programs.go_program, foreign_programs.node_packages):
        with pytest.raises(foreign_programs.CannotBuildError) as missing:
            build()
        reasons.append(str(missing.value))

    reasons[0] = f"Skipped: {reasons[0]}"
    reasons[1] = f"tests.peers.foreign_programs.CannotBuildError: {reasons[1]}"
    assert not [reason for reason in map(without_class, reasons) if ": " in reason]
    line = missing_programs(dict.fromkeys(map(without_class, reasons), 1))

    assert "3 tests, for lack of Java (1), Go (1), Node (1)" in line
