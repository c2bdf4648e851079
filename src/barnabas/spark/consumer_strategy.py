"""Which topic-partitions a query reads: `assign`, `subscribe` or `subscribePattern`, as in the built-in connector."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.errors import OptionError

ASSIGN, SUBSCRIBE, SUBSCRIBE_PATTERN = "assign", "subscribe", "subscribepattern"
STRATEGIES = (ASSIGN, SUBSCRIBE, SUBSCRIBE_PATTERN)

PartitionsByTopic = Mapping[str, Iterable[int]]


class Strategy:
    """One of the three options with its value; picks the partitions out of a cluster's topics."""

    __slots__ = ("_select", "kind", "topics", "value")

    def __init__(
        self, kind: str, value: str, topics: frozenset[str] | None, select: Callable[[str, int], bool]
    ) -> None:
        self.kind = kind
        self.value = value
        self.topics = topics
        self._select = select

    def partitions(self, cluster: PartitionsByTopic) -> list[TopicPartition]:
        """Return the chosen partitions, in order; `cluster` maps every topic to its partition numbers."""
        return sorted(
            TopicPartition(topic, partition)
            for topic, numbers in cluster.items()
            for partition in numbers
            if self._select(topic, partition)
        )

    def may_select(self, topic: str) -> bool:
        """Whether some partition of the topic is chosen, as far as its name tells."""
        return topic in self.topics if self.topics is not None else self._select(topic, 0)

    def __repr__(self) -> str:
        return f"{self.kind}={self.value}"


def parse_strategy(options: Mapping[str, str]) -> Strategy:
    """Read the strategy from lower-cased options; raises OptionError when none or several are given."""
    given = [name for name in STRATEGIES if name in options]
    if not given:
        raise OptionError(
            "a source needs one of the options subscribe (topics, comma-separated), subscribePattern (a regular "
            'expression) or assign (JSON such as {"topic":[0,1]}), and none is set'
        )
    if len(given) > 1:
        raise OptionError(f"a source takes one of subscribe, subscribePattern and assign, not several: {given}")
    return _PARSERS[given[0]](options[given[0]])


def _parse_subscribe(value: str) -> Strategy:
    topics = frozenset(topic.strip() for topic in value.split(",") if topic.strip())
    if not topics:
        raise OptionError(f"option subscribe={value!r} names no topic; give one or several, comma-separated")
    return Strategy(SUBSCRIBE, value, topics, lambda topic, _partition: topic in topics)


def _parse_pattern(value: str) -> Strategy:
    """As the built-in connector does: a pattern that is found anywhere in a topic's name selects it."""
    if not value.strip():
        raise OptionError("option subscribePattern is empty; give a regular expression, such as ^flights")
    try:
        pattern = re.compile(value.strip())
    except re.error as error:
        raise OptionError(f"option subscribePattern={value!r} is not a regular expression: {error}") from error
    return Strategy(SUBSCRIBE_PATTERN, value, None, lambda topic, _partition: pattern.search(topic) is not None)


def _parse_assign(value: str) -> Strategy:
    try:
        wanted = json.loads(value)
        chosen = {(str(topic), int(number)) for topic, numbers in wanted.items() for number in numbers}
    except (ValueError, TypeError, AttributeError) as error:
        raise OptionError(
            f'option assign={value!r} is not of the form {{"topic":[0,1],"other":[2]}}: {error}'
        ) from error
    if not chosen:
        raise OptionError(f"option assign={value!r} names no partition")
    topics = frozenset(topic for topic, _ in chosen)
    return Strategy(ASSIGN, value, topics, lambda topic, partition: (topic, partition) in chosen)


_PARSERS: dict[str, Callable[[str], Strategy]] = {
    ASSIGN: _parse_assign,
    SUBSCRIBE: _parse_subscribe,
    SUBSCRIBE_PATTERN: _parse_pattern,
}
