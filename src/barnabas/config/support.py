"""What barnabas does with each of Kafka's settings: supported, ignored with a warning, or refused unless default.

A name in `SUPPORTED` has its meaning here. A name in `IGNORED` only tunes another implementation (its thread pools,
its metrics reporters): setting it changes no behaviour, and a warning says so once. Every other name changes what the
system does in a way that is not built yet: any value but its default is an error. Who builds a setting moves its
name to `SUPPORTED`, and that is all there is to do here.
"""

from __future__ import annotations

from typing import Any

from barnabas.errors import ConfigError


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CLIENT = """
    bootstrap.servers client.dns.lookup client.id config.providers connections.max.idle.ms enable.metrics.push
    metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metrics.num.samples
    metrics.sample.window.ms receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    request.timeout.ms retry.backoff.max.ms retry.backoff.ms send.buffer.bytes
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    sasl.jaas.config sasl.login.callback.handler.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    sasl.oauthbearer.scope.claim.name
    sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol
    ssl.cipher.suites ssl.context ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.key.password
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""

# Of sasl.oauthbearer.* those only a broker's validator reads; of ssl.* those that choose among Java's implementations.
_CLIENT_IGNORED = """
    metric.reporters metrics.recording.level
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url ssl.keymanager.algorithm ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm
"""

SUPPORTED: dict[str, frozenset[str]] = {
    "producer": _names(
        f"""{_CLIENT}
        acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type
        compression.zstd.level delivery.timeout.ms enable.idempotence interceptor.classes key.serializer linger.ms
        max.block.ms
        max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms
        partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
        partitioner.ignore.keys retries transaction.timeout.ms transaction.two.phase.commit.enable transactional.id
        value.serializer
        """
    ),
    "consumer": _names(
        f"""{_CLIENT}
        allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack
        default.api.timeout.ms enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms
        fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
        interceptor.classes isolation.level key.deserializer
        max.partition.fetch.bytes max.poll.interval.ms max.poll.records partition.assignment.strategy
        session.timeout.ms share.acknowledgement.mode share.acquire.mode value.deserializer
        """
    ),
    "admin": _names(f"{_CLIENT} bootstrap.controllers default.api.timeout.ms retries"),
    "topic": _names(
        """
        cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
        delete.retention.ms file.delete.delay.ms flush.messages flush.ms follower.replication.throttled.replicas
        index.interval.bytes leader.replication.throttled.replicas max.compaction.lag.ms max.message.bytes
        message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type
        min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas retention.bytes retention.ms
        segment.bytes segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable
        """
    ),
    "broker": _names(
        """
        advertised.listeners allow.everyone.if.no.acl.found authorizer.class.name auto.create.topics.enable broker.id
        broker.id.generation.enable reserved.broker.max.id password.encoder.cipher.algorithm
        password.encoder.iterations password.encoder.key.length password.encoder.keyfactory.algorithm
        password.encoder.old.secret password.encoder.secret
        inter.broker.protocol.version zookeeper.connect zookeeper.connection.timeout.ms zookeeper.session.timeout.ms
        zookeeper.clientCnxnSocket zookeeper.sasl.jaas.config zookeeper.set.acl zookeeper.ssl.cipher.suites
        zookeeper.ssl.client.enable zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols
        zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location
        zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable
        zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type
        controlled.shutdown.enable controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
        leader.imbalance.per.broker.percentage unclean.leader.election.enable
        broker.rack broker.silence.timeout.ms compression.gzip.level create.topic.policy.class.name
        compression.lz4.level compression.type compression.zstd.level connection.failed.authentication.delay.ms
        connections.max.idle.ms connections.max.reauth.ms controller.listener.names
        default.replication.factor delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
        delegation.token.max.lifetime.ms delegation.token.secret.key
        delete.topic.enable fetch.max.bytes group.consumer.assignment.interval.ms
        group.consumer.assignors group.consumer.heartbeat.interval.ms group.consumer.max.assignment.interval.ms
        group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms group.consumer.max.size
        group.consumer.migration.policy group.consumer.min.assignment.interval.ms
        group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
        group.consumer.session.timeout.ms group.coordinator.rebalance.protocols group.initial.rebalance.delay.ms
        group.max.session.timeout.ms group.max.size group.min.session.timeout.ms inter.broker.listener.name
        listener.security.protocol.map
        listeners log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
        log.cleaner.enable log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
        log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio
        log.cleaner.min.compaction.lag.ms log.cleanup.policy log.dir log.dirs log.flush.interval.messages
        log.flush.interval.ms log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms
        log.flush.start.offset.checkpoint.interval.ms log.index.interval.bytes log.index.size.max.bytes
        log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.message.timestamp.type
        log.retention.bytes log.retention.check.interval.ms log.retention.hours log.retention.minutes log.retention.ms
        log.roll.hours log.roll.jitter.hours log.roll.jitter.ms log.roll.ms log.segment.bytes
        log.segment.delete.delay.ms max.connection.creation.rate max.connections max.connections.per.ip
        max.connections.per.ip.overrides
        max.incremental.fetch.session.cache.slots max.request.partition.size.limit quota.window.num
        quota.window.size.seconds
        message.max.bytes min.insync.replicas node.id num.partitions offset.metadata.max.bytes
        offsets.retention.check.interval.ms offsets.retention.minutes offsets.topic.compression.codec
        offsets.topic.num.partitions offsets.topic.segment.bytes process.roles producer.id.expiration.ms
        group.share.assignment.interval.ms group.share.delivery.count.limit
        group.share.heartbeat.interval.ms group.share.max.assignment.interval.ms
        group.share.max.delivery.count.limit group.share.max.heartbeat.interval.ms
        group.share.max.partition.max.record.locks group.share.max.record.lock.duration.ms
        group.share.max.session.timeout.ms group.share.max.share.sessions group.share.max.size
        group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
        group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
        group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
        group.share.partition.max.record.locks group.share.record.lock.duration.ms
        group.share.session.timeout.ms
        group.streams.assignment.interval.ms group.streams.heartbeat.interval.ms
        group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
        group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
        group.streams.max.standby.replicas group.streams.min.assignment.interval.ms
        group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
        group.streams.num.standby.replicas group.streams.session.timeout.ms
        share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec
        share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions
        share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
        queued.max.request.bytes sasl.enabled.mechanisms sasl.jaas.config
        sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
        sasl.oauthbearer.sub.claim.name sasl.server.callback.handler.class sasl.server.max.receive.size
        sasl.login.callback.handler.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
        sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
        sasl.mechanism.controller.protocol sasl.mechanism.inter.broker.protocol
        sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
        sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
        sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
        sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
        sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
        sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.jwt.retriever.class
        sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.token.endpoint.url
        ssl.endpoint.identification.algorithm
        security.inter.broker.protocol
        super.users
        socket.request.max.bytes ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites
        ssl.client.auth ssl.enabled.protocols ssl.key.password
        ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
        ssl.principal.mapping.rules ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
        ssl.truststore.type telemetry.max.bytes
        broker.heartbeat.interval.ms controller.quorum.bootstrap.servers controller.quorum.voters
        num.replica.fetchers offsets.topic.replication.factor replica.fetch.backoff.ms
        replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
        alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
        replica.lag.time.max.ms replica.selector.class replication.quota.window.num
        replication.quota.window.size.seconds replica.socket.timeout.ms offsets.commit.timeout.ms
        transaction.state.log.min.isr transaction.state.log.replication.factor
        transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
        add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
        transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms
        transaction.state.log.num.partitions transaction.state.log.segment.bytes
        transaction.two.phase.commit.enable transactional.id.expiration.ms
        auto.leader.rebalance.enable broker.session.timeout.ms controller.quorum.append.linger.ms
        controller.quorum.auto.join.enable controller.quorum.election.backoff.max.ms
        controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
        controller.quorum.retry.backoff.ms leader.imbalance.check.interval.seconds metadata.log.dir
        metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
        metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes
        metadata.max.retention.ms
        """
    ),
}

IGNORED: dict[str, frozenset[str]] = {
    "producer": _names(_CLIENT_IGNORED),
    "consumer": _names(_CLIENT_IGNORED),
    "admin": _names(_CLIENT_IGNORED),
    "topic": _names(
        """
        preallocate
        """
    ),
    "broker": _names(
        """
        background.threads
        controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
        controller.quota.window.num controller.quota.window.size.seconds controller.socket.timeout.ms
        delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
        group.coordinator.append.linger.ms group.coordinator.background.threads
        group.coordinator.cached.buffer.max.bytes group.coordinator.threads initial.broker.registration.timeout.ms
        kafka.metrics.polling.interval.secs kafka.metrics.reporters
        log.cleaner.threads log.dir.failure.timeout.ms log.preallocate
        metric.reporters
        metrics.num.samples metrics.recording.level metrics.sample.window.ms num.io.threads num.network.threads
        num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads
        offsets.load.buffer.size producer.purgatory.purge.interval.requests
        queued.max.requests
        replica.high.watermark.checkpoint.interval.ms replica.socket.receive.buffer.bytes sasl.kerberos.kinit.cmd
        sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name
        sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
        request.timeout.ms share.coordinator.append.linger.ms
        share.coordinator.cached.buffer.max.bytes share.coordinator.load.buffer.size
        share.coordinator.threads share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests
        socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms socket.listen.backlog.size
        socket.receive.buffer.bytes socket.send.buffer.bytes
        ssl.keymanager.algorithm ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
        transaction.state.log.load.buffer.size
        """
    ),
}

# What a refused setting belongs to, by the beginning of its name; the first that fits is used.
_SUBJECTS = (
    ("ssl.engine.factory.class", "a Java class; give an ssl.SSLContext as ssl.context"),
    ("ssl.", "TLS"),
    ("sasl.", "SASL"),
    ("security.", "TLS and SASL"),
    ("listener.name.", "TLS and SASL"),
    ("transaction", "transactions"),
    ("group.protocol", "the consumer group protocol of KIP-848"),
    ("group.consumer.", "the consumer group protocol of KIP-848"),
    ("group.remote.", "the consumer group protocol of KIP-848"),
    ("group.share.", "share groups"),
    ("share.", "share groups"),
    ("group.streams.", "streams groups"),
    ("remote.", "tiered storage"),
    ("local.", "tiered storage"),
    ("log.local.", "tiered storage"),
    ("follower.fetch.last.tiered", "tiered storage"),
    ("authorizer.", "authorization"),
    ("config.providers", "config providers"),
    ("interceptor.", "interceptors"),
    ("offsets.topic.replication", "replication"),
    ("zookeeper.", "ZooKeeper mode"),
)

#: Of a consumer's settings, those that a share consumer does not have, and why; the other two are only its own.
NOT_OF_SHARE_CONSUMERS = {
    "auto.offset.reset": "the group has it, as share.auto.offset.reset",
    "enable.auto.commit": "records are acknowledged one by one (share.acknowledgement.mode), not by offsets",
    "group.instance.id": "share groups have no static members",
    "group.protocol": "share groups have one of their own",
    "group.remote.assignor": "the broker chooses, by group.share.assignors",
    "heartbeat.interval.ms": "the group has it, as share.heartbeat.interval.ms",
    "interceptor.classes": "share consumers have no interceptors",
    "isolation.level": "the group has it, as share.isolation.level",
    "partition.assignment.strategy": "the group's coordinator assigns the partitions",
    "session.timeout.ms": "the group has it, as share.session.timeout.ms",
}
ONLY_OF_SHARE_CONSUMERS = dict.fromkeys(
    ("share.acknowledgement.mode", "share.acquire.mode"), "only a ShareConsumer has it"
)

WHOLE_PREFIXES = ("listener.name.", "config.providers.", "zookeeper.")
"""Names that Kafka accepts without listing them: the part after the prefix is free."""


_ZOOKEEPER = "zookeeper."
#: Settings of Kafka 3.9's brokers that Kafka 4 does not have: files for 3.9 hold them, and they changed nothing here.
GONE_SINCE_KAFKA_4 = _names(
    """
    control.plane.listener.name group.coordinator.new.enable
    log.message.downconversion.enable log.message.format.version
    metadata.log.segment.min.bytes offsets.commit.required.acks server.max.startup.time.ms
    """
)
#: Those that did change something, and what is there instead.
_REPLACED = {
    "log.message.timestamp.difference.max.ms": (
        "Kafka 4 has no such setting: use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "delegation.token.master.key": "Kafka 4 has no such setting: use delegation.token.secret.key",
    "zookeeper.metadata.migration.enable": "barnabas cannot migrate a cluster out of ZooKeeper: remove it",
}


def gone_since_kafka_4(section: str, name: str, value: Any) -> bool:
    """Say whether a name belongs to Kafka 3.9's brokers only and has no effect.

    Raises `ConfigError` where leaving it out would change what the broker does.
    """
    if section != "broker":
        return False
    if name in _REPLACED and str(value).strip().lower() != "false":
        raise ConfigError(f"{name} is not supported: {_REPLACED[name]}")
    return name in GONE_SINCE_KAFKA_4 or name in _REPLACED or name.startswith(_ZOOKEEPER)


def subject_of(name: str) -> str:
    """Return what a setting that is not supported belongs to, for the error message."""
    for prefix, subject in _SUBJECTS:
        if name.startswith(prefix):
            return subject
    return "what it changes is not built"
