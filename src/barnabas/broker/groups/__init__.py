"""The group coordinator: groups of both protocols and their committed offsets, in `__consumer_offsets`.

`GroupCoordinator` is what handlers and the broker's loop see; it stands on the rules of `broker.coordinator`. All
groups share one name space: `GroupStore` holds a group of one kind under an id, `OffsetStore` holds
the offsets of all groups. This folder has the model (groups, members), the stores and the records; each of the folders
below serves one subject and knows the others only through the model:

    classic/    JoinGroup, SyncGroup, Heartbeat, LeaveGroup: joining, rebalances, sessions
    consumer/   ConsumerGroupHeartbeat (KIP-848), members of the classic protocol in such groups, migration
    share/      ShareGroupHeartbeat (KIP-932), and which share-partitions have a state
    streams/    StreamsGroupHeartbeat (KIP-1071): topologies, their internal topics, tasks
    offsets/    OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit, expiry

Rule 1. **Checks come before changes.** A request is refused by its member id, `group.instance.id`, generation or epoch
before anything is written: `ClassicGroup.validate_member` and `validate_generation`, `ConsumerGroup.validate_epoch`.

Rule 2. **A change is a `Draft`** (`GroupStore.commit`), so memory never shows what the log does not have. A change of a
consumer, share or streams group is a `ModernGroupDraft`: a copy of the group, seen by requests once its records are
written.

Rule 3. **What waits is parked in the model.** `awaiting_join` and `awaiting_sync` of a member are its parked requests;
each is answered once, also when the member is removed or the partition is resigned.

Rule 4. **Every wait has a timer**, under a key with the group's id, and a timer finds its group by that id when it goes
off: it never holds on to a group that has been replaced.

Rule 5. **Topics are asked, not followed.** `TopicImage` is the port to the topics; its version tells a heartbeat that
something changed. Only the deletion of a topic is told (`on_topic_deleted`), for its offsets.

Rule 6. **Code of rare kinds is loaded when it is needed**: the consumer protocol, transactions, migration.

Known differences to Apache Kafka: expressions are matched at once, one heartbeat earlier; `metadataHash` is another
hash of the same facts, so that a group taken over from Apache Kafka begins one epoch more; a static member that gave
partitions up and ended before it joined again begins a rebalance when it is back (`ClassicGroup.owes_rejoin`).
"""
