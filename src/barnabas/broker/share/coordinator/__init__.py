"""The share coordinator: the state of share-partitions, kept in `__share_group_state` (KIP-932).

It serves the requests of who leads share-partitions (Initialize, Read, Write, Delete, ReadSummary), on the rules of
`broker.coordinator`. A share-partition lies in the partition of the topic that its key hashes to, which is written
`group:topic id:partition`.

Rule 1. **Snapshots and updates.** A snapshot record has the whole state, an update what a write has changed; after
`share.coordinator.snapshot.update.records.per.snapshot` updates comes a snapshot. A tombstone of the snapshot ends a
share-partition.

Rule 2. **Epochs fence.** A write or read of an older leader epoch, a write or Initialize of an older state epoch, is
refused; a read takes a newer leader epoch over, and writes it.

Rule 3. **Nothing that was acknowledged comes back.** Batches that overlap are combined by `combine_state_batches`: the
larger delivery count wins, then the larger state.

Rule 4. **What is not needed is deleted.** The topic is not compacted: records before the oldest snapshot that counts
are deleted now and then, and share-partitions without a write for long get a snapshot, so that they do not
hold that up.
"""
