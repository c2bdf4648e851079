"""The classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-62, 134, 345, 394, 814).

    Empty → PreparingRebalance (all members join) → CompletingRebalance (the leader assigns) → Stable

The table of states is `VALID_PREVIOUS_STATES` in `classic_group.py`. `rebalance.py` moves a group from one generation
to the next, `sessions.py` ends members that are not heard of (session.timeout.ms), `joining.py`,
`syncing.py`, `heartbeat.py` and `leaving.py` answer one request each.

Rule 1. A wait for members has one timer under the group's id: "join" in PreparingRebalance, "sync" from the moment the
leader is to assign until all members have sent SyncGroup.
Rule 2. A member has one session timer. While its own request is parked it cannot send a heartbeat, and its session
goes on; a new member that waits is put out after five minutes.
Rule 3. The assignment is written before any member is given its part.
Rule 4. A static member that comes back keeps assignment and leadership under a new id; its old id is fenced, once the
new one is in the log.
"""
