"""Subscriptions by regular expression (KIP-848): what they match, what is refused, and when they are matched anew."""

from __future__ import annotations

import time

import pytest

from barnabas import errors
from barnabas.broker.regex.matching import check, compiled
from barnabas.broker.regex.parser import RegexSyntaxError
from tests.unit.broker.groups.consumer.consumer_group_harness import Consumer, ConsumerHarness


@pytest.mark.parametrize(
    ("expression", "matching", "other"),
    [
        ("orders", ["orders"], ["orders2", "my-orders", ""]),
        ("^orders.*$", ["orders", "orders-eu"], ["my-orders"]),
        ("(orders|payments)-v[0-9]+", ["orders-v1", "payments-v23"], ["orders-v", "orders|payments-v1"]),
        ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
        ("a{2,}b?", ["aa", "aaaab"], ["ab"]),
        ("(?i)ABC", ["abc", "aBc"], ["abcd"]),
        ("(?i:A)b", ["ab", "Ab"], ["aB"]),
        ("a(?i)b|c", ["aB", "C"], ["Ab"]),
        ("(?P<name>a)(?<other>b)", ["ab"], ["a"]),
        ("[[:alpha:]]+[^[:alpha:]]", ["ab1"], ["ab", "1"]),
        ("[^a-c]", ["d", "-"], ["a", "b"]),
        (r"[\w-]+\.\d\D", ["a_b-c.1x"], ["a.11", "a.1"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
        (r"\x61\x{62}\.", ["ab."], ["abc"]),
        (r"\Aa*?\z", ["", "aaa"], ["b"]),
        ("(a+)+b", ["aab"], ["aaa"]),
        ("(((){1000}){1000}){1000}a", ["a"], [""]),
        (".*", ["anything", ""], []),
        ("a$b", [], ["ab"]),
    ],
)
def test_expressions_match_whole_names(expression: str, matching: list[str], other: list[str]) -> None:
    automaton = compiled(expression)

    assert [name for name in matching + other if automaton.matches(name)] == matching


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(", r"missing \) at position 1"),
        (")", r"unexpected \)"),
        ("[a", "ends too early"),
        ("\\", "ends too early"),
        ("*a", r"nothing to repeat before \*"),
        ("a**", "needs a group"),
        ("a++", "needs a group"),
        ("a{1001}", "up to 1000"),
        ("a{3,2}", "up to 1000"),
        ("((a{1000}){1000})", "too large"),
        ("(" * 200 + ")" * 200, "nested too deep"),
        ("a" * 10_001, "10001 characters"),
        ("[z-a]", "z-a is no range"),
        ("[[:no:]]", "no such class"),
        ("(?=a)", r"\(\?= is not supported"),
        ("(?<=a)", "looking back"),
        ("(?P=n)", "not supported"),
        (r"\1", "not supported"),
        (r"\b", "not supported"),
        (r"\p{L}", "not supported"),
        (r"\xzz", "hexadecimal"),
    ],
)
def test_what_cannot_be_matched_is_refused_in_words(expression: str, reason: str) -> None:
    with pytest.raises(RegexSyntaxError, match=reason):
        check(expression)


def test_no_expression_backtracks_without_end() -> None:
    began = time.perf_counter()

    assert not compiled("(a|aa|a*)*b").matches("a" * 249)

    assert time.perf_counter() - began < 1.0


def test_a_member_reads_what_matches() -> None:
    harness = ConsumerHarness()
    harness.topic("orders-eu", 2)
    harness.topic("orders-us", 1)
    a = Consumer(harness, "a", regex="orders-.*")

    a.join()

    assert a.owned == {"orders-eu": {0, 1}, "orders-us": {0}}
    (described,) = harness.described().members
    assert (described.subscribed_topic_regex, described.subscribed_topic_names) == ("orders-.*", [])


def test_names_and_expressions_add_up() -> None:
    harness = ConsumerHarness()
    harness.topic("orders", 1)
    a = Consumer(harness, "a", ["t"], regex="orders")

    a.join()

    assert sorted(a.owned) == ["orders", "t"]


def test_topics_that_come_and_go_are_noticed() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a", regex="orders-.*")
    a.join()
    assert a.owned == {}

    harness.advance(1.0)
    harness.topic("orders-eu", 2)
    harness.settle(a)
    assert a.owned == {"orders-eu": {0, 1}}

    harness.advance(1.0)
    harness.delete_topic("orders-eu")
    harness.settle(a)
    assert a.owned == {}


def test_another_expression_takes_effect_at_once_and_the_old_one_is_forgotten() -> None:
    harness = ConsumerHarness()
    harness.topic("u", 1)
    a = Consumer(harness, "a", regex="t")
    a.join()

    a.heartbeat(subscribed_topic_regex="u")
    harness.settle(a)
    assert a.owned == {"u": {0}}
    assert list(harness.group().regexes) == ["u"]

    a.heartbeat(subscribed_topic_regex="", subscribed_topic_names=["t"])
    harness.settle(a)
    assert sorted(a.owned) == ["t"]
    assert harness.group().regexes == {}


def test_an_expression_lives_as_long_as_a_member_uses_it() -> None:
    harness = ConsumerHarness()
    a, b = Consumer(harness, "a", regex="t"), Consumer(harness, "b", regex="t")
    a.join()
    b.join()
    harness.settle(a, b)
    assert len(a.owned["t"]) == len(b.owned["t"]) == 2

    a.leave()
    assert list(harness.group().regexes) == ["t"]
    b.leave()
    assert harness.group().regexes == {}


def test_a_bad_expression_does_not_change_the_member() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()

    assert a.error(subscribed_topic_regex="(") is errors.InvalidRegularExpressionError
    assert a.error() is None
    assert harness.group().members["a"].subscribed_topic_regex == ""


def test_expressions_are_kept_over_a_restart() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a", regex="t")
    a.join()

    harness.restart()

    assert harness.group().regexes["t"].topics == {"t"}
    a.heartbeat()
    assert (a.epoch, a.owned) == (2, {"t": {0, 1, 2, 3}})
