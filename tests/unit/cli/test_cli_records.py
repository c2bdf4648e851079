"""How records are written by `consume` and read by `produce`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.produce_input import GivenFields, Line, Parse, json_parser, line_parser
from barnabas.cli.record_format import format_string, formatter
from barnabas.errors import IllegalArgumentError, SerializationError
from barnabas.records import ConsumerRecord

JUNE = 1_370_088_000_000


def record(key: bytes | None = b"EWR", value: bytes | None = b"departed", **fields: object) -> ConsumerRecord:
    given = {"timestamp": JUNE, "timestamp_type": 0, "key": key, "value": value, **fields}
    return ConsumerRecord("flights", 1, 42, **given)  # type: ignore[arg-type]  # the fields' own types


def lines(
    delimiter: bytes | None = None, key_as: str = "utf8", value_as: str = "utf8", *, tombstone: bool = False
) -> Parse:
    return line_parser(delimiter, key_as, value_as, GivenFields(None, None, [], tombstone))


def json_lines(*, partition: int | None = None, timestamp: int | None = None) -> Parse:
    return json_parser("utf8", "utf8", GivenFields(partition, timestamp, [], False))


# Writing.


def test_a_line_for_people_says_where_when_and_what() -> None:
    shown = formatter("human")(record(headers=[("gate", b"C71"), ("none", None)]))

    assert shown == b"flights-1@42  2013-06-01T12:00:00.000Z  EWR  departed  [gate=C71, none=null]\n"


def test_null_and_empty_differ_and_nothing_can_drive_the_terminal() -> None:
    write = formatter("human")

    assert write(record(None, None)).split(b"  ")[2:] == [b"-", b"null\n"]
    assert write(record(b"", b"")).split(b"  ")[2:] == [b"", b"\n"]
    assert write(record(b"\x1b[2J", b"\xff\n")).split(b"  ")[2:] == [rb"\x1b[2J", b"\\xff\\n\n"]


def test_raw_output_is_the_values_bytes() -> None:
    assert formatter("raw")(record(value=b"\xff\x00")) == b"\xff\x00\n"
    assert formatter("raw", value_as="hex")(record(value=b"\xff\x00")) == b"ff00\n"
    assert formatter("raw")(record(value=None)) == b"\n"


def test_a_hex_dump_shows_sizes_and_bytes() -> None:
    shown = formatter("hex")(record(None, b"\x00departed from EWR", headers=[("gate", b"C")])).decode()

    assert shown.splitlines() == [
        "flights-1@42  2013-06-01T12:00:00.000Z",
        "  key: null",
        "  value: 18 bytes",
        "    00000000  00 64 65 70 61 72 74 65 64 20 66 72 6f 6d 20 45  |.departed from E|",
        "    00000010  57 52                                            |WR|",
        "  header gate: 1 bytes",
        "    00000000  43                                               |C|",
    ]


def test_json_has_all_fields_and_what_is_no_text_goes_as_base64() -> None:
    shown = json.loads(formatter("json")(record(b"\xff", "Zürich".encode(), headers=[("h", b"\xfe"), ("h", None)])))

    assert shown == {
        "topic": "flights",
        "partition": 1,
        "offset": 42,
        "timestamp": JUNE,
        "timestampType": "CreateTime",
        "key": "/w==",
        "keyEncoding": "base64",
        "value": "Zürich",
        "headers": [{"key": "h", "value": "/g==", "valueEncoding": "base64"}, {"key": "h", "value": None}],
    }


def test_a_format_string_has_kcats_tokens() -> None:
    write = format_string(r"%t[%p]@%o %T %k(%K)=%s(%S) %h %%\x41\n")

    assert write(record(headers=[("a", b"1"), ("b", None)])) == (
        b"flights[1]@42 1370088000000 EWR(3)=departed(8) a=1,b=NULL %A\n"
    )
    assert write(record(None, None)) == b"flights[1]@42 1370088000000 (-1)=(-1)  %A\n"
    assert format_string("%R%s", value_as="hex")(record()) == b"\0\0\0\x08" + b"departed".hex().encode()


@pytest.mark.parametrize("text", ["%q", "%", "100%"])
def test_an_unknown_token_is_refused(text: str) -> None:
    with pytest.raises(IllegalArgumentError, match="there is no %"):
        format_string(text)


# Reading.


def test_a_line_is_a_value_or_a_key_and_a_value() -> None:
    assert lines()(b"a:b") == Line(None, b"a:b", None, None, [])
    assert lines(b":")(b"a:b:c") == Line(b"a", b"b:c", None, None, [])
    assert lines(b":")(b":") == Line(b"", b"", None, None, [])
    assert lines(b":", "hex", "base64")(b"ff:/w==") == Line(b"\xff", b"\xff", None, None, [])


def test_an_empty_value_is_a_tombstone_only_when_asked_for() -> None:
    assert lines(b":")(b"a:").value == b""
    assert lines(b":", tombstone=True)(b"a:").value is None


@pytest.mark.parametrize(
    ("parse", "line", "complaint"),
    [
        (lines(b"\t"), b"no tab", r"it has no key: the delimiter '\\t' is not in it"),
        (lines(value_as="hex"), b"xyz", "its value is not hex"),
        (lines(value_as="base64"), b"a", "its value is not base64"),
        (json_lines(), b"{", "it is not JSON"),
        (json_lines(), b"\xff", "it is not JSON"),
        (json_lines(), b"[" * 100_000, "it is not JSON"),
        (json_lines(), b"[1]", "it is a JSON list, not an object"),
        (json_lines(), b'{"vlaue": 1}', "unknown field 'vlaue'"),
        (json_lines(), b'{"key": "a"}', 'no field "value"'),
        (json_lines(), b'{"value": "\\ud800"}', "its value is no valid text"),
        (json_lines(), b'{"value": 1, "partition": "0"}', "its partition is '0', not a whole number"),
        (json_lines(), b'{"value": 1, "timestamp": "soon"}', "its timestamp 'soon'"),
        (json_lines(), b'{"value": 1, "headers": ["a"]}', "its headers must be"),
        (json_lines(), b'{"value": "a", "valueEncoding": "rot13"}', "valueEncoding 'rot13' is not one of"),
    ],
)
def test_a_line_that_cannot_be_read_says_why(parse: Parse, line: bytes, complaint: str) -> None:
    with pytest.raises(SerializationError, match=complaint):
        parse(line)


def test_a_json_value_that_is_no_text_is_sent_as_json() -> None:
    line = json_lines()(b'{"key": 7, "value": {"to": "Z\xc3\xbcrich"}, "headers": {"a": "b", "n": null}}')

    assert line == Line(b"7", '{"to":"Zürich"}'.encode(), None, None, [("a", b"b"), ("n", None)])


def test_what_the_command_line_says_holds_for_every_json_line() -> None:
    line = json_lines(partition=2, timestamp=5)(b'{"value": "", "partition": 1, "timestamp": "2013-06-01"}')

    assert (line.partition, line.timestamp) == (2, 5)


data = st.none() | st.binary(max_size=20) | st.text(max_size=5).map(str.encode)


@given(
    key=data,
    value=data,
    headers=st.lists(st.tuples(st.text(max_size=5), data), max_size=3),
    timestamp=st.integers(min_value=-1, max_value=2**62),
    encoding=st.sampled_from(["utf8", "hex", "base64"]),
)
def test_what_consume_writes_as_json_produce_reads_back_unchanged(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    timestamp: int,
    encoding: str,
) -> None:
    written = formatter("json", encoding, encoding)(record(key, value, headers=headers, timestamp=timestamp))

    assert written.endswith(b"\n")
    assert b"\n" not in written[:-1]
    read = json_lines()(written[:-1])
    assert read == Line(key, value, 1, None if timestamp == -1 else timestamp, headers)
