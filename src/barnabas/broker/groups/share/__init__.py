"""Share groups: members share partitions, and the coordinator has the share coordinator keep their states (KIP-932).

A heartbeat is checked, then it is one pass, in `heartbeat.py`:

    what the member says → states of new partitions → group epoch → target assignment → this member's part → records

Rule 1. **A partition is assigned once its state is initialized.** The group notes what it has asked the share
coordinator for (`StatePartitions`: initializing, initialized, deleting), so that nothing is lost when it ends midway;
what was not answered in time is asked for again. `state_partitions.py` changes these notes. A member that joins waits a
moment for them, so that it has its partitions with the first answer.
Rule 2. A member has its part of the target assignment at once: none has to give up anything first.
Rule 3. Every change goes through a `ShareGroupDraft` (`draft.py`): a copy of the group with its records.
Rule 4. The share coordinator is reached through `Persister`, whose answers may come later, when the group has
changed or gone: who is told looks the group up again.
"""
