"""Kafka's znodes: where they are and what stands in them (ZkData of Apache Kafka 3.9)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote_plus

from barnabas.broker.config import SECURITY_PROTOCOLS
from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.errors import KafkaError
from barnabas.protocol.kafka_uuid import from_text, to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

BROKER_IDS, TOPICS, SEQUENCE_ID = "/brokers/ids", "/brokers/topics", "/brokers/seqid"
CLUSTER_ID = "/cluster/id"
CONFIG, CONFIG_CHANGES = "/config", "/config/changes"
CONFIG_TYPES = ("topics", "clients", "users", "brokers", "ips")
DELETE_TOPICS = "/admin/delete_topics"
DEFAULT_ENTITY = "<default>"
#: What has to be there before a broker registers; parents come first.
PERSISTENT = (
    "/consumers",
    "/brokers",
    BROKER_IDS,
    TOPICS,
    CONFIG,
    CONFIG_CHANGES,
    "/admin",
    DELETE_TOPICS,
    SEQUENCE_ID,
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    *(f"{CONFIG}/{kind}" for kind in CONFIG_TYPES),
)
_REGISTRATION_VERSION, _TOPIC_VERSION, _STATE_VERSION, _CONFIG_VERSION = 5, 3, 1, 1


class MalformedZnodeError(KafkaError):
    """A znode of Kafka's holds what no version of Kafka writes there."""


class TopicZnode(NamedTuple):
    """A topic's assignment; `adding` and `removing` have only partitions that are reassigned."""

    topic_id: bytes | None
    replicas: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]] = {}
    removing: Mapping[int, tuple[int, ...]] = {}


class PartitionState(NamedTuple):
    """Who leads a partition, in which epoch, and who is in sync; the znode's version is the partition epoch."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0


def encode(value: object) -> bytes:
    """Return JSON as Kafka writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode(path: str, data: bytes | None) -> dict[str, Any]:
    """Return the object that a znode holds. Raises `MalformedZnodeError`."""
    try:
        found = json.loads(data or b"")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise MalformedZnodeError(f"the znode {path} holds {data!r}, which is no JSON object: restore what Kafka wrote")
    return found


# -- brokers ---------------------------------------------------------------------------------------------------------


def encode_broker(listeners: Mapping[str, Endpoint], rack: str | None, now_ms: int) -> bytes:
    """Return a broker's registration; old clients read the address of its first PLAINTEXT listener."""
    plain = next((found for found in listeners.values() if found.security_protocol == 0), Endpoint("", -1))
    value: dict[str, object] = {
        "features": {},
        "listener_security_protocol_map": {
            name: SECURITY_PROTOCOLS[found.security_protocol] for name, found in listeners.items()
        },
        "endpoints": [f"{name}://{_bracketed(found.host)}:{found.port}" for name, found in listeners.items()],
        "rack": rack,
        "jmx_port": -1,
        "port": plain.port,
        "host": plain.host or None,
        "version": _REGISTRATION_VERSION,
        "timestamp": str(now_ms),
    }
    if rack is None:
        del value["rack"]
    return encode(value)


def decode_broker(path: str, data: bytes | None) -> tuple[dict[str, Endpoint], str | None]:
    """Return where the listeners of a broker are reached, and its rack. Raises `MalformedZnodeError`."""
    value = decode(path, data)
    try:
        protocols = value.get("listener_security_protocol_map") or {}
        listeners = {}
        for endpoint in value["endpoints"]:
            name, _, address = endpoint.partition("://")
            host, _, port = address.rpartition(":")
            protocol = SECURITY_PROTOCOLS.index(protocols.get(name, name))
            listeners[name] = Endpoint(host.strip("[]"), int(port), protocol)
        return listeners, value.get("rack")
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise MalformedZnodeError(f"the znode {path} is no registration of a broker: {data!r}") from problem


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# -- topics ----------------------------------------------------------------------------------------------------------


def encode_topic(topic: TopicZnode) -> bytes:
    """Return a topic's assignment."""
    value: dict[str, object] = {"partitions": _listed(topic.replicas)}
    if topic.topic_id is not None:
        value["topic_id"] = to_text(topic.topic_id)
    value["adding_replicas"], value["removing_replicas"] = _listed(topic.adding), _listed(topic.removing)
    return encode({**value, "version": _TOPIC_VERSION})


