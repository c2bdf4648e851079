"""Small realistic faults: the simulator has to find every one of them.

Each replaces one piece of source by another while its module is imported. A piece that is not there exactly once is an
error: a change of that code says here what the fault looks like now.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """A fault: in `module` `old` becomes `new`.

    What coincides with it by these kinds of `faults`, or in these `workloads`, shows it soonest.
    """

    name: str
    module: str
    old: str
    new: str
    faults: str = ""
    workloads: str = ""


MUTATIONS = [
    # The log.
    Mutation(
        "sequence numbers are not checked",
        "barnabas.broker.log.producer_append_info",
        "NO_PRODUCER_EPOCH and not in_sequence:",
        "NO_PRODUCER_EPOCH and not in_sequence and first_sequence < 0:",
    ),
    Mutation(
        "repeated batches are not recognised",
        "barnabas.broker.log.producer_checks",
        "if repeated is not None:",
        "if repeated is not None and repeated.offset_delta < 0:",
    ),
    Mutation(
        "recovery keeps a torn batch",
        "barnabas.broker.log.log_loader",
        "        segment.truncate_bytes(position)\n",
        "        self._producers.map_end_offset = next_offset\n",
    ),
    Mutation(
        "recovery forgets the producers",
        "barnabas.broker.log.log_loader",
        "        aborted = self._producers.replay(chunk, header)\n",
        "        aborted = None\n        self._producers.map_end_offset = header.next_offset\n",
    ),
    Mutation(
        "the high watermark is one too far",
        "barnabas.broker.log.unified_log",
        "self.high_watermark = offset\n",
        "self.high_watermark = offset + 1\n",
    ),
    Mutation(
        "a flush does not reach the disk",
        "barnabas.broker.log.local_log",
        " for file in segment.begin_flush()]",
        " for file in segment.begin_flush() if up_to < 0]",
    ),
    Mutation(
        "a crash passes for a clean shutdown",
        "barnabas.broker.log.log_directory",
        "self.had_clean_shutdown = self._filesystem.exists(marker)",
        "self.had_clean_shutdown = True",
    ),
    # Transactions.
    Mutation(
        "the successor's epoch is not raised",
        "barnabas.broker.transactions.init_producer_id",
        "metadata.initialized(metadata.producer_id, epoch + 1, NO_PRODUCER_EPOCH,",
        "metadata.initialized(metadata.producer_id, max(epoch, 0), NO_PRODUCER_EPOCH,",
    ),
    Mutation(
        "aborted transactions are not indexed",
        "barnabas.broker.log.unified_log",
        "            if aborted is not None:",
        "            if aborted is not None and aborted.producer_id < 0:",
    ),
    Mutation(
        "readers of committed records read open transactions",
        "barnabas.broker.log.unified_log",
        "            return self.last_stable_offset\n",
        "            return self.high_watermark\n",
    ),
    Mutation(
        "a marker that could not be written is lost",
        "barnabas.broker.transactions.transaction_marker_sender",
        "remaining = metadata.without(frozenset(decided.answered))",
        "remaining = metadata.without(frozenset(metadata.partitions))",
    ),
    Mutation(
        "offsets of an aborted transaction are committed",
        "barnabas.broker.groups.offsets.offset_store",
        "            if committed:\n",
        "            if committed or topics:\n",
    ),
    # Groups.
    Mutation(
        "commits are forgotten by a restart",
        "barnabas.broker.groups.group_replay",
        "            offsets.put(key.group, key.topic, key.partition, offset)\n",
        "            offsets.get(key.group, key.topic, key.partition)\n",
    ),
    Mutation(
        "the generation is ignored",
        "barnabas.broker.groups.classic_group",
        "if generation_id != self.generation_id:",
        "if generation_id > self.generation_id:",
    ),
    Mutation(
        "partitions are given away before their owner lets go",
        "barnabas.broker.groups.consumer.current_assignment",
        "if group.is_free(topic_id, index, member.member_id)]",
        "if index >= 0]",
    ),
    # The short way into a log.
    Mutation(
        "sequence numbers are not checked in the short way",
        "barnabas.broker.log.plain_append",
        "        and sequence == producer.batches[-1].last_sequence + 1\n",
        "",
    ),
    Mutation(
        "the short way does not remember the producer's batch",
        "barnabas.broker.log.plain_append",
        "        producer.add_batch(epoch, BatchMetadata(sequence + delta, last_offset, delta, max_timestamp))\n",
        "        pass\n",
    ),
    Mutation(
        "a failed write is acknowledged in the short way",
        "barnabas.broker.log.plain_append",
        "        log.undo_append(segment, error)\n        return False\n",
        "        log.undo_append(segment, error)\n",
    ),
    Mutation(
        "the short way goes into an open transaction",
        "barnabas.broker.log.plain_append",
        "    if (\n        base_offset\n        or attributes\n",
        "    if (\n        base_offset\n        or attributes & ~0x10\n",
    ),
    # The disk.
    Mutation(
        "the recovery point is one record too far",
        "barnabas.broker.log.local_log",
        "self.recovery_point = max(self.recovery_point, min(up_to, self.log_end_offset, self._most_flushed))",
        "self.recovery_point = self.log_end_offset + 1",
    ),
    Mutation(
        "a producer is answered before the flush that it asked for",
        "barnabas.broker.partition",
        "return offset < self.log.high_watermark",
        "return True",
    ),
    Mutation(
        "directories are not synced",
        "barnabas.broker.log.local_log",
        "        if up_to > self.recovery_point and self.segments.active.base_offset >= self.recovery_point:\n",
        "        if up_to < 0:\n",
    ),
    Mutation(
        "aborted transactions are looked for in one segment only",
        "barnabas.broker.log.local_log",
        "            if complete:\n                break\n",
        "            break\n",
    ),
    Mutation(
        "a repeated batch behind the last one is not looked up after a restart",
        "barnabas.broker.log.producer_append_info",
        "            self.lacks_batches\n            and",
        "            self.lacks_batches\n            and first_sequence < 0\n            and",
    ),
    # Transactions.
    Mutation(
        "batches of a transaction are not verified",
        "barnabas.broker.handlers.produce",
        "if request.transactional_id is not None else {}",
        "if request.transactional_id == '' else {}",
    ),
    Mutation(
        "the generation of offsets in a transaction is not checked",
        "barnabas.broker.groups.offsets.transactional_offsets",
        "        group.validate_generation(generation_id)\n",
        "        pass\n",
    ),
    Mutation(
        "transactions never time out",
        "barnabas.broker.transactions.transaction_metadata",
        "self.start_ms + self.timeout_ms < now_ms",
        "self.start_ms + self.timeout_ms < 0",
    ),
    Mutation(
        "a transaction is complete though a marker failed",
        "barnabas.broker.transactions.transaction_marker_sender",
        "        if not remaining.partitions:\n",
        "        if decided.problem is not None or not remaining.partitions:\n",
    ),
    Mutation(
        "producer ids are given twice after a restart",
        "barnabas.broker.metadata.cluster_metadata",
        'self._values.get(_PRODUCER_IDS, {}).get("next", 0)',
        "len(self._values.get(_PRODUCER_IDS, {})) * 0",
    ),
    # Groups.
    Mutation(
        "a commit is acknowledged without a write",
        "barnabas.broker.groups.offsets.offset_manager",
        "        draft.afterwards(partial(self._store.ensure_group, group_id, at.now_ms))\n"
        "        self._store.commit(group_id, draft, at)\n",
        "        for topic, partition, offset in commits:\n"
        "            self._offsets.put_written(group_id, topic, partition, offset, 0)\n",
    ),
    Mutation(
        "classic sessions never expire",
        "barnabas.broker.groups.classic.sessions",
        "(member is not None and not member.session_goes_on):",
        "(member is not None and member.session_timeout_ms < 0):",
    ),
    Mutation(
        "sessions of the consumer protocol never expire",
        "barnabas.broker.groups.consumer.heartbeat",
        '        self.expire_later(("member session", group_id, member.member_id), timeout_ms, at)\n',
        "        assert timeout_ms\n",
    ),
    Mutation(
        "who does not give up its partitions is not put out",
        "barnabas.broker.groups.consumer.heartbeat",
        "        if member.state != UNREVOKED_PARTITIONS:\n",
        "        if member.state != UNREVOKED_PARTITIONS or key:\n",
    ),
    Mutation(
        "commits from an earlier epoch are not held against the assignment",
        "barnabas.broker.groups.consumer_group",
        "        return epoch < member.member_epoch\n",
        "        return epoch < 0\n",
    ),
    Mutation(
        "an earlier epoch of a member is taken for its own",
        "barnabas.broker.groups.consumer.heartbeat_validation",
        "    if epoch in (JOIN_EPOCH, member.member_epoch):\n",
        "    if JOIN_EPOCH <= epoch <= member.member_epoch:\n",
    ),
    # What does not keep all that is written.
    Mutation(
        "retention takes one segment too many",
        "barnabas.broker.log.log_retention",
        "        excess -= segment.size\n        return excess >= 0\n",
        "        excess -= segment.size\n        return excess >= -segment.size\n",
    ),
    Mutation(
        "retention by size takes nothing",
        "barnabas.broker.log.log_retention",
        "        if log.config.retention_bytes >= 0:\n",
        "        if log.config.retention_bytes > 1 << 40:\n",
    ),
    Mutation(
        "deleted records come back with a clean restart",
        "barnabas.broker.log.log_directory",
        "recovery_points.get(name), starts.get(name)\n",
        "recovery_points.get(name), None\n",
    ),
    Mutation(
        "compaction drops tombstones as soon as it meets them",
        "barnabas.broker.log.record_filter",
        "        keep_tombstones = horizon is None or self._now_ms < horizon\n",
        "        keep_tombstones = False\n",
    ),
    Mutation(
        "a quota throttles no client",
        "barnabas.broker.client_quota_manager",
        "        return (rate - limit) / limit * elapsed if rate > limit else 0.0\n",
        "        return 0.0\n",
    ),
    # Fetch sessions.
    Mutation(
        "a fetch session keeps its old offsets",
        "barnabas.broker.handlers.fetch",
        "            target.offset = asked.fetch_offset\n",
        "            target.offset = target.offset or asked.fetch_offset\n",
    ),
    # Share groups.
    Mutation(
        "what a queue's member accepts comes again",
        "barnabas.broker.share.share_partition",
        "    AcknowledgementKind.ACCEPT: RecordState.ACKNOWLEDGED,\n",
        "    AcknowledgementKind.ACCEPT: RecordState.AVAILABLE,\n",
    ),
    Mutation(
        "what a queue's member rejects comes again",
        "barnabas.broker.share.share_partition",
        "    AcknowledgementKind.REJECT: RecordState.ARCHIVED,\n",
        "    AcknowledgementKind.REJECT: RecordState.AVAILABLE,\n",
    ),
    Mutation(
        "what a queue's member releases is gone",
        "barnabas.broker.share.share_partition",
        "    AcknowledgementKind.RELEASE: RecordState.AVAILABLE,\n",
        "    AcknowledgementKind.RELEASE: RecordState.ARCHIVED,\n",
    ),
    Mutation(
        "deliveries of a queue are not counted",
        "barnabas.broker.share.share_partition",
        "                    self._change(low, high, delivery_count + 1, begins=begins)\n",
        "                    self._change(low, high, max(delivery_count, 1), begins=begins)\n",
    ),
    Mutation(
        "a queue takes what is said of another's record",
        "barnabas.broker.share.share_partition",
        "            if batch.member_id != member_id:\n",
        "            if not batch.member_id:\n",
    ),
    Mutation(
        "a snapshot of a queue forgets its records",
        "barnabas.broker.share.coordinator.share_coordinator",
        "            after = after.snapshot(at.now_ms)._replace(create_timestamp_ms=at.now_ms)\n",
        "            after = after.snapshot(at.now_ms)._replace(create_timestamp_ms=at.now_ms, state_batches=())\n",
    ),
    Mutation(
        "a queue's start is stored too far on",
        "barnabas.broker.share.share_partition",
        "self.leader_epoch, self.records.start, self.complete_count, _combined(batches)\n",
        "self.leader_epoch, self.records.end, self.complete_count, _combined(batches)\n",
    ),
    Mutation(
        "updates of a queue's state are lost when it is loaded",
        "barnabas.broker.share.coordinator.share_group_offset",
        "            state_batches=merge_state_batches(self.state_batches, update.state_batches, start),\n",
        "            state_batches=merge_state_batches(self.state_batches, (), start),\n",
    ),
    Mutation(
        "a share consumer accepts what it gives back",
        "barnabas.client.consumer.share.share_consume_request_manager",
        "            runs = [Run(first, last, RELEASE) for first, last in fetch.acquired]\n",
        "            runs = [Run(first, last, 1 + 0 * RELEASE) for first, last in fetch.acquired]\n",
    ),
    Mutation(
        "a share consumer accepts what it was not told of",
        "barnabas.client.consumer.share.share_fetch",
        "said = [Run(offset, offset, type_id) for offset, type_id in sorted(self._explicit.items())]\n",
        "said = [Run(offset, offset, 1 + 0 * type_id) for offset, type_id in sorted(self._explicit.items())]\n",
    ),
    # Streams groups.
    Mutation(
        "a streams task is given before its owner lets go",
        "barnabas.broker.groups.streams.current_assignment",
        "        if process_id in processes or (processes and role == other == _ACTIVE):\n",
        "        if process_id in processes or (processes and role == other == _ACTIVE and number < 0):\n",
    ),
    Mutation(
        "who vanished from a streams group keeps its tasks",
        "barnabas.broker.groups.streams.heartbeat",
        "        self._timers.schedule(key, deadline, partial(self._expire, key, None))\n",
        "        assert key and deadline\n",
    ),
    Mutation(
        "an older topology takes the place of a streams group's",
        "barnabas.broker.groups.streams.heartbeat",
        "            if known is None:\n                check_countable",
        "            if known is None or topology.epoch < known.epoch:\n                check_countable",
    ),
    Mutation(
        "a restart forgets what a streams group's members have",
        "barnabas.broker.groups.streams_group_records",
        "                _epochs(value.active_tasks, epoch), _numbers",
        "                _epochs(value.active_tasks[:0], epoch), _numbers",
    ),
    Mutation(
        "internal topics of streams groups are not made",
        "barnabas.broker.handlers.streams_group_heartbeat",
        "    if missing:\n",
        "    if missing and not API:\n",
    ),
    Mutation(
        "a member of a streams group with an older topology is not told",
        "barnabas.broker.groups.streams.heartbeat",
        "        if known is not None and member.topology_epoch < known.epoch:\n",
        "        if known is not None and member.topology_epoch < 0:\n",
    ),
    # The client.
    Mutation(
        "a batch that is sent again gets another number",
        "barnabas.client.producer.batch_drainer",
        "                if not first.has_sequence:\n",
        "                if not first.is_open:\n",
    ),
    Mutation(
        "a consumer commits one record too many",
        "barnabas.client.consumer.subscription_state",
        "partition: OffsetAndMetadata(state.position.offset, ",
        "partition: OffsetAndMetadata(state.position.offset + 1, ",
    ),
    Mutation(
        "a consumer hands out data from before a seek",
        "barnabas.client.consumer.fetching.fetch_collector",
        "        if fetch.seek_id != self._subscriptions.seek_id(fetch.partition):\n            return True\n",
        "        if fetch.seek_id >= 0:\n            return False\n",
    ),
]

#: The ones that are looked for in every CI run, for they are found soon.
SHORT = (
    "repeated batches are not recognised",
    "aborted transactions are not indexed",
    "recovery forgets the producers",
    "commits from an earlier epoch are not held against the assignment",
    "partitions are given away before their owner lets go",
    "readers of committed records read open transactions",
)
