"""Expressions that Python's `re` has too match the same names there."""

from __future__ import annotations

import re
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.regex.matching import compiled
from barnabas.broker.regex.parser import RegexSyntaxError

ATOMS = st.sampled_from(["a", "b", r"\.", "-", "[ab]", "[^a]", r"\w", r"\d", ".", "[a-c1-3_]", r"\D", r"[\d-]"])
REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,}", "*?", "+?"])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("({}){}".format, inner, REPEATS),
        st.builds("^{}".format, inner),
        st.builds("{}$".format, inner),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, st.lists(st.text("abc1.-_", max_size=8), max_size=8))
def test_they_match_the_same_names(expression: str, names: list[str]) -> None:
    pattern = re.compile(expression)
    automaton = compiled(expression)

    assert [automaton.matches(name) for name in names] == [pattern.fullmatch(name) is not None for name in names]


@given(st.text(st.sampled_from(r"ab(){}[]|*+?^$.\-:=<>!iPpQE0123,x"), max_size=12))
def test_anything_is_matched_or_refused_in_words(expression: str) -> None:
    # Any other exception than the one for clients fails the test.
    with suppress(RegexSyntaxError):
        compiled(expression).matches("a")
