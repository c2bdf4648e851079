"""The consumer protocol: the coordinator assigns, members follow by heartbeats (KIP-848, 1082, 1251).

A heartbeat is checked (`heartbeat_validation.py`), then it is one pass, in `heartbeat.py`:

    what the member says → group epoch → target assignment → reconciliation of this member → records → answer

Rule 1. Three epochs: the *group epoch* grows when subscriptions or topics change; the *target assignment* is computed
for a group epoch (`target_assignment.py`, by an `assignor`); a *member epoch* is the target that the member reached.
Rule 2. A member gives up before another gets (`current_assignment.py`): a partition is free when no member has it, not
even one that is to give it up. A member that does not give up in its rebalance timeout is removed.
Rule 3. Every change goes through a `GroupDraft` (`draft.py`): a copy of the group with its records.
Rule 4. Members of the classic protocol live in a consumer group by the same pass (`classic_members.py`); a group
changes its kind with all its members (`migration.py`), and keeps what each of them has.
"""
