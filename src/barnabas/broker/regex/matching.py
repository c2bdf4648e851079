"""Regular expressions of clients (KIP-848, KIP-1152): RE2's syntax, matched against whole names in linear time.

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
from barnabas.broker.groups.topic_image import TopicImage
from barnabas.broker.regex.automaton import Automaton, compile_automaton
from barnabas.broker.regex.parser import ALPHABET, RegexSyntaxError, parse


def check(expression: str) -> None:
    """Raise InvalidRegularExpressionError if the expression cannot be used."""
    _compiled(expression)


def matching_topics(expression: str, image: TopicImage) -> frozenset[str]:
    """Return the topics whose whole names match. Raises InvalidRegularExpressionError."""
    automaton = _compiled(expression)
    return frozenset(topic.name for topic in image.topics() if automaton.matches(topic.name))


def matching_names(expression: str, names: Collection[str]) -> frozenset[str]:
    """Those of any names, not only topics', that match as a whole. Raises InvalidRegularExpressionError."""
    alphabet = ALPHABET.union(*names)
    try:
        automaton = compile_automaton(parse(expression, alphabet))
    except RegexSyntaxError as problem:
        raise errors.InvalidRegularExpressionError(f"{expression!r} is not a regular expression: {problem}.") from None
    return frozenset(filter(automaton.matches, names))


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Automaton:
    try:
        return compile_automaton(parse(expression))
    except RegexSyntaxError as problem:
        raise errors.InvalidRegularExpressionError(
            f"SubscribedTopicRegex {expression!r} is not a valid regular expression: {problem}."
        ) from None
