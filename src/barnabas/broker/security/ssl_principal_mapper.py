"""Kafka's SslPrincipalMapper: who the subject of a certificate is, by `ssl.principal.mapping.rules` (KIP-371).

A rule is `DEFAULT`, or `RULE:pattern/replacement/` with `L` or `U` for lower or upper case behind it. The first that
matches the whole name holds; `$1` is what the first group matched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from barnabas.broker.regex.matching import matching_names
from barnabas.errors import ConfigError, InvalidRegularExpressionError

_SETTING = "ssl.principal.mapping.rules"
_DEFAULT = "DEFAULT"
#: Kafka's own, for one rule in a list of them.
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)", re.DOTALL)
_GROUP = re.compile(r"\$(\d+)|\\(.)", re.DOTALL)
_CASES: dict[str, Callable[[str], str]] = {"": str, "L": str.lower, "U": str.upper}
#: Patterns of Python's `re` can take long on longer ones.
_LONGEST_NAME = 1024


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str
    change: Callable[[str], str]

    def apply(self, name: str) -> str | None:
        """Return the new name; None where the rule does not match."""
        # The owner of a certificate chose the name: what cannot match must not make `re` try all ways that there are.
        if not _may_match(self.pattern.pattern, name) or self.pattern.fullmatch(name) is None:
            return None
        # As Java's replaceAll: of an unanchored pattern more than one part may be replaced.
        replaced = self.pattern.sub(lambda found: _GROUP.sub(lambda part: _part(part, found), self.replacement), name)
        return self.change(replaced)


class SslPrincipalMapper:
    """Maps distinguished names to short ones. Raises ConfigError for rules that cannot be read."""

    def __init__(self, text: str) -> None:
        self._rules: list[_Rule | None] = []
        rest = text.strip() or _DEFAULT
        while rest:
            rest = self._parse_rule(rest).lstrip()
            if rest and not rest.startswith(","):
                raise _problem(text, f"a comma is missing before {rest[:40]!r}")
            rest = rest[1:].lstrip()

    def _parse_rule(self, text: str) -> str:
        if text.startswith(_DEFAULT):
            self._rules.append(None)
            return text[len(_DEFAULT) :]
        found = _RULE.match(text)
        if found is None:
            raise _problem(text, "a rule is DEFAULT or RULE:pattern/replacement/ with L or U behind it")
        try:
            # Java's classes, such as \w, are of ASCII.
            pattern = re.compile(found.group(1).replace("\\/", "/"), re.ASCII)
        except re.error as problem:
            raise _problem(text, f"the pattern {found.group(1)!r} is not valid: {problem}") from None
        self._rules.append(_Rule(pattern, found.group(2), _CASES[found.group(3)]))
        return text[found.end() :]

    def name(self, distinguished_name: str) -> str:
        """Return the name of who presents a certificate. Raises ValueError where no rule matches, as Kafka does."""
        if len(distinguished_name) > _LONGEST_NAME:
            raise ValueError(f"its subject has {len(distinguished_name)} characters; {_LONGEST_NAME} are taken")
        for rule in self._rules:
            found = distinguished_name if rule is None else rule.apply(distinguished_name)
            if found is not None:
                return found
        raise ValueError(f"no rule of {_SETTING} matches its subject {distinguished_name!r}")


def _may_match(pattern: str, name: str) -> bool:
    """Whether a pattern may match a whole name, found in linear time; True for patterns with more than RE2 has."""
    try:
        return bool(matching_names(pattern, [name]))
    except InvalidRegularExpressionError:
        return True


def _part(part: re.Match[str], found: re.Match[str]) -> str:
    if part.group(2) is not None:
        return part.group(2)
    # Of $12 with one group: the first, and a 2.
    digits = part.group(1)
    end = len(digits)
    while end > 1 and int(digits[:end]) > found.re.groups:
        end -= 1
    if int(digits[:end]) > found.re.groups:
        return part.group()
    return (found.group(int(digits[:end])) or "") + digits[end:]


def _problem(text: str, why: str) -> ConfigError:
    return ConfigError(f"{_SETTING}={text!r} is not valid: {why}")
