"""Share groups (KIP-932): records of a partition for many members, each record acknowledged by itself.

A share-partition is a partition of a topic as one group shares it (`SharePartitionKey`). `SharePartition` says which of
its records are whose; `SharePartitionManager` loads it, ends locks in time and has the sessions of members;
`DelayedShareFetch` acquires records, now or when there are any. Members and their assignment are `groups/share`.

Rule 1. **Records in flight are ranges** (`InFlightRecords`): available, acquired, acknowledged or archived, without
gaps from the start offset to the last record that was acquired. Memory and time go by the ranges.

Rule 2. **A record is in the hands of one member**, until it is acknowledged or its lock ends. A delivery that ends with
neither counts, and after `share.delivery.count.limit` of them the record is archived.

Rule 3. **What a member is told is stored before.** A change is begun as a `Transition`, written through `Persister`,
and ended: as it says, or as if it had not been. Only offsets that the log has no records for are archived without that.

Rule 4. **The share coordinator (`coordinator/`) is asked through `Persister` only**, and may be another broker's.
What is asked about one share-partition is asked one after the other (`DefaultStatePersister`): a write that is tried
again is never overtaken by a later one.

Rule 5. **A session is of one connection** (`ShareSessionCache`): with it go the records that its member has.
"""
