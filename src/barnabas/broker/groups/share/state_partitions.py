"""Which share-partitions of a group the share coordinator has: asked for, there, to be forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.groups.share.draft import ShareGroupDraft
from barnabas.broker.groups.share_group import (
    Partitions,
    SharedTopic,
    ShareGroup,
    StatePartitions,
    added,
    removed,
)
from barnabas.broker.share.persister import UNINITIALIZED_START_OFFSET

if TYPE_CHECKING:
    from barnabas.broker.groups.group_store import GroupStore
    from barnabas.broker.groups.topic_image import TopicImage
    from barnabas.broker.instant import Instant
    from barnabas.broker.share.persister import Persister, StartOffsets, Tell

#: After which time what was asked for and not answered is asked for again.
_RETRY_MS = 10_000


class ShareStates:
    """Changes what groups note of their share-partitions, and has the share coordinator do it."""

    __slots__ = ("_beginning", "_begun_calls", "_image", "_persister", "_store")

    def __init__(self, store: GroupStore, image: TopicImage, persister: Callable[[], Persister]) -> None:
        self._store = store
        self._image = image
        self._persister = persister
        #: Group id → how much of it is asked for and not answered, and who is to be told when nothing is.
        self._beginning: dict[str, int] = {}
        self._begun_calls: dict[str, list[Callable[[], None]]] = {}

    # --- beginning

    def is_beginning(self, group_id: str) -> bool:
        """Whether something was asked for and is not answered."""
        return group_id in self._beginning

    def when_begun(self, group_id: str, go_on: Callable[[], None]) -> None:
        """Call `go_on` when all that was asked for is answered; it must not be so already (`is_beginning`)."""
        self._begun_calls.setdefault(group_id, []).append(go_on)

    def initialize(self, group: ShareGroup, topic_names: frozenset[str], at: Instant) -> None:
        """Have share-partitions initialized that a member subscribes to and that are new to the group."""
        missing = self._missing(group, group.subscribed_topics | topic_names, at)
        if missing:
            offsets = {
                topic_id: dict.fromkeys(sorted(topic.partitions), UNINITIALIZED_START_OFFSET)
                for topic_id, topic in missing.items()
            }
            self._begin(group, missing, offsets, at, partial(self._note_failure, group.group_id))

    def alter(self, group: ShareGroup, offsets: StartOffsets, at: Instant, tell: Tell) -> None:
        """Have share-partitions begin at these offsets. Raises KafkaError; `tell` gets what comes of it."""
        topics = {}
        for topic_id, partitions in offsets.items():
            found = self._image.topic_by_id(topic_id)
            assert found is not None, "the topics were checked"
            topics[topic_id] = SharedTopic(found.name, frozenset(partitions), at.now_ms)
        self._begin(group, topics, offsets, at, tell)

    def _missing(self, group: ShareGroup, names: frozenset[str], at: Instant) -> dict[bytes, SharedTopic]:
        states, found = group.states, {}
        for name in sorted(names):
            topic = self._image.topic(name)
            if topic is None:
                continue
            known = states.initialized.get(topic.id)
            partitions = frozenset(range(topic.partitions)) - (known.partitions if known else frozenset())
            asked = states.initializing.get(topic.id)
            if asked is not None and 0 <= at.now_ms - asked.since_ms < _RETRY_MS:
                partitions -= asked.partitions
            if partitions:
                found[topic.id] = SharedTopic(name, partitions, at.now_ms)
        return found

    def _begin(
        self, group: ShareGroup, topics: Mapping[bytes, SharedTopic], offsets: StartOffsets, at: Instant, tell: Tell
    ) -> None:
        states = group.states
        deleting = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in topics}
        draft = ShareGroupDraft(group)
        draft.put_states(states._replace(initializing=added(states.initializing, topics), deleting=deleting))
        draft.commit(self._store, at)
        partitions = {topic_id: topic.partitions for topic_id, topic in topics.items()}
        done = partial(self._begun, group.group_id, partitions, at, tell)
        self._beginning[group.group_id] = self._beginning.get(group.group_id, 0) + 1
        self._persister().initialize(group.group_id, group.epoch, offsets, at, done)

    def _begun(
        self, group_id: str, partitions: Partitions, at: Instant, tell: Tell, problem: errors.KafkaError | None
    ) -> None:
        group = self._store.groups.get(group_id)
        if isinstance(group, ShareGroup):
            states = group.states
            initialized = states.initialized
            if problem is None:
                names = {topic_id: topic.name for topic_id, topic in states.initializing.items()}
                initialized = added(
                    initialized,
                    {
                        topic_id: SharedTopic(names.get(topic_id, ""), numbers)
                        for topic_id, numbers in partitions.items()
                    },
                )
            left = removed(states.initializing, partitions)
            problem = self._note(group, states._replace(initializing=left, initialized=initialized), at) or problem
        tell(problem)
        self._beginning[group_id] -= 1
        if not self._beginning[group_id]:
            del self._beginning[group_id]
            for go_on in self._begun_calls.pop(group_id, ()):
                go_on()

    def _note(self, group: ShareGroup, states: StatePartitions, at: Instant) -> errors.KafkaError | None:
        draft = ShareGroupDraft(group)
        draft.put_states(states)
        try:
            draft.commit(self._store, at)
        except errors.KafkaError as problem:
            # It is asked for again, which changes nothing where it is there.
            return problem
        return None

    def _note_failure(self, group_id: str, problem: errors.KafkaError | None) -> None:
        if problem is not None:
            text = f"share-partitions of group {group_id} could not be initialized: {problem}"
            self._store.warn_of_retry(group_id, "initialize", text)

    # --- ending

    def delete(self, group: ShareGroup, topic_ids: Sequence[bytes], at: Instant, tell: Tell) -> None:
        """Have all share-partitions of these topics forgotten. Raises KafkaError; `tell` gets what comes of it."""
        states = group.states
        partitions = {topic_id: self._all_of(states, topic_id) for topic_id in topic_ids}
        gone = {topic_id: frozenset(numbers) for topic_id, numbers in partitions.items()}
        names = {topic_id: self._name_of(topic_id) for topic_id in topic_ids}
        draft = ShareGroupDraft(group)
        draft.put_states(
            StatePartitions(
                removed(states.initializing, gone), removed(states.initialized, gone), {**states.deleting, **names}
            )
        )
        draft.commit(self._store, at)
        done = partial(self._ended, group.group_id, topic_ids, at, tell)
        self._persister().delete(group.group_id, partitions, at, done)

    def _all_of(self, states: StatePartitions, topic_id: bytes) -> list[int]:
        known = [topics[topic_id].partitions for topics in states[:2] if topic_id in topics]
        topic = self._image.topic_by_id(topic_id)
        if topic_id in states.deleting and topic is not None:
            known.append(frozenset(range(topic.partitions)))
        return sorted(frozenset().union(*known))

    def _name_of(self, topic_id: bytes) -> str:
        topic = self._image.topic_by_id(topic_id)
        return "<UNKNOWN>" if topic is None else topic.name

    def _ended(
        self, group_id: str, topic_ids: Sequence[bytes], at: Instant, tell: Tell, problem: errors.KafkaError | None
    ) -> None:
        group = self._store.groups.get(group_id)
        if isinstance(group, ShareGroup) and problem is None:
            left = {id: name for id, name in group.states.deleting.items() if id not in topic_ids}
            problem = self._note(group, group.states._replace(deleting=left), at)
        tell(problem)

    def forget_topic(self, group: ShareGroup, topic_id: bytes, at: Instant) -> None:
        """Note that a topic is gone, and its share-partitions with it."""
        states = group.states
        if any(topic_id in topics for topics in states):
            kept = ({id: found for id, found in topics.items() if id != topic_id} for topics in states)
            problem = self._note(group, StatePartitions(*kept), at)  # type: ignore[arg-type]  # as they were
            if problem is not None:
                self._store.warn(f"A deleted topic could not be taken out of group {group.group_id}: {problem}")
