"""What an admin client does with topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.client.admin.admin_operations import AdminOperations, checked
from barnabas.client.admin.cluster import DescribeClusterHandler
from barnabas.client.admin.new_topic import NewPartitions, NewTopic
from barnabas.client.admin.results import Results
from barnabas.client.admin.topic_descriptions import (
    DescribeTopicsHandler,
    TopicDescription,
    TopicPages,
    describe_topic_partitions,
)
from barnabas.client.admin.topics import (
    ControllerMutationQuota,
    CreatedTopic,
    CreatePartitionsHandler,
    CreateTopicsHandler,
    DeleteTopicsHandler,
    ListTopicsHandler,
    TopicKey,
    TopicListing,
)
from barnabas.client.arguments import as_keys
from barnabas.client.steps import Steps
from barnabas.errors import IllegalArgumentError, KafkaError, UnsupportedVersionError


class TopicOperations(AdminOperations):
    """Topics."""

    def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[str, CreatedTopic]:
        """Create topics; with `validate_only` only check whether they could be. By name, what was created.

        Where a quota on changes to the cluster is exceeded (KIP-599) this waits; with
        `retry_on_quota_violation=False`, or when time is over, the error is a `ThrottlingQuotaExceededError`, whose
        `throttle_time_ms` says how long to wait. So it is for `delete_topics` and `create_partitions`.

        Raises `TopicExistsError`, `InvalidTopicError`, `InvalidPartitionsError`,
        `InvalidReplicationFactorError`, ...

        """
        by_name = _by_name(topics)
        quota = ControllerMutationQuota(retry_on_quota_violation)
        handler = CreateTopicsHandler(by_name, quota, validate_only=validate_only)
        return self._run(handler, by_name, timeout, raise_errors)

    def delete_topics(
        self,
        topics: Iterable[TopicKey],
        *,
        retry_on_quota_violation: bool = True,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicKey, None]:
        """Delete topics, by names or ids (16 bytes), with all their records.

        Raises `UnknownTopicOrPartitionError`, `UnknownTopicIdError`, `TopicDeletionDisabledError`, ...

        """
        handler = DeleteTopicsHandler(ControllerMutationQuota(retry_on_quota_violation))
        return self._run(handler, as_keys(topics, "topics"), timeout, raise_errors)

    def list_topics(self, *, include_internal: bool = False, timeout: float | None = None) -> dict[str, TopicListing]:
        """Return the topics of the cluster by name, in alphabetical order."""
        return self._run_one(ListTopicsHandler(include_internal=include_internal), "topics", timeout)

    def describe_topics(
        self,
        topics: Iterable[TopicKey],
        *,
        include_authorized_operations: bool = False,
        partition_size_limit_per_response: int = 2000,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicKey, TopicDescription]:
        """Topics with their partitions, leaders and replicas, by names or ids.

        Those given by name are described by as many responses as it takes, each of which has at most
        `partition_size_limit_per_response` partitions; a broker has a limit of its own too.

        Raises `UnknownTopicOrPartitionError`, `UnknownTopicIdError`, `TopicAuthorizationError`, ...

        """
        if partition_size_limit_per_response < 1:
            raise IllegalArgumentError(
                f"partition_size_limit_per_response is {partition_size_limit_per_response}; it must be at least 1"
            )
        asked = as_keys(topics, "topics")
        steps = self._describe_topics(
            asked, include_authorized_operations, partition_size_limit_per_response, timeout, raise_errors
        )
        return self._complete(steps)

    def _describe_topics(
        self, asked: list[TopicKey], operations: bool, limit: int, timeout: float | None, raise_errors: bool
    ) -> Steps[Results[TopicKey, TopicDescription]]:
        deadline = self._deadline(timeout)
        by_metadata = DescribeTopicsHandler(include_authorized_operations=operations)
        names = [key for key in asked if isinstance(key, str)]
        rest: list[TopicKey] = [key for key in asked if not isinstance(key, str)]
        found: dict[TopicKey, TopicDescription] = {}
        errors: dict[TopicKey, KafkaError] = {}
        if names:
            try:
                named = yield from self._describe_pages(names, operations, limit, deadline)
                found, errors = dict(named), named.errors
            except UnsupportedVersionError:
                rest = asked
        described = yield from self._ask(by_metadata, rest, deadline)
        found, errors = {**found, **described}, {**errors, **described.errors}
        order = [key for key in asked if key in found]
        return checked(Results({key: found[key] for key in order}, errors), raise_errors)

    def _describe_pages(
        self, names: list[str], operations: bool, limit: int, deadline: float
    ) -> Steps[Results[TopicKey, TopicDescription]]:
        cluster = DescribeClusterHandler()
        described = yield from self._ask_one(cluster, "cluster", deadline)
        pages = TopicPages(names, described.nodes, include_authorized_operations=operations)
        while pages.left:
            page = describe_topic_partitions(pages.left, limit, pages.cursor)
            pages.add((yield from self._ask_one(page, "topics", deadline)))
        return pages.results()

    def create_partitions(
        self,
        increases: Mapping[str, NewPartitions | int],
        *,
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[str, None]:
        """Increase the partitions of topics: by name the new total, as a number or as `NewPartitions`.

        Records with a key may then go to another partition than the earlier ones with the same key.

        Raises `InvalidPartitionsError`, `UnknownTopicOrPartitionError`, ...

        """
        wanted = {name: NewPartitions(new) if isinstance(new, int) else new for name, new in increases.items()}
        quota = ControllerMutationQuota(retry_on_quota_violation)
        handler = CreatePartitionsHandler(wanted, quota, validate_only=validate_only)
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
