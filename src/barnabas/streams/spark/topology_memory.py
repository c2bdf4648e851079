"""What an application remembers of its topology between runs: a record of the decision log, under the application's id.

It is written before the first batch of another topology: from then on that one may have changed the state.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable

from barnabas.client.admin.admin_client import AdminClient
from barnabas.client.admin.partition_offsets import OffsetSpec
from barnabas.client.producer.producer import Producer
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.exactly_once.decision import DecisionError
from barnabas.spark.exactly_once.decision_log import DecisionReader, ensure_topic, log_end, settings_of
from barnabas.spark.exactly_once.driver_steps import SinkPlace
from barnabas.spark.offsets import Offsets
from barnabas.streams.config import StreamsConfig
from barnabas.streams.spark.internal_topics import partition_counts
from barnabas.streams.spark.topology_changes import ACCEPTED, Change, Remains, TopologyChangedError, compared, refused
from barnabas.streams.spark.topology_shape import TopologyShape

LOGGER = logging.getLogger("barnabas.streams")

_PLAIN = {"transaction.two.phase.commit.enable": "false", "linger.ms": "0", "compression.type": "gzip"}


def remembered(place: SinkPlace, application: str) -> TopologyShape | None:
    """Return the topology that an application had last; None when nothing is known of one."""
    client = dict(place.client)
    try:
        reader = DecisionReader(client, place.topic, create=False)
    except DecisionError:
        return None
    with contextlib.closing(reader), AdminClient(settings_of("admin", client)) as admin:
        data = reader.value(_key(application), past=log_end(admin, place.topic))
    return None if data is None else TopologyShape.decode(data)


def remember(place: SinkPlace, application: str, shape: TopologyShape) -> None:
    """Have an application remember a topology from now on."""
    with AdminClient(settings_of("admin", dict(place.client))) as admin:
        ensure_topic(admin, place.topic)
    _write(place, application, shape.encode())


def forget(place: SinkPlace, application: str) -> None:
    """Have an application know of no topology."""
    if remembered(place, application) is not None:
        _write(place, application, None)


def _write(place: SinkPlace, application: str, value: bytes | None) -> None:
    with Producer[bytes, bytes]({**dict(place.client), **_PLAIN}) as producer:
        producer.send(place.topic, key=_key(application), value=value, partition=0).result()


def _key(application: str) -> bytes:
    # Queries have UUIDs.
    return f"topology of {application}".encode()


def checked(
    admin: AdminClient, place: SinkPlace, config: StreamsConfig, shape: TopologyShape, stands: Callable[[], Offsets]
) -> TopologyShape | None:
    """Return the topology that an application had last, once its changes are found to be safe or accepted.

    Logs what has changed. Raises TopologyChangedError for what would lose state.
    """
    application = config.application_id
    before = remembered(place, application)
    if before is None or before == shape:
        return before
    changes = changes_on(admin, before, shape, stands)
    for change in changes:
        LOGGER.info("%s: the topology has changed: %s %s", application, change.name, change.what)
    if wrong := refused(changes, _names(config.values[ACCEPTED])):
        raise TopologyChangedError(application, wrong)
    return before


def _names(given: str | Iterable[str] | None) -> list[str]:
    return [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given or ())


def changes_on(
    admin: AdminClient, before: TopologyShape, after: TopologyShape, stands: Callable[[], Offsets]
) -> list[Change]:
    """Return what has changed, by what is on the cluster; `stands` tells up to where topics are read."""
    return compared(before, after, Remains(_waiting(admin, before, after, stands), _logged(admin, before, after)))


def _waiting(
    admin: AdminClient, before: TopologyShape, after: TopologyShape, stands: Callable[[], Offsets]
) -> dict[str, int]:
    changed = {topic for topic, serdes in before.repartition.items() if after.repartition.get(topic) != serdes}
    partitions = _partitions(admin, changed)
    if not partitions:
        return {}
    begins, ends = (_listed(admin, partitions, which) for which in (OffsetSpec.EARLIEST, OffsetSpec.LATEST))
    read = stands()
    found = dict.fromkeys(changed, 0)
    for each in partitions:
        found[each.topic] += max(0, ends[each] - max(begins[each], read.get(each, 0)))
    return found


def _logged(admin: AdminClient, before: TopologyShape, after: TopologyShape) -> dict[str, int]:
    changelogs = {store.changelog for each in (before, after) for store in each.stores.values() if store.changelog}
    partitions = _partitions(admin, changelogs - {*after.sources, *before.sources})
    begins, ends = (_listed(admin, partitions, which) for which in (OffsetSpec.EARLIEST, OffsetSpec.LATEST))
    found: dict[str, int] = {}
    for each in partitions:
        found[each.topic] = found.get(each.topic, 0) + ends[each] - begins[each]
    return found


def _partitions(admin: AdminClient, topics: Iterable[str]) -> list[TopicPartition]:
    return [
        TopicPartition(topic, number)
        for topic, count in partition_counts(admin, topics).items()
        for number in range(count)
    ]


def _listed(admin: AdminClient, partitions: list[TopicPartition], which: OffsetSpec) -> Offsets:
    if not partitions:
        return {}
    found = admin.list_offsets(dict.fromkeys(partitions, int(which)), isolation_level="read_committed")
    return {each: found[each].offset for each in partitions}
