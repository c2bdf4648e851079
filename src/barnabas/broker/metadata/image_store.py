"""A home of metadata that the controllers keep: what brokers read of an image, as a `MetadataStore`."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from barnabas.broker.features import FEATURES
from barnabas.broker.metadata.cluster_metadata import BROKERS, CLIENT_METRICS, GROUPS
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.metadata.metadata_store import Change, Changes, Listener, MetadataStore, Operation, Subscribers
from barnabas.errors import IllegalStateError
from barnabas.protocol.kinds import SCRAM_MECHANISMS, ConfigResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from barnabas.broker.metadata.metadata_image import Resource, TopicImage
    from barnabas.broker.metadata.metadata_store import Value
    from barnabas.protocol.messages.access_control_entry_record import AccessControlEntryRecord
    from barnabas.protocol.messages.delegation_token_record import DelegationTokenRecord
    from barnabas.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

#: Kafka's numbers for kinds of resources (ConfigResource.Type), and where their settings stand in a store.
_KINDS = {4: BROKERS, 16: CLIENT_METRICS, 32: GROUPS}


class ImageStore(MetadataStore):
    """The newest image, read as records of a store; nothing can be written: changes are requests to the controller.

    Two images are compared by identity, so what publishing one costs is a look at each topic and each resource, and
    the making of what has changed.
    """

    def __init__(self, cluster_id: str, image: MetadataImage) -> None:
        self._cluster_id = cluster_id
        self._image = image
        #: The last image that all subscribers know: another one is compared with that after a fault of theirs.
        self._told = image
        self._subscribers = Subscribers()

    @property
    def image(self) -> MetadataImage:
        """What was published last."""
        return self._image

    def publish_image(self, image: MetadataImage) -> None:
        """Notify the subscribers of all that differs from the image before; after what they raise, of that too."""
        changes = {change.key: change for change in self._changes(self._told, image)}
        if self._image is not self._told:
            # Some subscribers may have heard of it.
            changes = {change.key: change for change in self._changes(self._image, image)} | changes
        self._image = image
        self._subscribers.tell(Changes(image.offset, False, list(changes.values())))
        self._told = image

    def read(self, version: int = 0) -> Changes:
        """See MetadataStore: always everything."""
        image = self._image
        found = [Change("cluster", {"id": self._cluster_id}, image.offset)]
        found += self._changes(MetadataImage(), image)
        found.append(Change("features", _features(image), image.offset))
        return Changes(image.offset, True, found)

    def _changes(self, old: MetadataImage, new: MetadataImage) -> Iterator[Change]:
        version = new.offset
        if old.features is not new.features:
            yield Change("features", _features(new), version)
        if old.topics is not new.topics or old.configs is not new.configs:
            yield from self._topics(old, new)
        if old.configs is not new.configs:
            for resource in {**old.configs, **new.configs}:
                if resource[0] in _KINDS and old.configs.get(resource) is not new.configs.get(resource):
                    yield Change(_config_key(resource), _copied(new.configs.get(resource)), version)
        if old.client_quotas is not new.client_quotas:
            for entity in {**old.client_quotas, **new.client_quotas}:
                values = new.client_quotas.get(entity)
                if old.client_quotas.get(entity) is not values:
                    named = sorted(entity)
                    value = {"entity": named, "quotas": dict(values)} if values else None
                    yield Change("client_quotas/" + json.dumps(named), value, version)

        yield from _security(old, new)
        yield from _tokens(old, new)

    def _topics(self, old: MetadataImage, new: MetadataImage) -> Iterator[Change]:
        for name in old.topic_ids:
            if name not in new.topic_ids:
                yield Change(f"topics/{name}", None, new.offset)
        for name, topic_id in new.topic_ids.items():
            topic, configs = new.topics[topic_id], new.configs.get((ConfigResourceType.TOPIC, name))
            before = old.topics.get(topic_id)
            if (
                before is None
                or before.partition_count != topic.partition_count
                or old.configs.get((ConfigResourceType.TOPIC, name)) is not configs
            ):
                yield Change(f"topics/{name}", _topic_value(topic, configs), new.offset)

    def write(
        self,
        operations: Iterable[Operation],
        expected_versions: Mapping[str, int] | None = None,
        *,
        makes_room: bool = False,
    ) -> Changes:
        """See MetadataStore: raises IllegalStateError."""
        raise IllegalStateError("metadata of a cluster are changed by its controller only; this broker cannot")

    def publish(self, changes: Changes) -> None:
        """See MetadataStore: `publish_image` does it here."""
        raise IllegalStateError("metadata of a cluster are published as images")

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """See MetadataStore."""
        return self._subscribers.add(listener)

    def close(self) -> None:
        """Nothing is held."""


def _security(old: MetadataImage, new: MetadataImage) -> Iterator[Change]:
    if old.acls is not new.acls:
        for id in {**old.acls, **new.acls}:
            acl = new.acls.get(id)
            if old.acls.get(id) is not acl:
                yield Change(f"acls/{id.hex()}", None if acl is None else _acl_value(acl), new.offset)
    if old.scram_credentials is not new.scram_credentials:
        for key in {**old.scram_credentials, **new.scram_credentials}:
            found = new.scram_credentials.get(key)
            if key[1] in SCRAM_MECHANISMS and old.scram_credentials.get(key) is not found:
                name = f"scram/{SCRAM_MECHANISMS[key[1]]}/{key[0]}"
                yield Change(name, None if found is None else _scram_value(found), new.offset)


def _tokens(old: MetadataImage, new: MetadataImage) -> Iterator[Change]:
    if old.delegation_tokens is not new.delegation_tokens:
        for id in {**old.delegation_tokens, **new.delegation_tokens}:
            token = new.delegation_tokens.get(id)
            if old.delegation_tokens.get(id) is not token:
                yield Change(f"delegation_tokens/{id}", None if token is None else _token_value(token), new.offset)


def _acl_value(acl: AccessControlEntryRecord) -> Value:
    return {
        "resource_type": acl.resource_type,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission": acl.permission_type,
    }


def _scram_value(found: UserScramCredentialRecord) -> Value:
    secrets = {"salt": found.salt, "stored_key": found.stored_key, "server_key": found.server_key}
    encoded = {name: b64encode(value).decode() for name, value in secrets.items()}
    return {**encoded, "iterations": found.iterations}


def _token_value(token: DelegationTokenRecord) -> Value:
    return {
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issue_ms": token.issue_timestamp,
        "max_ms": token.max_timestamp,
        "expiry_ms": token.expiration_timestamp,
    }


def _topic_value(topic: TopicImage, configs: Mapping[str, str] | None) -> Value:
    count = topic.partition_count
    return {"id": topic.id.hex(), "partitions": count, "configs": _copied(configs) or {}, "created_ms": 0}


def _copied(configs: Mapping[str, str] | None) -> dict[str, Any] | None:
    return None if configs is None else dict(configs)


def _config_key(resource: Resource) -> str:
    return f"configs/{_KINDS[resource[0]]}/{resource[1]}"


def _features(image: MetadataImage) -> Value:
    # A level that no record names is 0 in a cluster, not the default of a new one.
    return {name: image.features.get(name, 0) for name in FEATURES}
