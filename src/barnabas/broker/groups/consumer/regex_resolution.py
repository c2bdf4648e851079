"""What a group's SubscribedTopicRegex stand for (KIP-848, KIP-1152)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.groups.consumer_group import ResolvedRegex
from barnabas.broker.regex.automaton import Automaton
from barnabas.broker.regex.matching import compiled
from barnabas.broker.regex.parser import RegexSyntaxError

if TYPE_CHECKING:
    from barnabas.broker.groups.consumer.draft import GroupDraft
    from barnabas.broker.groups.consumer_group_member import ConsumerGroupMember
    from barnabas.broker.groups.topic_image import TopicImage
    from barnabas.broker.instant import Instant

#: Expressions are matched anew when topics changed, but at most this often; and this often in any case.
_REGEX_REFRESH_MIN_MS = 1_000
_REGEX_REFRESH_MAX_MS = 10 * 60 * 1000


def update_regexes(
    draft: GroupDraft, before: ConsumerGroupMember, member: ConsumerGroupMember, image: TopicImage, at: Instant
) -> bool:
    """Match expressions against topics where that is due; gives whether an expression stands for something else."""
    changed = before.subscribed_topic_regex != member.subscribed_topic_regex
    if changed and member.subscribed_topic_regex:
        _automaton(member.subscribed_topic_regex)
    wanted = draft.group.subscribed_regexes()
    for regex in sorted(set(draft.group.regexes) - wanted):
        draft.remove_regex(regex)
    for regex in sorted(wanted):
        resolved = draft.group.regexes.get(regex)
        if resolved is not None and not _is_due(resolved, image, at):
            continue
        topics = matching_topics(regex, image)
        draft.put_regex(regex, ResolvedRegex(topics, image.version, at.now_ms))
        changed = changed or resolved is None or resolved.topics != topics
    return changed


def matching_topics(expression: str, image: TopicImage) -> frozenset[str]:
    """Return the topics whose whole names match. Raises InvalidRegularExpressionError."""
    automaton = _automaton(expression)
    return frozenset(topic.name for topic in image.topics() if automaton.matches(topic.name))


def _automaton(expression: str) -> Automaton:
    try:
        return compiled(expression)
    except RegexSyntaxError as problem:
        raise errors.InvalidRegularExpressionError(
            f"SubscribedTopicRegex {expression!r} is not a valid regular expression: {problem}."
        ) from None


def _is_due(resolved: ResolvedRegex, image: TopicImage, at: Instant) -> bool:
    age_ms = at.now_ms - resolved.timestamp_ms
    if age_ms > _REGEX_REFRESH_MAX_MS:
        return True
    return resolved.version != image.version and age_ms >= _REGEX_REFRESH_MIN_MS
