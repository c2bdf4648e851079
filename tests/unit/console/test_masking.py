"""What is masked of a record is in no form, no file and no answer to a filter; what cannot be found is masked whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.console.decoders import FORMS, Decoders
from barnabas.console.filters import parse_filter
from barnabas.console.masking import MASK, Masks, TopicMask, parse_rule
from barnabas.errors import ConfigError, TopicAuthorizationError

SECRET = "4711-0815"


def mask_of(*places: str) -> TopicMask:
    found = Masks([parse_rule(f"t:{place}") for place in places]).of("t")
    assert found is not None
    return found


def shown(mask: TopicMask, document: Any, form: str = "auto", side: str = "value") -> str:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    found = Decoders().shown(data, form, 10_000, lambda decoded: mask.decoded(side, decoded))
    return f"{found['text']} {found['problem']}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "document",
    [
        {"card": {"number": SECRET}},
        {"card": [{"number": SECRET}, {"number": SECRET}]},
        [{"card": {"number": SECRET}}],
        {"card": json.dumps({"number": SECRET})},
        SECRET,
        f'{{"card": {{"number": "{SECRET}"'.encode(),
        f'{{"card": {{"number": 1}}, "card": {{"number": "{SECRET}"}}}}'.encode(),
        f'{{"card": {{"number": "{SECRET}"}}, "card": {{"number": 1}}}}'.encode(),
        b"\x0a\x09" + SECRET.encode(),
        b"\x81\xa4card\x81\xa6number\xa9" + SECRET.encode(),
        b"\xff\xfe" + SECRET.encode(),
        SECRET.encode("utf-16"),
    ],
)
def test_a_masked_place_is_seen_in_no_form(document: Any, form: str) -> None:
    text = shown(mask_of("value.card.number"), document, form)
    for hidden in (SECRET, SECRET.encode().hex(), SECRET.encode("utf-16").hex(), "0\\u0000"):
        assert hidden not in text


def test_what_is_beside_a_masked_place_is_seen() -> None:
    found = json.loads(
        shown(mask_of("value.card.number"), {"card": {"number": SECRET, "kind": "v"}, "n": 5})[: -len(" None")]
    )
    assert found == {"card": {"number": MASK, "kind": "v"}, "n": 5}
    assert shown(mask_of("value"), {"n": 5}) == f"{MASK} None"
    assert shown(mask_of("key"), {"n": 5}) == '{"n": 5} None'
    assert shown(mask_of("key"), b"k", side="key") == f"{MASK} None"


def test_nothing_stays_nothing() -> None:
    assert (
        Decoders().shown(None, "auto", 10, lambda decoded: mask_of("value").decoded("value", decoded))["form"] == "null"
    )


@pytest.mark.parametrize(
    "text",
    ["value.n = 1", 'partition = 1 and not (offset = 2 or value contains "x")', "value = null", "value.a exists"],
)
def test_a_filter_cannot_ask_about_a_side_that_is_masked(text: str) -> None:
    with pytest.raises(TopicAuthorizationError, match="the value of this topic is masked"):
        mask_of("value.card").check(parse_filter(text, 0))


def test_a_filter_may_ask_about_the_rest() -> None:
    mask_of("value.card").check(parse_filter('key = "a" and header.b = "c" and partition = 1', 0))
    mask_of("header.b").check(None)
    with pytest.raises(TopicAuthorizationError, match="header"):
        mask_of("header.b").check(parse_filter('header.c = "x"', 0))


def test_rules_are_for_topics_by_name_or_by_how_they_begin() -> None:
    masks = Masks([parse_rule("orders*:key"), parse_rule("a:b:value")])
    assert [masks.of(topic) is not None for topic in ("orders", "orders-eu", "order", "a:b", "b")] == [
        True, True, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["orders", "orders:", ":key", "t:partition", "t:header", "t:value..a", "t:header."])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write TOPIC:PLACE"):
        parse_rule(text)
