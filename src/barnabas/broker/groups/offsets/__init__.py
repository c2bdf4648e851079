"""Committed offsets: commit, fetch, delete, in transactions, and how they expire (KIP-98, 211, 447, 496).

Rule 1. A commit is durable before it is seen: `OffsetManager.commit` checks the member, then writes a `Draft` whose
changes put the offsets into the `OffsetStore`.
Rule 2. Offsets of an open transaction are pending under its producer id, and seen only by a fetch that requires
stable offsets. The marker in the group's partition of `__consumer_offsets` commits or drops them; of two commits of one
partition the later in the log wins.
Rule 3. A tombstone ends the committed offset and the pending ones that came before it.
Rule 4. Offsets expire by offsets.retention.minutes (`expiration.py`), counted from the group's end or from the commit;
a group without members and offsets goes with them.
"""
