"""A broker's membership in a cluster whose controllers are others: Apache Kafka's, or ours (`broker/controller`).

`ClusterMember` puts together what every member has: `AlterPartitions`, `ControllerProducerIds`, `TopicCreation`, the
fetchers' ways to their leaders, markers, verification, and `ImagePublisher`, which carries every change into the
broker. Where metadata and roles come from is a `ControlPlane`: `KRaftControl` here, with the observer of the metadata
log (`barnabas.broker.raft`), `BrokerLifecycle` (registration, heartbeats) and `Forwarding` (requests of clients for the
controller); `ZooKeeperControl` in `barnabas.broker.zookeeper`.

Rule 1. **First the metadata, then the broker.** A member reads the metadata to their end before its data directory is
opened, so nothing in the broker ever sees half an image. Then it registers. Under KRaft it takes roles when the
metadata have that registration, for until then those of its last life stand there; and it is unfenced when every
partition that is assigned to it has its log.

Rule 2. **All that changes goes through `ImagePublisher`, in one order**: replicas that go, topics and settings, then
roles. A role that cannot be taken yet (its log is being recovered) is tried again with what holds then.

Rule 3. **Nothing here knows a socket or a clock.** Each `Requester` has one request in flight; `open_channel` gives it
its way. Heartbeats have a connection of their own, as have ISR changes, forwarded requests, and each fetcher: none of
them waits for another's response.

Rule 4. **What belongs to the controller is not decided here.** Topics, settings, quotas, elections and reassignments
are forwarded as they came, under KRaft in an Envelope with the client's principal (KIP-590); the image brings what came
of it.

Rule 5. **A broker that cannot hear of changes does harm to none**: leader epochs, partition epochs and broker epochs
refuse what it does with old ones (KIP-101, 497, 903).
"""
