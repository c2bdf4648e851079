"""What an admin client does with topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.client.admin.admin_operations import AdminOperations, unique
from barnabas.client.admin.new_topic import NewPartitions, NewTopic
from barnabas.client.admin.results import Results
from barnabas.client.admin.topics import (
    CreatedTopic,
    CreatePartitionsHandler,
    CreateTopicsHandler,
    DeleteTopicsHandler,
    DescribeTopicsHandler,
    ListTopicsHandler,
    TopicDescription,
    TopicKey,
    TopicListing,
)
from barnabas.errors import IllegalArgumentError


class TopicOperations(AdminOperations):
    """Topics."""

    def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[str, CreatedTopic]:
        """Creates topics; with `validate_only` only checks whether they could be. By name, what was created.

        Raises:
            TopicExistsError, InvalidTopicError, InvalidPartitionsError, InvalidReplicationFactorError, ...
        """
        by_name = _by_name(topics)
        handler = CreateTopicsHandler(by_name, validate_only=validate_only)
        return self._run(handler, by_name, timeout, raise_errors)

    def delete_topics(
        self, topics: Iterable[TopicKey], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[TopicKey, None]:
        """Deletes topics, by names or ids (16 bytes), with all their records.

        Raises:
            UnknownTopicOrPartitionError, UnknownTopicIdError, TopicDeletionDisabledError, ...
        """
        return self._run(DeleteTopicsHandler(), unique(topics), timeout, raise_errors)

    def list_topics(self, *, include_internal: bool = False, timeout: float | None = None) -> dict[str, TopicListing]:
        """The topics of the cluster by name, in alphabetical order."""
        return self._run_one(ListTopicsHandler(include_internal=include_internal), "topics", timeout)

    def describe_topics(
        self, topics: Iterable[TopicKey], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[TopicKey, TopicDescription]:
        """Topics with their partitions, leaders and replicas, by names or ids.

        Raises:
            UnknownTopicOrPartitionError, UnknownTopicIdError, TopicAuthorizationError, ...
        """
        return self._run(DescribeTopicsHandler(), unique(topics), timeout, raise_errors)

    def create_partitions(
        self,
        increases: Mapping[str, NewPartitions | int],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Increases the partitions of topics: by name the new total, as a number or as `NewPartitions`.

        Records with a key may then go to another partition than the earlier ones with the same key.

        Raises:
            InvalidPartitionsError, UnknownTopicOrPartitionError, ...
        """
        wanted = {name: NewPartitions(new) if isinstance(new, int) else new for name, new in increases.items()}
        handler = CreatePartitionsHandler(wanted, validate_only=validate_only)
        return self._run(handler, wanted, timeout, raise_errors)


def _by_name(topics: Iterable[NewTopic]) -> dict[str, NewTopic]:
    by_name: dict[str, NewTopic] = {}
    for topic in topics:
        if not isinstance(topic, NewTopic):
            raise IllegalArgumentError(f"{topic!r} is not a NewTopic; write NewTopic({topic!r})")
        if topic.name in by_name:
            raise IllegalArgumentError(f"topic {topic.name!r} is given twice")
        by_name[topic.name] = topic
    return by_name
