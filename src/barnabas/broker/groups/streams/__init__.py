"""Streams groups: the coordinator gives the tasks of a Kafka Streams application to its members (KIP-1071, as of 4.3).

A heartbeat is checked, then it is one pass, in `heartbeat.py`:

    what the member says → topology → its topics → group epoch → target assignment → this member's part → records

Rule 1. **No member has a task before all topics are there.** `topic_configuration.py` counts the partitions of
repartition and changelog topics as Kafka Streams does, and tells what is missing or wrong by a status; the internal
topics that are missing are made in the member's name (`barnabas.broker.streams_internal_topics`), if it may do that.
Rule 2. **A process holds a task once**: its members share a disk. So says `sticky_assignor.py`, and so does
`current_assignment.py`, which gives a task only when who had it has let go.
Rule 3. **A large group gets its target assignment in pieces** (`TargetComputation`), between which the broker answers
others; until then members keep what they have and are told ASSIGNMENT_DELAYED. What changes meanwhile is in the next.
Rule 4. All members run one topology. It has an epoch, and who joins with an older one is told STALE_TOPOLOGY; that a
newer one takes its place is not supported, as in Apache Kafka 4.3.
Rule 5. Every change goes through a `StreamsGroupDraft` (`draft.py`): a copy of the group with its records. Not in the
log are the epoch of endpoints, and the wish to end the application: members tell both again.

Refused, as by Apache Kafka 4.3: static members, offsets of tasks (so there are no warm-up tasks; roles, records and
reconciliation know them), topics by regular expression. Known differences to it: client tags are heeded
(`sticky_assignor.py`); fixed partitions of a repartition topic bind those that it is joined with, not all of the
topology; a member of a full group may join it again.
"""
