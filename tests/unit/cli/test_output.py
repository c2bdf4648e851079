"""Tables, sizes, notes and reports."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.lines import Lines
from barnabas.cli.output import error_line, print_rows, print_table, size_text, table_lines
from barnabas.cli.produce_report import REPORTED_AT_ONCE, Report, ranges_text
from barnabas.errors import KafkaError, UnknownTopicOrPartitionError

ROWS = [
    {"topic": "flights", "endOffset": 12, "internal": False, "replicas": [1, 2]},
    {"topic": "w", "endOffset": None, "internal": True, "replicas": []},
]


def test_a_table_is_aligned_with_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(ROWS, ("topic", "endOffset", "internal", "replicas"))

    assert capsys.readouterr().out.splitlines() == [
        "TOPIC    END-OFFSET  INTERNAL  REPLICAS",
        "flights          12  no        1,2",
        "w                 -  yes       -",
    ]


def test_no_rows_are_no_table_but_an_empty_json_list(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows("human", [], ("topic",))
    print_rows("json", [], ("topic",))

    assert capsys.readouterr().out == "[]\n"


def test_json_has_also_what_the_table_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows("json", ROWS, ("topic",))

    assert json.loads(capsys.readouterr().out) == ROWS


@given(st.lists(st.tuples(st.text(), st.integers()), min_size=1))
def test_columns_begin_below_their_headings(cells: list[tuple[str, int]]) -> None:
    shown = [(text.replace("\n", ""), str(number)) for text, number in cells]

    lines = table_lines(["A", "B"], shown, [False, True])

    widths = {len(line) for line in lines}
    assert len(lines) == len(cells) + 1
    assert len(widths) == 1


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB"), (1 << 60, "1048576.0 TiB")],
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert size_text(size) == text


def test_an_error_is_one_line_with_what_to_do() -> None:
    assert error_line(UnknownTopicOrPartitionError("x: no\nsuch topic.")) == (
        "x: no such topic; `barnabas topic list` shows what there is"
    )
    assert error_line(FileNotFoundError(2, "No such file or directory", "data")) == "data: No such file or directory"


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([7], "7"), ([3, 1, 2, 9, 5, 6], "1-3, 5-6, 9"), ([1, 3, 5], "1, 3, 5")]
)
def test_failed_lines_are_given_as_ranges(numbers: list[int], text: str) -> None:
    assert ranges_text(numbers) == text


def test_every_failed_line_is_named_the_first_ones_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(quiet=False)
    for number in range(1, 31):
        report.read(number)
        report.callback(number)(None, KafkaError("too large") if number % 2 else None)
    at_once = capsys.readouterr().err

    assert report.finish("flights", "json") == 1

    captured = capsys.readouterr()
    assert at_once.count("\n") == REPORTED_AT_ONCE
    assert at_once.startswith("barnabas produce: line 1: too large\n")
    named = ", ".join(str(number) for number in range(1, 31, 2))
    assert captured.err == f"barnabas produce: lines {named} failed: too large\n"
    assert json.loads(captured.out) == {
        "topic": "flights",
        "delivered": 15,
        "failed": 15,
        "failures": [{"error": "too large", "lines": named}],
    }


# Input.


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    try:
        os.close(writer)
    except OSError:
        # The test has closed it.
        pass


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_input_is_cut_at_its_line_ends_only(pieces: list[bytes]) -> None:
    text = b"\n".join(pieces)
    reader, writer = os.pipe()
    os.write(writer, text)
    os.close(writer)
    lines = Lines(reader)

    found = list(lines)

    lines.close()
    os.close(reader)
    # An end of line ends a line; it does not begin another.
    expected = text.split(b"\n")
    assert found == (expected[:-1] if expected[-1] == b"" else expected)
    assert lines.count == len(found)


def test_a_line_longer_than_what_is_read_at_once_stays_whole(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    long = b"x" * 300_000

    def write() -> None:
        for start in range(0, len(long), 1000):
            os.write(writer, long[start : start + 1000])
        os.write(writer, b"\nshort")
        os.close(writer)

    thread = threading.Thread(target=write)
    thread.start()
    lines = Lines(reader)

    assert list(lines) == [long, b"short"]
    thread.join()
    lines.close()


def test_stopping_hands_out_no_further_line_and_ends_the_wait(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.write(writer, b"one\ntwo\nthree\n")
    lines = Lines(reader)
    found = []

    for line in lines:
        found.append(line)
        if len(found) == 2:
            lines.stop()

    assert found == [b"one", b"two"]
    assert lines.count == 2
    assert list(lines) == []
    lines.close()
