"""Replication: what a leader knows of its followers, and how a follower copies its leader (data plane of a cluster).

`Partition` (above this room) has the role and the log. For a leader `InSyncReplicas` knows the followers (`Replica`),
says how far the records are committed, and proposes changes of the ISR (`PartitionState`). For a follower
`ReplicaFetcher` copies partitions from one leader. The names are Kafka's; behaviour follows Partition.scala,
AbstractFetcherThread.scala and KIP-101, 279, 320, 497, 595, 841, 903, 966.

Rule 1. **Nothing here knows a socket, a clock or a controller.** Time comes in; requests and responses are messages;
proposals go to an `AlterPartitionManager`; what is known of other brokers is asked of `Brokers`.

Rule 2. **A record is committed when all of the maximal ISR have it**: the committed ISR, and who may be in it if the
controller has accepted a proposal that is in flight (KIP-497). Nothing moves while fewer than
min(min.insync.replicas, replicas) are in the committed ISR.

Rule 3. **A proposal is neither accepted nor refused until the controller says so.** After an error that leaves it
open, it stays pending until new metadata come. One is in flight for a partition at a time.

Rule 4. **A follower truncates by leader epochs only**, never by its high watermark; that counts only where a log has
no epochs. Errors of a leader that does not know of its role yet (FENCED, UNKNOWN_LEADER_EPOCH, NOT_LEADER) never
truncate anything: they are tried again.

Rule 5. **An answer counts for the state in which it was asked for**: another leader epoch or another offset since, and
it is dropped.

A partition without other replicas has no `InSyncReplicas`, and pays nothing for this room. The state of the cluster's
construction is in docs/internals/cluster.md.
"""
