"""Messages of Protobuf by descriptor files: in the console's forms, its filters and rules, and in `consume`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from barnabas.cli.record_format import ENCODINGS, encodings_of, format_string, formatter, saying_where
from barnabas.console import masking
from barnabas.console.decoders import FORMS, Decoders
from barnabas.console.filters import parse_filter, walk
from barnabas.console.masking import MASK, Masks
from barnabas.console.protobuf_values import MessageRule, Messages, parse_rule
from barnabas.errors import ConfigError, IllegalArgumentError, RecordDeserializationError
from barnabas.records.decoder import ConsumerRecord
from tests.support.descriptor_files import descriptor_file, descriptor_set, order

FORM = "protobuf:shop.Order"
FIELDS: dict[str, Any] = {
    "id": "9007199254740993", "user_name": "민수", "total": {"cents": "1250"}, "state": "PAID",
    "lines": [{"article": "pen", "count": 2}, {"article": "ink"}], "made": "2013-06-01T12:00:00Z",
    "stock": {"pen": 1.5}, "seal": "AP8=",
}  # fmt: skip
SHOWN = {
    "id": 9007199254740993, "user_name": "민수", "total": {"cents": 1250},
    "lines": [{"article": "pen", "count": 2}, {"article": "ink", "count": 0}], "state": "PAID",
    "made": "2013-06-01T12:00:00Z", "stock": {"pen": 1.5}, "seal": "AP8=",
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return descriptor_file(tmp_path)


@pytest.fixture
def decoders(file: Path) -> Decoders:
    return Decoders(None, Messages([file]), [MessageRule("orders*", "value", "shop.Order")])


def test_a_message_is_read_by_its_name_with_numbers_as_numbers(decoders: Decoders) -> None:
    shown = decoders.shown(order(**FIELDS), FORM, 10_000)

    assert (shown["form"], shown["problem"]) == ("protobuf", None)
    assert json.loads(shown["text"] or "") == SHOWN


def test_what_was_not_set_has_its_default_where_a_field_cannot_tell(decoders: Decoders) -> None:
    assert decoders.decode(b"", FORM).document == {"id": 0, "user_name": "", "state": "OPEN", "seal": b""}


def test_the_messages_of_a_file_are_forms(decoders: Decoders) -> None:
    assert decoders.forms == [*FORMS, "protobuf:shop.Money", FORM, "protobuf:shop.Order.Line"]
    with pytest.raises(IllegalArgumentError, match=r"no message 'shop\.Nothing'; they have shop\.Money, shop\.Order"):
        decoders.decode(b"", "protobuf:shop.Nothing")
    with pytest.raises(IllegalArgumentError, match="needs the file of its descriptors: --protobuf"):
        Decoders().decode(b"", FORM)


def test_a_rule_says_what_auto_means_and_nothing_else(decoders: Decoders) -> None:
    assert decoders.form_of("orders-2013", "value", "auto") == FORM
    assert decoders.form_of("orders-2013", "value", "hex") == "hex"
    assert decoders.form_of("orders-2013", "key", "auto") == "auto"
    assert decoders.form_of("others", "value", "auto") == "auto"
    assert parse_rule("a:b*:key=x.Y") == MessageRule("a:b*", "key", "x.Y")
    for wrong in ("", "orders", "orders:value", "orders:value=", ":value=T", "orders:header=T"):
        with pytest.raises(ConfigError, match="TOPIC:SIDE=TYPE"):
            parse_rule(wrong)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x08", "these 1 bytes are no shop.Order"),
        (b"\xff\xff", "these 2 bytes are no shop.Order"),
        (b"\x0a\x02UA", "have none of the fields of shop.Order"),
        (b"\x12\x02\xff\xfe", "these 4 bytes are no shop.Order"),
    ],
)
def test_wrong_bytes_are_shown_as_digits_with_the_reason(decoders: Decoders, data: bytes, says: str) -> None:
    shown = decoders.shown(data, FORM, 100)

    assert (shown["form"], shown["text"]) == ("hex", data.hex())
    assert says in (shown["problem"] or "")


@pytest.mark.parametrize("indexes", [b"\0", b"\x02\x02", b"\x04\x02\0"])
def test_the_id_and_place_that_a_registrys_serializer_writes_are_passed_over(
    decoders: Decoders, indexes: bytes
) -> None:
    data = b"\0\0\0\0\x09" + indexes + order(id="7")
    assert decoders.decode(data, FORM).document["id"] == 7


def test_filters_and_masks_see_the_fields(decoders: Decoders) -> None:
    found = decoders.decode(order(**FIELDS), FORM)
    assert [*walk(found.document, ("lines", 0, "count"))] == [2]

    class Row:
        key = value = None

        def column(self, name: str) -> int:
            return 0

        def document(self, side: str) -> Any:
            return found.document

        def header_values(self, name: str) -> list[bytes | None]:
            return []

    for text, matches in {
        "value.id = 9007199254740993": True, "value.total.cents > 1249": True, "value.total.cents > 1250": False,
        'value.state = "PAID"': True, 'value.user_name startswith "민"': True, "value.lines[1].count = 0": True,
    }.items():  # fmt: skip
        assert parse_filter(text, 0).matches(Row()) is matches, text
    mask = Masks([masking.parse_rule("orders:value.total.cents")]).of("orders")
    assert mask is not None
    assert mask.decoded("value", found).document["total"] == {"cents": MASK}


def test_a_file_that_is_none_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    def refused(path: Path, says: str) -> None:
        with pytest.raises(ConfigError, match=says):
            Messages([path])

    (tmp_path / "shop.proto").write_text('syntax = "proto3";')
    (tmp_path / "wrong.desc").write_bytes(b"\xff\xff")
    (tmp_path / "empty.desc").write_bytes(b"")
    refused(
        tmp_path / "shop.proto", "is a source; make a descriptor file of it: protoc --include_imports .* shop.proto"
    )
    refused(tmp_path / "wrong.desc", "is no descriptor file; make one: protoc")
    refused(tmp_path / "empty.desc", "has no messages")
    refused(tmp_path / "nowhere.desc", "cannot be read: No such file")
    refused(descriptor_file(tmp_path, with_imports=False), r"lacks money\.proto; make it with --include_imports")


def test_files_may_share_what_they_import_but_not_disagree_about_it(tmp_path: Path, file: Path) -> None:
    same = tmp_path / "same.desc"
    same.write_bytes(file.read_bytes())
    assert "shop.Order" in Messages([file, same]).names
    same.write_bytes(descriptor_set().replace(b"user_name", b"user_nick"))
    with pytest.raises(ConfigError, match=r"another shop\.proto than"):
        Messages([file, same])


def record(value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord("orders", 3, 12, 0, 0, None, value, [])


def test_consume_writes_messages_as_json(file: Path) -> None:
    encodings = encodings_of(["utf8", FORM], [file])
    line = json.loads(formatter("json", "utf8", FORM, encodings)(record(order(**FIELDS))))
    assert (line["value"], line["valueEncoding"]) == (SHOWN, FORM)
    raw = formatter("raw", "utf8", FORM, encodings)(record(order(id="5")))
    assert json.loads(raw)["id"] == 5
    assert json.loads(format_string("%s", "utf8", FORM, encodings)(record(order(id="6"))))["id"] == 6
    assert json.loads(formatter("json", "utf8", FORM, encodings)(record(None)))["value"] is None
    assert "shop.Order" not in formatter("human", "utf8", FORM, encodings)(record(order(id="7"))).decode()


def test_consume_says_of_which_record_the_bytes_are_wrong_and_which_types_there_are(file: Path) -> None:
    write = saying_where(formatter("human", "utf8", FORM, encodings_of([FORM], [file])))
    with pytest.raises(RecordDeserializationError, match=r"^orders-3@12: these 1 bytes are no shop\.Order"):
        write(record(b"\x08"))
    with pytest.raises(IllegalArgumentError, match=r"no message 'shop\.Odre'; they have shop\.Money"):
        encodings_of(["protobuf:shop.Odre"], [file])
    assert encodings_of(["utf8", "hex"], []) is ENCODINGS
