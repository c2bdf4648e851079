"""Everything that Kafka Streams offers is here, or tools/streams_comparison.py says why not."""

from __future__ import annotations

import shutil

import pytest

from barnabas import streams
from tests.peers import apache_kafka
from tools import java_streams, streams_comparison, streams_table


def test_the_page_is_what_the_code_makes_it() -> None:
    assert streams_table.PATH.read_text(encoding="utf-8") == streams_table.table(), (
        "python -m tools.streams_table --write"
    )


def test_all_that_java_offers_is_here_or_has_a_reason_why_not() -> None:
    assert [entry for entry in streams_comparison.entries() if entry.here is None and not entry.reason] == []


def test_what_is_missing_in_java_s_tables_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = {"kstream.KStream": ["filter", "noSuchStep"], "kstream.NoSuchClass": ["of"]}
    monkeypatch.setattr(streams_comparison, "stored", lambda: {"classes": classes})

    found = [entry.java for entry in streams_comparison.entries() if entry.here is None and not entry.reason]

    assert found == ["kstream.KStream.noSuchStep", "kstream.NoSuchClass"]


def test_the_tables_say_nothing_that_is_not_java_s() -> None:
    assert streams_comparison.unused() == set()


def test_every_class_is_found() -> None:
    assert all(streams_comparison.class_of(java) for java in streams_comparison.CLASSES)
    assert all(getattr(streams, name) for name in streams.__all__)


@pytest.mark.timeout(300)  # a fresh machine fetches Apache Kafka
def test_what_java_offers_is_what_its_jar_says() -> None:
    if apache_kafka.why_not() or shutil.which("javap") is None:
        pytest.skip("javap or Apache Kafka's jars are missing")
    assert java_streams.read() == java_streams.stored(), "python -m tools.java_streams --write"
