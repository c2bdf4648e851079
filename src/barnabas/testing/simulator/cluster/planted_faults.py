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
        "lost disk",
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
        "leader dies as another joins,kill broker",
    ),
    Mutation(
        "followers that lag stay in the ISR",
        "barnabas.broker.replication.in_sync_replicas",
        "        if not late:\n",
        "        if late is not None:\n",
        "all in sync die,cut nodes",
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
        "disk and power",
    ),
    # Truncation.
    Mutation(
        "a follower keeps what its leader does not have",
        "barnabas.broker.replication.replica_fetcher",
        "                    cuts[name] = self._truncation_offset(name, diverging.epoch, diverging.end_offset)\n",
        "                    cuts[name] = self._logs.log_end_offset(name)\n",
        "isolate,all in sync die",
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
        "dies at a request",
    ),
    Mutation(
        "a marker for a partition without a leader counts as written",
        "barnabas.broker.membership.transaction_marker_channels",
        '            answer(errors.LeaderNotAvailableError("The partition has no leader at the moment."))\n',
        "            answer(None)\n",
        "kill broker",
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
    Mutation(
        "leaders do not ask whether a batch belongs to a transaction",
        "barnabas.broker.handlers.produce",
        "if request.transactional_id is not None else {}",
        "if request.transactional_id == '' else {}",
    ),
    # What clients may do.
    Mutation(
        "brokers go by the quotas that stood when they were started",
        "barnabas.broker.metadata.image_store",
        "        if old.client_quotas is not new.client_quotas:\n",
        "        if old.client_quotas is not new.client_quotas and not old.topics:\n",
        workloads="MeteredTopic",
    ),
    # Reassignments, and several directories.
    Mutation(
        "a replica that is moved away keeps its log",
        "barnabas.broker.replica_manager",
        "        self.assigned_logs.forget(name)\n        self._logs.delete_log(name)\n",
        "        self.assigned_logs.forget(name)\n",
    ),
    Mutation(
        "a log takes its new place in another directory before it is whole",
        "barnabas.broker.log.future_log",
        "            if self.log.log_end_offset != current.log_end_offset:\n",
        "            if self.log.log_end_offset > current.log_end_offset:\n",
    ),
    Mutation(
        "of two logs of a partition that of a topic that is gone is used",
        "barnabas.broker.log.duplicate_logs",
        "identities[manager] == max(identities.values())",
        "identities[manager] == min(identities.values())",
        "topic made anew beside a lost directory",
        "RecreatedTopic",
    ),
    Mutation(
        "a broker that was started anew joins the ISR by what its last life had",
        "barnabas.broker.controller.isr_control_manager",
        "broker.is_active and member.broker_epoch in (_ANY_EPOCH, broker.epoch)",
        "broker.is_active",
        "reset as it joins",
    ),
    Mutation(
        "who led last leads, and no ends of logs are compared",
        "barnabas.broker.controller.partition_change_builder",
        "        if rules.recovery is not None:\n",
        "        if rules.recovery is not None and rules.recovery is self:\n",
        "lost power and then the others in turn",
    ),
    # ZooKeeper.
    Mutation(
        "a controller writes though another one has taken its place",
        "barnabas.broker.zookeeper.controller.kafka_zk_client",
        "Check(controller_znodes.CONTROLLER_EPOCH, epoch_version)",
        "Check(controller_znodes.CONTROLLER_EPOCH, -1)",
        "controller is deposed,kill broker",
    ),
    Mutation(
        "an election under ZooKeeper keeps the leader epoch",
        "barnabas.broker.zookeeper.controller.controller_context",
        "leader_epoch=self.leader_epoch + 1,",
        "leader_epoch=self.leader_epoch,",
    ),
    Mutation(
        "an election under ZooKeeper takes any replica",
        "barnabas.broker.zookeeper.controller.election",
        "ElectionStrategy.OFFLINE: _offline,",
        "ElectionStrategy.OFFLINE: _unclean,",
        "all in sync die",
    ),
    Mutation(
        "a broker obeys an earlier controller",
        "barnabas.broker.zookeeper.controller_pushes",
        "        if request.controller_epoch < self.controller_epoch:\n",
        "        if request.controller_epoch < 0:\n",
        "controller is deposed,kill broker",
    ),
    Mutation(
        "a broker obeys what its last life was told",
        "barnabas.broker.zookeeper.controller_pushes",
        "is_old = epoch >= 0 and (",
        "is_old = epoch < -1 and (",
    ),
    Mutation(
        "a session that is over leaves its broker registered in no other one",
        "barnabas.broker.zookeeper.registration",
        "            self._session_id, self._is_registered = session_id, False\n",
        "            self._session_id = session_id\n",
    ),
    Mutation(
        "an operator's election takes who is out of sync",
        "barnabas.broker.zookeeper.controller.election",
        "    if leader is None or leader not in state.isr or not context.is_online(leader, name):\n",
        "    if leader is None or not context.is_online(leader, name):\n",
        "all in sync die,pause broker",
    ),
]
_OF_QUORUMS = (
    "barnabas.broker.controller.",
    "barnabas.broker.membership.kraft_control",
    "barnabas.broker.membership.directory_assignments",
    # Under ZooKeeper a topic is not deleted while one of its replicas is away.
    "barnabas.broker.log.duplicate_logs",
)
#: Shown where a broker that is back has to wait for the end of its session.
_OF_SESSIONS = ("a broker leads on in the epoch of its last life",)
#: What CI looks for beside what it looks for in one broker; the nightly run looks for all of them.
SHORT = ("a broker leads on in the epoch of its last life",)


def where(name: str) -> str:
    """Return which kind of cluster shows a fault, of those that `--cluster` plays."""
    if name in _OF_SESSIONS:
        return "sessions"
    module = next(found.module for found in MUTATIONS if found.name == name)
    if module.startswith("barnabas.broker.zookeeper."):
        return "zookeeper"
    return "quorum" if module.startswith(_OF_QUORUMS) else "either"