def _listed(replicas: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {str(index): list(members) for index, members in replicas.items()}


def decode_topic(path: str, data: bytes | None) -> TopicZnode:
    """Return a topic's assignment. Raises `MalformedZnodeError`."""
    value = decode(path, data)
    try:
        topic_id = value.get("topic_id")
        return TopicZnode(
            None if topic_id is None else from_text(topic_id),
            _numbered(value["partitions"]),
            _numbered(value.get("adding_replicas") or {}),
            _numbered(value.get("removing_replicas") or {}),
        )
    except (KeyError, ValueError, TypeError, AttributeError, KafkaError) as problem:
        raise MalformedZnodeError(f"the znode {path} is no assignment of a topic: {data!r}") from problem


def _numbered(value: Mapping[str, list[int]]) -> dict[int, tuple[int, ...]]:
    return {int(index): tuple(map(int, members)) for index, members in value.items()}


def encode_state(state: PartitionState) -> bytes:
    """Return a partition's state."""
    value: dict[str, object] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": _STATE_VERSION,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    if state.leader_recovery_state:
        value["leader_recovery_state"] = state.leader_recovery_state
    return encode(value)


def decode_state(path: str, data: bytes | None) -> PartitionState:
    """Return a partition's state. Raises `MalformedZnodeError`."""
    value = decode(path, data)
    try:
        return PartitionState(
            int(value["leader"]),
            int(value["leader_epoch"]),
            tuple(map(int, value["isr"])),
            int(value["controller_epoch"]),
            int(value.get("leader_recovery_state", 0)),
        )
    except (KeyError, ValueError, TypeError) as problem:
        raise MalformedZnodeError(f"the znode {path} is no state of a partition: {data!r}") from problem


def topic_path(topic: str) -> str:
    """Return where a topic's assignment is."""
    return f"{TOPICS}/{topic}"


def state_path(topic: str, partition: int) -> str:
    """Return where a partition's state is."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


# -- settings --------------------------------------------------------------------------------------------------------


def encode_config(values: Mapping[str, str]) -> bytes:
    """Return the settings of an entity."""
    return encode({"version": _CONFIG_VERSION, "config": dict(values)})


def decode_config(path: str, data: bytes | None) -> dict[str, str]:
    """Return the settings of an entity; none where the znode is empty. Raises `MalformedZnodeError`."""
    if not data:
        return {}
    config = decode(path, data).get("config")
    return {str(name): str(value) for name, value in config.items()} if isinstance(config, dict) else {}


def encode_config_change(entity: str) -> bytes:
    """Return what announces a change of an entity's settings, such as `topics/flights`."""
    return encode({"version": 2, "entity_path": entity})


def decode_config_change(path: str, data: bytes | None) -> str:
    """Return the entity whose settings have changed. Raises `MalformedZnodeError`."""
    value = decode(path, data)
    if value.get("version") == 1 and "entity_type" in value and "entity_name" in value:
        return f"{value['entity_type']}/{value['entity_name']}"
    if not isinstance(value.get("entity_path"), str):
        raise MalformedZnodeError(f"the znode {path} announces no change of settings: {data!r}")
    return str(value["entity_path"])


def refuse(problem: MalformedZnodeError) -> None:
    """Raise what is wrong with a znode, where nothing can go on without it."""
    raise problem


def sanitized(name: str | None) -> str:
    """Return the name of a user or client as it stands in a path (Kafka's Sanitizer); None is the default entity."""
    return DEFAULT_ENTITY if name is None else quote(name, safe="-._").replace("~", "%7E")


def desanitized(part: str) -> str | None:
    """Return the name that a part of a path stands for; None for the default entity."""
    return None if part == DEFAULT_ENTITY else unquote_plus(part)


# -- the cluster -----------------------------------------------------------------------------------------------------


def encode_cluster_id(cluster_id: str) -> bytes:
    """Return what `/cluster/id` holds."""
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    """Return the cluster's id. Raises `MalformedZnodeError`."""
    found = decode(CLUSTER_ID, data).get("id")
    if not isinstance(found, str):
        raise MalformedZnodeError(f"the znode {CLUSTER_ID} holds no id of a cluster: {data!r}")
    return found
