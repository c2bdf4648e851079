"""The language of filters: what it says, how it refuses, and that its masks never leave out a row that matches."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.console import filters
from barnabas.console.decoders import Decoders
from barnabas.console.filters import parse_filter
from barnabas.console.scan import ScannedRow, ScanRequest
from barnabas.errors import IllegalArgumentError

pa = pytest.importorskip("pyarrow")

NOW = 1_400_000_000_000
REQUEST = ScanRequest("t", {}, None, None)


def row(value: Any = None, key: bytes | None = b"k-1", headers: Any = (), **columns: int) -> ScannedRow:
    data = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    given = {"partition": 3, "offset": 42, "timestamp": NOW, "timestampType": 0, **columns}
    found = [{"key": name, "value": content} for name, content in headers]
    return ScannedRow({"key": key, "value": data, "headers": found, **given}, REQUEST, Decoders())


ORDER = row(
    {
        "order": {"total": 120.5, "paid": True, "note": None, "items": [{"id": 1}, {"id": 5}]},
        "tags": ["a", "b"],
        "n": 1,
    },
    headers=[("source", b"web"), ("source", b"app"), ("trace-id", None)],
)


@pytest.mark.parametrize(
    "text",
    [
        "value.order.total > 100",
        "value.order.total >= 120.5 and value.order.total <= 120.5",
        "value.order.paid = true",
        "value.order.note = null",
        "value.order.note exists",
        "not value.order.missing exists",
        "not value.order.missing = null",
        "value.order.items[*].id = 5",
        "value.order.items[1].id = 5",
        "value.order.items[-1].id = 5",
        'value["order"]["total"] > 1e2',
        'value.tags contains "b"',
        'value.tags[0] = "a"',
        "value.n = 1",
        "value.n = 1.0",
        "not value.n = true",
        'value contains "order"',
        'key = "k-1"',
        "key startswith 'k-' and key endswith \"1\"",
        'header.source = "app"',
        "header.trace-id = null",
        "not header.nothing exists",
        "partition = 3 and offset < 43 and size > 50",
        'timestamp >= "2014-05-13" and timestamp < "2014-05-14"',
        'timestamp > "-5m"',
        "value.n = 2 or value.n = 1",
        "(value.n = 2 or value.n = 1) and partition != 4",
        "value.n != 2",
        "value.missing != 2",
        "not not value.n = 1",
    ],
)
def test_a_filter_that_fits(text: str) -> None:
    assert parse_filter(text, NOW).matches(ORDER)
    assert not parse_filter(f"not ({text})", NOW).matches(ORDER)


@pytest.mark.parametrize(
    "text",
    [
        'value.order.total > "100"',
        "value.order.total = 120",
        "value.order.paid = 1",
        "value.order.items[2].id exists",
        "value.order.total.deeper exists",
        "value.n < 1 or value.n > 1 and value.n = 1",
        'value.n contains "1"',
        "key > 5",
    ],
)
def test_a_filter_that_does_not_fit_and_is_no_error(text: str) -> None:
    assert not parse_filter(text, NOW).matches(ORDER)


@pytest.mark.parametrize("value", [None, b"", b"\xff\xfe", b"plain", b"[" * 5000, b"5", b'{"a":'])
def test_a_value_that_is_no_document_has_no_paths(value: bytes | None) -> None:
    assert not parse_filter("value.a exists", NOW).matches(row(value))
    assert parse_filter("value = null", NOW).matches(row(value)) == (value is None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("value", "expected = !="),
        ("value =", "the end: expected a number"),
        ("valeu = 1", "character 1, 'valeu': expected key, value, header"),
        ("value.a = 1 value.b = 2", "expected and, or"),
        ("(value.a = 1", "expected )"),
        ("value.a = b", "'b': expected a number, a quoted text"),
        ("value.a ~ 1", "goes wrong at '~ 1'"),
        ("header = 1", "the name of a header"),
        ("partition.x = 1", "partition has no parts"),
        ("value[x] = 1", "an index"),
        ("value[1.5] = 1", "an index"),
        ('timestamp > "nonsense"', "is no time"),
        ('value = "unclosed', "goes wrong at"),
        ("__import__('os')", "expected key"),
        ("value.a = 1; drop", "goes wrong at"),
        ("(" * 30 + "value.a = 1" + ")" * 30, "at most 20 deep"),
        ("not " * 30 + "value.a = 1", "at most 20 deep"),
        ("value.a = 1 or " * 200 + "value.a = 1", "at most 2000 characters"),
    ],
)
def test_a_filter_that_is_none_says_where_and_what_to_write(text: str, says: str) -> None:
    with pytest.raises(IllegalArgumentError) as caught:
        parse_filter(text, NOW)

    assert says in str(caught.value)


@given(st.text(max_size=200))
def test_any_text_is_a_filter_or_refused_in_no_time(text: str) -> None:
    began = time.process_time()
    try:
        parse_filter(text, NOW).matches(ORDER)
    except IllegalArgumentError:
        pass
    assert time.process_time() - began < 1


@pytest.mark.parametrize("text", ['"' * 1999, "value." * 330 + "a = 1", "[" * 1999, "\\" * 1999, '"\\' * 900])
def test_no_text_of_the_allowed_length_takes_long(text: str) -> None:
    began = time.process_time()
    try:
        parse_filter(text, NOW).matches(ORDER)
    except IllegalArgumentError:
        pass
    assert time.process_time() - began < 0.5


NAMES = st.sampled_from(["a", "b", "note", "ünï", "a b", 'q"'])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-20, 20),
    st.sampled_from([1e3, 1000, 0.5, 1e300, -0.0]),
    st.sampled_from(["", "x", "xyz", "xyz-1", "ü", 'q"', "a\\b"]),
)
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
TESTS = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "contains", "startswith", "endswith"])


@st.composite
def conditions(draw: Any, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["compare", "compare", "and", "or", "not"] if depth else ["compare"]))
    if kind in ("and", "or"):
        return f"({draw(conditions(depth - 1))} {kind} {draw(conditions(depth - 1))})"
    if kind == "not":
        return f"not ({draw(conditions(depth - 1))})"
    root = draw(st.sampled_from(["key", "value", "offset", "partition"]))
    steps = ""
    if root in ("key", "value"):
        for step in draw(st.lists(NAMES | st.sampled_from([0, "[*]"]), max_size=3)):
            steps += "[*]" if step == "[*]" else f"[{step}]" if isinstance(step, int) else f"[{json.dumps(step)}]"
    wanted = json.dumps(draw(SCALARS), ensure_ascii=False)
    return f"{root}{steps} {draw(TESTS)} {wanted}"


@st.composite
def encodings(draw: Any) -> bytes | None:
    document = draw(DOCUMENTS)
    if draw(st.integers(0, 9)) == 0:
        return None
    text = json.dumps(document, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    if draw(st.booleans()):
        # As legal as any other way to write it.
        text = text.replace("x", "\\u0078").replace("1000", "1E3")
    return text.encode("utf-8")


@given(
    conditions(),
    st.lists(st.tuples(encodings(), encodings()), min_size=1, max_size=6),
    st.sampled_from(["auto", "json"]),
)
def test_a_mask_leaves_out_no_row_that_matches(text: str, records: list[Any], form: str) -> None:
    condition = parse_filter(text, NOW)
    batch = pa.record_batch(
        {
            "key": pa.array([key for key, _ in records], pa.binary()),
            "value": pa.array([value for _, value in records], pa.binary()),
            "partition": pa.array([0] * len(records), pa.int32()),
            "offset": pa.array(range(len(records)), pa.int64()),
        }
    )
    decoders = Decoders()
    request = REQUEST._replace(key_form=form, value_form=form)
    exact = [condition.matches(ScannedRow(columns, request, decoders)) for columns in batch.to_pylist()]

    mask = condition.mask(batch, is_plain=True)

    if mask.rows is not None:
        masked = mask.rows.to_pylist()
        assert all(may for may, does in zip(masked, exact, strict=True) if does)
        if mask.is_exact:
            assert masked == exact


#: Few numbers, so that they meet, each written in many ways; and those that are Python's alone.
WRITTEN = st.one_of(
    st.sampled_from(["0.1", "0.10", "1e-1", "0.1000000000000000055511151231257827", "0.2", "-0.1", "0", "-0"]),
    st.sampled_from(["100", "1e2", "1E+2", "100.0", "99.99999999999999999999", "9007199254740993", "9007199254740992"]),
    st.sampled_from(["NaN", "Infinity", "-Infinity", "true", "null", '"5"', '"n"', "[5]", "1" * 400]),
    st.floats().map(json.dumps),
)


#: Where the fields stand, and a path that leads there.
PLACES = st.sampled_from([
    ("{%s}", '["n/o"]'), ('{"deep": {%s}}', '.deep["n/o"]'), ("[{%s}, 7]", '[0]["n/o"]'), ("[7, {%s}]", '[*]["n/o"]'),
    ('{"list": [3, {%s}]}', '.list[*]["n/o"]'), ('{"n/o": [%s]}', '["n/o"][*]'), ("[[%s], 3]", "[0][*]"),
    ("[%s]", "[0]"),
])  # fmt: skip


@given(
    st.lists(
        st.tuples(st.sampled_from(["n/o", "n/o", "n\\/o", "n\\u002fo", "other"]), WRITTEN), min_size=1, max_size=3
    ),
    PLACES,
    st.sampled_from(["=", "<", "<=", ">", ">="]),
    st.one_of(st.none(), WRITTEN),
    st.sampled_from([":", ": ", " :\n\t"]),
)
@settings(max_examples=1000)
def test_no_way_to_write_a_number_hides_a_row(
    fields: list[tuple[str, str]], place: tuple[str, str], test: str, wanted: str | None, colon: str
) -> None:
    shape, path = place
    inside = [f'"{name}"{colon}{number}' if "{%" in shape else number for name, number in fields]
    value = (shape % ", ".join(inside)).encode()
    try:
        condition = parse_filter(f"value{path} {test} {wanted or fields[-1][1]}", NOW)
    except IllegalArgumentError:
        return
    batch = pa.record_batch({"value": pa.array([None, value, b""], pa.binary())}).slice(1, 1)

    mask = condition.mask(batch, is_plain=True)

    if condition.matches(row(value)):
        assert mask.rows is None or mask.rows.to_pylist() == [True]


@pytest.mark.parametrize(
    ("condition", "value", "is_named"),
    [
        ("value.n > 5", '{"n": 6}', True),
        ("value.n > 5", '{"n": 5}', False),
        ("value.n >= 5", '{"n" : 5.0}', True),
        ("value.n < -1", '{"n":-1.5}', True),
        ("value.n < -1", '{"n":-0.5, "m": -9}', False),
        ("value.n = 0.1", '{"n":0.1}', True),
        ("value.n = 0.1", '{"n":0.2}', False),
        ("value.n > 5", '{"n": "6"}', False),
        ("value.n > 5", '{"n": [6]}', False),
        ("value.n > 5", '{"text": "a\\nb", "n": 1}', False),
        ("value.n > 5", '{"text": "n", "m": 9}', False),
        ("value.list[*] > 5", '{"list": [1, 6]}', True),
        ("value.list[*] > 5", '{"list": [1, 5], "day": "2013-06-07"}', False),
        ("value.n > 1700000000000000000", '{"n": 1700000000000000000000}', True),
        ("value.n > 1700000000000000000", '{"n": 1600000000000000000}', False),
        ("value.n > 5", '{"n": 1.23456789012345678}', False),
        ("value.n = 0.1", '{"n": 0.1000000000000000055511151231257827}', True),
        ("value.n = 100", '{"n": 1e2}', True),
        ("value.n > 5", '{"n": Infinity}', True),
        ("value.list[*] = 5", '{"list":[1,5]}', True),
        ("value.list[*] = 5", '{"list":5}', True),
        ('value["n/o"] = 5', '{"n\\/o": 5}', True),
        ("value.n = 5", '{"\\u006e": 5}', True),
        ("value.n = 5", '{"\\/": 5}', False),
        ("value.n = 5", "\x81\xa1n\x05", True),
        ("value.n = 0.30000000000000004", '{"n": 0.3000000000000000444089209850062616169452667236328125}', True),
        ("value.n < 9007199254740993", '{"n": 9007199254740992}', True),
    ],
)
def test_a_number_is_looked_for_where_its_name_stands(condition: str, value: str, is_named: bool) -> None:
    batch = pa.record_batch({"value": pa.array([value.encode("latin-1")], pa.binary())})

    assert parse_filter(condition, NOW).mask(batch, is_plain=True).rows.to_pylist() == [is_named]


def test_an_integer_that_no_double_is_near_to_leaves_all_rows() -> None:
    batch = pa.record_batch({"value": pa.array([b'{"n": 5}'], pa.binary())})

    assert parse_filter(f"value.n < {10**400}", NOW).mask(batch, is_plain=True) == filters.ANY_ROW


def test_a_mask_spares_the_rows_that_cannot_match() -> None:
    values = [json.dumps({"user": f"user-{number}", "id": number}).encode() for number in range(1000)]
    batch = pa.record_batch({"value": pa.array(values, pa.binary())})

    by_text = parse_filter('value.user = "user-77"', NOW).mask(batch, is_plain=True)
    by_number = parse_filter("value.id = 77", NOW).mask(batch, is_plain=True)

    # Also user-770 to user-779.
    assert sum(by_text.rows.to_pylist()) == 11
    assert sum(by_number.rows.to_pylist()) == 1
    assert sum(parse_filter("value.id > 990", NOW).mask(batch, is_plain=True).rows.to_pylist()) == 9
    assert parse_filter("value.id = 77", NOW).mask(batch, is_plain=False) == filters.ANY_ROW
