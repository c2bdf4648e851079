"""Small realistic faults in what makes several brokers a cluster: the simulated cluster has to find every one of them.

They are planted as those of `barnabas.testing.simulator.planted_faults` are.
"""

from __future__ import annotations

from barnabas.testing.simulator.planted_faults import Mutation

MUTATIONS = [
    # Roles.
    Mutation(
        "a broker leads on in the epoch of its last life",
        "barnabas.broker.membership.kraft_control",
        "registered is not None and registered.epoch >= self.broker_epoch > NO_EPOCH",
        "registered is not None",
    ),
    Mutation(
        "the controller does not hear of the disk that took the place of another",
        "barnabas.broker.membership.directory_assignments",
        "        elif known != directory and not (self._has_one and known == MIGRATING_DIRECTORY):\n",
        "        elif known != directory and not self._has_one:\n",
    ),
    # What is committed.
    Mutation(
        "a producer is answered before the followers have its records",
        "barnabas.broker.partition",
        "        return offset < self.log.high_watermark\n",
        "        return offset < self.log.log_end_offset\n",
    ),
    Mutation(
        "the high watermark does not wait for the ISR",
        "barnabas.broker.replication.in_sync_replicas",
        "            if replica.log_end_offset < found and (\n",
        "            if replica.log_end_offset < min(found, 0) and (\n",
    ),
    Mutation(
        "consumers read past the high watermark",
        "barnabas.broker.log.unified_log",
        "self.log_end_offset if isolation == LOG_END else self.high_watermark",
        "self.log_end_offset",
    ),
    Mutation(
        "a new leader does not flush what it had not",
        "barnabas.broker.partition",
        "        self._flush_on(now_ms)\n        self._wake_all()\n",
        "        self._wake_all()\n",
    ),
    # Who is in sync.
    Mutation(
        "a follower joins the ISR before it has what is committed",
        "barnabas.broker.replication.in_sync_replicas",
        "            or replica.log_end_offset < max(high_watermark, self.epoch_start_offset)\n",
        "",
    ),
    Mutation(
        "followers that lag stay in the ISR",
        "barnabas.broker.replication.in_sync_replicas",
        "        if not late:\n",
        "        if late is not None:\n",
    ),
    # Elections.
    Mutation(
        "any replica may lead",
        "barnabas.broker.controller.partition_change_builder",
        "        is_in_sync = replica in self.isr or (not self.isr and replica in self._elr)\n",
        "        is_in_sync = replica in self._partition.replicas\n",
    ),
    Mutation(
        "whose end was not clean stays eligible",
        "barnabas.broker.controller.partition_change_builder",
        "set(self.isr) - set(self.unclean_shutdown))",
        "set(self.isr))",
    ),
    # Truncation.
    Mutation(
        "a follower keeps what its leader does not have",
        "barnabas.broker.replication.replica_fetcher",
        "                    cuts[name] = self._truncation_offset(name, diverging.epoch, diverging.end_offset)\n",
        "                    cuts[name] = self._logs.log_end_offset(name)\n",
    ),
    Mutation(
        "a follower cuts its log to the high watermark",
        "barnabas.broker.replication.replica_fetcher",
        "                    cuts[name] = self._truncation_offset(name, diverging.epoch, diverging.end_offset)\n",
        "                    cuts[name] = self._logs.high_watermark(name)\n",
    ),
    Mutation(
        "a follower does not remember the producers",
        "barnabas.broker.log.unified_log",
        "            self._write(piece, None, now_ms)\n            self._update_producers(producers, completed)\n",
        "            self._write(piece, None, now_ms)\n            self._update_producers({}, completed)\n",
    ),
    # Transactions over several brokers.
    Mutation(
        "a marker that another broker did not answer counts as written",
        "barnabas.broker.membership.transaction_marker_channels",
        '        return errors.DisconnectError("the broker that leads the partition did not answer")\n',
        "        return None\n",
    ),
    Mutation(
        "a marker for a partition without a leader counts as written",
        "barnabas.broker.membership.transaction_marker_channels",
        '            answer(errors.LeaderNotAvailableError("The partition has no leader at the moment."))\n',
        "            answer(None)\n",
    ),
    Mutation(
        "coordinators answer before their records are committed",
        "barnabas.broker.coordinator.committed_answers",
        "            if not broker.replica_manager.awaits_commits:\n",
        "            if broker.replica_manager is not None:\n",
    ),
    Mutation(
        "a broker whose partition got another leader stays its coordinator",
        "barnabas.broker.membership.coordinator_elections",
        "                    make().on_resigned(index, epoch)\n",
        "                    make()\n",
    ),
]
#: What CI looks for beside what it looks for in one broker; the nightly run looks for all of them.
SHORT = ("a broker leads on in the epoch of its last life",)
