"""`AdminClient`: topics, settings, offsets and groups of a cluster."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from random import Random
from types import TracebackType
from typing import Any

from barnabas.client.admin.admin_metadata import AdminMetadata
from barnabas.client.admin.api_driver import AdminApiDriver
from barnabas.client.admin.api_handler import AdminApiHandler, K, V
from barnabas.client.admin.cluster import ClusterDescription, DescribeClusterHandler
from barnabas.client.admin.configs import (
    Changes,
    ConfigEntry,
    ConfigResource,
    DescribeConfigsHandler,
    IncrementalAlterConfigsHandler,
    as_operations,
)
from barnabas.client.admin.consumer_groups import ConsumerGroupDescribeHandler
from barnabas.client.admin.groups import (
    DeleteGroupsHandler,
    DescribeGroupsHandler,
    GroupDescription,
    GroupListing,
    GroupOffsets,
    ListGroupsHandler,
    OffsetCommitHandler,
    OffsetDeleteHandler,
    OffsetFetchHandler,
)
from barnabas.client.admin.new_topic import NewPartitions, NewTopic
from barnabas.client.admin.offsets import DeleteRecordsHandler, ListedOffset, ListOffsetsHandler
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
from barnabas.client.client_utils import create_network_client
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.config.client_config import ClientConfig
from barnabas.errors import GroupIdNotFoundError, IllegalArgumentError, IllegalStateError, KafkaTimeoutError
from barnabas.network.exponential_backoff import ExponentialBackoff
from barnabas.network.node import Node
from barnabas.protocol.topic_partition import TopicPartition

_numbers = itertools.count(1)


class AdminClient:
    """Looks at a cluster and changes it. Methods block, and may be called from several threads, one after the other.

        with AdminClient(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics([NewTopic("flights", num_partitions=6)])
            print(admin.describe_topics(["flights"])["flights"].partitions)

    Settings are Kafka's, as keywords with `_` or in a dict with dots. A method that works on several things tries all
    of them, and then raises if any failed: its error when one did, else an error of the class they share, or a
    `PartialFailureError`; the error's `errors` and `results` tell what became of each. With `raise_errors=False` the
    same is in the `Results` that are returned: a mapping of what succeeded, whose `errors` has what did not.
    What may pass (a broker that is gone, a coordinator that moves) is tried again until `timeout` seconds are over, by
    default `default.api.timeout.ms`; then the error is a `KafkaTimeoutError`.

    Raises:
        ConfigError: a setting has an unknown name or a bad value, or `bootstrap_servers` is missing.
    """

    def __init__(self, configs: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self._config = config = ClientConfig("admin", configs, settings)
        self._client_id = config.get_str("client.id") or f"adminclient-{next(_numbers)}"
        random = Random()
        self._metadata = AdminMetadata(
            refresh_backoff=config.get_seconds("retry.backoff.ms"),
            refresh_backoff_max=config.get_seconds("retry.backoff.max.ms"),
            max_age=config.get_seconds("metadata.max.age.ms"),
            random=random,
        )
        self._backoff = ExponentialBackoff(
            config.get_seconds("retry.backoff.ms"), config.get_seconds("retry.backoff.max.ms"), random
        )
        self._client = create_network_client(config, self._client_id, self._metadata, random=random)
        self._lock = threading.Lock()
        self._is_closed = False

    # Topics.

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
        return self._run(DeleteTopicsHandler(), _keys(topics), timeout, raise_errors)

    def list_topics(self, *, include_internal: bool = False, timeout: float | None = None) -> dict[str, TopicListing]:
        """The topics of the cluster by name, in alphabetical order."""
        found = self._run(ListTopicsHandler(), ["topics"], timeout, True)["topics"]
        return {name: listing for name, listing in found.items() if include_internal or not listing.is_internal}

    def describe_topics(
        self, topics: Iterable[TopicKey], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[TopicKey, TopicDescription]:
        """Topics with their partitions, leaders and replicas, by names or ids.

        Raises:
            UnknownTopicOrPartitionError, UnknownTopicIdError, TopicAuthorizationError, ...
        """
        return self._run(DescribeTopicsHandler(), _keys(topics), timeout, raise_errors)

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

    # The cluster and its settings.

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """The cluster's id, brokers and controller."""
        return self._run(DescribeClusterHandler(), ["cluster"], timeout, True)["cluster"]

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """The settings of topics and brokers: for each resource by name."""
        handler = DescribeConfigsHandler(include_synonyms=include_synonyms, include_documentation=include_documentation)
        return self._run(handler, list(dict.fromkeys(resources)), timeout, raise_errors)

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Changes],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[ConfigResource, None]:
        """Changes settings and leaves the others as they are: for each resource `{name: value}`, where None goes back
        to the default, or a list of `AlterConfigOp`.

        Raises:
            InvalidConfigurationError, ...
        """
        operations = {resource: as_operations(wanted) for resource, wanted in changes.items()}
        handler = IncrementalAlterConfigsHandler(operations, validate_only=validate_only)
        return self._run(handler, operations, timeout, raise_errors)

    # Offsets of partitions.

    def list_offsets(
        self,
        specs: Mapping[TopicPartition, int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, ListedOffset]:
        """Offsets of partitions: for each an `OffsetSpec`, or a time in epoch milliseconds for the first record of that
        time or later. `isolation_level` is `read_uncommitted` or `read_committed`: what LATEST means.
        """
        if isolation_level not in ("read_uncommitted", "read_committed"):
            raise IllegalArgumentError(
                f"isolation_level is {isolation_level!r}; it must be read_uncommitted or read_committed"
            )
        wanted = {TopicPartition(*partition): spec for partition, spec in specs.items()}
        handler = ListOffsetsHandler(wanted, read_committed=isolation_level == "read_committed")
        return self._run(handler, wanted, timeout, raise_errors)

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[TopicPartition, int]:
        """Deletes the records of partitions before an offset, -1 for all; gives each one's new first offset.

        Raises:
            OffsetOutOfRangeError, PolicyViolationError (a compacted topic), ...
        """
        wanted = {TopicPartition(*partition): offset for partition, offset in before.items()}
        return self._run(DeleteRecordsHandler(wanted), wanted, timeout, raise_errors)

    # Groups.

    def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = (), timeout: float | None = None
    ) -> dict[str, GroupListing]:
        """The groups of the cluster by id; only those in one of `states` or of one of `types`, if given."""
        with self._lock:
            deadline = self._deadline(timeout)
            nodes = [node.id for node in self._known_nodes(deadline)]
            driver = self._driver(ListGroupsHandler(states=states, types=types), nodes, deadline)
            self._drive(driver)
        results = driver.results()
        results.raise_errors()
        found = {group.group_id: group for groups in results.values() for group in groups}
        return dict(sorted(found.items()))

    def describe_groups(
        self, groups: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[str, GroupDescription]:
        """Groups with their members and what these are assigned, of the classic protocol and of KIP-848's.

        One that nobody knows is a GroupIdNotFoundError; a broker before 4.0 gives it as state "Dead", as in Kafka.
        """
        asked = _keys(groups)
        deadline = self._deadline(timeout)
        classic = self._run(DescribeGroupsHandler(), asked, deadline - time.monotonic(), False)
        # The classic request knows nothing of the others, so whether they are there is asked a second time.
        unknown = [group for group in asked if _is_unknown(classic, group)]
        newer = self._run(ConsumerGroupDescribeHandler(), unknown, max(0.0, deadline - time.monotonic()), False)
        found = {group: known[group] for group in asked for known in (newer, classic) if group in known}
        errors = {group: error for group, error in classic.errors.items() if group not in found}
        results: Results[str, GroupDescription] = Results(found, errors)
        if raise_errors:
            results.raise_errors()
        return results

    def delete_groups(
        self, groups: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[str, None]:
        """Deletes groups that have no members, with their committed offsets.

        Raises:
            GroupNotEmptyError, GroupIdNotFoundError, ...
        """
        return self._run(DeleteGroupsHandler(), _keys(groups), timeout, raise_errors)

    def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> GroupOffsets:
        """The committed offsets of a group, of these partitions or of all; those without one are left out.

        `require_stable` waits for transactions that have offsets in them to end.
        """
        handler = OffsetFetchHandler({group_id: partitions}, require_stable=require_stable)
        return self._run(handler, [group_id], timeout, True)[group_id]

    def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Sets committed offsets of a group, which must have no members now; creates it if there is none.

        Raises:
            UnknownMemberIdError (the group has members), ...
        """
        wanted = {
            TopicPartition(*partition): OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for partition, offset in offsets.items()
        }
        return self._run_partitions(OffsetCommitHandler(wanted), group_id, timeout, raise_errors)

    def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Forgets committed offsets of a group, for topics to which no member is subscribed.

        Raises:
            GroupSubscribedToTopicError, GroupIdNotFoundError, ...
        """
        wanted = [TopicPartition(*partition) for partition in partitions]
        return self._run_partitions(OffsetDeleteHandler(wanted), group_id, timeout, raise_errors)

    # How it works.

    def _run_partitions(
        self, handler: AdminApiHandler[str, Any], group_id: str, timeout: float | None, raise_errors: bool
    ) -> Results[TopicPartition, None]:
        outcomes = self._run(handler, [group_id], timeout, True)[group_id]
        values = {partition: None for partition, error in outcomes.items() if error is None}
        errors = {partition: error for partition, error in outcomes.items() if error is not None}
        results: Results[TopicPartition, None] = Results(values, errors)
        if raise_errors:
            results.raise_errors()
        return results

    def _run(
        self, handler: AdminApiHandler[K, V], keys: Iterable[K], timeout: float | None, raise_errors: bool
    ) -> Results[K, V]:
        with self._lock:
            driver = self._driver(handler, keys, self._deadline(timeout))
            self._drive(driver)
        results = driver.results()
        if raise_errors:
            results.raise_errors()
        return results

    def _driver(self, handler: AdminApiHandler[K, V], keys: Iterable[K], deadline: float) -> AdminApiDriver[K, V]:
        retries = self._config.get_int("retries")
        return AdminApiDriver(handler, keys, self._client, self._metadata, self._backoff, deadline, retries)

    def _drive(self, driver: AdminApiDriver[Any, Any]) -> None:
        self._ensure_open()
        while not driver.is_done:
            now = time.monotonic()
            wait = driver.step(now)
            if not driver.is_done:
                self._client.poll(wait, now)
                self._metadata.raise_fatal_error()

    def _known_nodes(self, deadline: float) -> list[Node]:
        """All brokers, as soon as the first metadata has come."""
        self._ensure_open()
        while self._metadata.fetch().is_bootstrap_configured:
            now = time.monotonic()
            if now >= deadline:
                raise KafkaTimeoutError("no bootstrap server answered in time")
            self._metadata.request_update(reset_equivalent_backoff=False)
            self._client.poll(deadline - now, now)
            self._metadata.raise_fatal_error()
        return self._metadata.fetch().nodes

    def _ensure_open(self) -> None:
        if self._is_closed:
            raise IllegalStateError(f"{self._client_id}: the admin client is closed")

    def _deadline(self, timeout: float | None) -> float:
        if timeout is None:
            timeout = self._config.get_seconds("default.api.timeout.ms")
        if timeout < 0:
            raise IllegalArgumentError(f"timeout is {timeout}; it must not be negative (seconds)")
        return time.monotonic() + timeout

    def close(self) -> None:
        """Ends the connections, after the call that another thread may be in. A second call does nothing."""
        with self._lock:
            self._is_closed = True
            self._client.close()

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _keys(keys: Iterable[K]) -> list[K]:
    """The keys without duplicates; a single string is more likely a mistake than a list of letters."""
    if isinstance(keys, (str, bytes)):
        raise IllegalArgumentError(f"a list is needed, not {keys!r}: write [{keys!r}]")
    return list(dict.fromkeys(keys))


def _is_unknown(classic: Results[str, GroupDescription], group: str) -> bool:
    if group in classic:
        return classic[group].state == "Dead"
    return isinstance(classic.errors.get(group), GroupIdNotFoundError)


def _by_name(topics: Iterable[NewTopic]) -> dict[str, NewTopic]:
    by_name: dict[str, NewTopic] = {}
    for topic in topics:
        if not isinstance(topic, NewTopic):
            raise IllegalArgumentError(f"{topic!r} is not a NewTopic; write NewTopic({topic!r})")
        if topic.name in by_name:
            raise IllegalArgumentError(f"topic {topic.name!r} is given twice")
        by_name[topic.name] = topic
    return by_name
