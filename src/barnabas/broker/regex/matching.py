"""Regular expressions of clients (KIP-714, 848, 1152): RE2's syntax, matched against whole texts in linear time.

Python's `re` would let one client stop the broker with an expression that backtracks without end. This is the textbook
way instead: a parser, an automaton without backtracking (Thompson), and its deterministic form made as names need it.
Names of topics have 65 different characters, so a class of characters is a set of them.

Not known: `\\b`, `\\B`, `\\C` and `\\p{...}`; they are refused. Names of groups, laziness and the flags `s`, `m` and
`U` are understood and make no difference when a whole name of one line has to match.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from barnabas import errors
from barnabas.broker.regex.automaton import Automaton, compile_automaton
from barnabas.broker.regex.parser import ALPHABET, RegexSyntaxError, parse


@lru_cache(maxsize=256)
def compiled(expression: str, alphabet: frozenset[str] = ALPHABET) -> Automaton:
    """Return what matches an expression against texts that are made of `alphabet`. Raises RegexSyntaxError."""
    return compile_automaton(parse(expression, alphabet))


def matching_names(expression: str, names: Collection[str]) -> frozenset[str]:
    """Return those of any names, not only topics', that match as a whole. Raises InvalidRegularExpressionError."""
    try:
        automaton = compiled(expression, ALPHABET.union(*names))
    except RegexSyntaxError as problem:
        raise errors.InvalidRegularExpressionError(f"{expression!r} is not a regular expression: {problem}.") from None
    return frozenset(filter(automaton.matches, names))


def check(expression: str) -> None:
    """Raise RegexSyntaxError, which says why, if the expression cannot be used."""
    compiled(expression)
