"""Masking by rule: what of a topic's records the console does not show, by no way of asking and in no form.

A rule is `TOPIC:PLACE`: the topic may end in `*`; the place is `key`, `value`, `header.NAME`, or a path in a document
such as `value.card.number`, which leads through lists. It fails closed: where a key or value cannot be read as a
document, such as in the forms text and hex, all of it is masked. Filters may not ask about a side that is masked, for
the answers would tell what is there; and its records leave as they are neither by a file nor for another topic.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.console.filters import Condition, sides
from barnabas.errors import ConfigError, TopicAuthorizationError

if TYPE_CHECKING:
    from barnabas.console.decoders import Decoded

MASK = "•••"
#: What a document's place can be found in; protobuf without a schema has numbers for names.
_DOCUMENTS = ("json", "avro", "msgpack", "protobuf")


class Rule(NamedTuple):
    """What is masked: a side of records of topics, or with a `path` a place in it (of headers: a name)."""

    topics: str
    side: str
    path: tuple[str, ...]


def parse_rule(text: str) -> Rule:
    """Return a rule. Raises `ConfigError` that says how one is written."""
    topics, colon, place = text.rpartition(":")
    side, *path = place.split(".")
    is_place = side in ("key", "value") or (side == "header" and path)
    if not colon or not topics or not is_place or not all(path):
        raise ConfigError(f"--mask {text}: write TOPIC:PLACE, such as orders*:value.card.number, t:key, t:header.token")
    return Rule(topics, side, (".".join(path),) if side == "header" else tuple(path))


class Masks:
    """All rules."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = tuple(rules)

    def of(self, topic: str) -> TopicMask | None:
        """Return what is masked of a topic, None for nothing."""
        own = tuple(rule for rule in self._rules if fnmatchcase(topic, rule.topics))
        return TopicMask(own) if own else None


class TopicMask:
    """What is masked of one topic."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules

    def check(self, condition: Condition | None) -> None:
        """Raise `TopicAuthorizationError` for a filter that asks about what is masked."""
        asked = set() if condition is None else sides(condition)
        masked = sorted(asked & {rule.side for rule in self._rules})
        if masked:
            raise TopicAuthorizationError(f"the {masked[0]} of this topic is masked: a filter cannot ask about it")

    def refuse(self, what: str) -> None:
        """Raise `TopicAuthorizationError`: records cannot leave as they are."""
        raise TopicAuthorizationError(f"records of this topic are masked: {what}")

    def decoded(self, side: str, found: Decoded) -> Decoded:
        """Return a key or value with what is masked in it."""
        paths = [rule.path for rule in self._rules if rule.side == side]
        if not paths or found.form == "null":
            return found
        if () in paths or not _is_document(found):
            return found._replace(form="masked", document=MASK, problem=None)
        document = copy.deepcopy(found.document)
        for path in paths:
            _mask(document, path)
        return found._replace(document=document, problem=None)

    def hides_header(self, name: str) -> bool:
        """Whether a header's value is masked."""
        return any(rule.side == "header" and rule.path[0] == name for rule in self._rules)


def _is_document(found: Decoded) -> bool:
    if found.form not in _DOCUMENTS or not isinstance(found.document, dict | list):
        return False
    return not (found.form == "protobuf" and isinstance(found.document, dict) and all(map(str.isdigit, found.document)))


def _mask(document: Any, path: tuple[str, ...]) -> None:
    if isinstance(document, list):
        for item in document:
            _mask(item, path)
    elif isinstance(document, dict) and path[0] in document:
        if len(path) == 1 or not isinstance(document[path[0]], dict | list):
            # A text where a document was expected may hold the whole of it.
            document[path[0]] = MASK
        else:
            _mask(document[path[0]], path[1:])
