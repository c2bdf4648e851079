"""Membership of a group: join, heartbeats, commits, leaving. Owned by the heartbeat thread.

It goes on while the application works on its records: heartbeats, retries, commits in flight, a coordinator that moved.
After `max.poll.interval.ms` it leaves by itself and posts `MembershipLost`. What needs the application (revoking,
assigning as leader, taking an assignment) waits for `poll`. After an unforeseen error it leaves the group and goes on;
the next `poll` raises the error, and the one after that joins again.

Rule: commands come in by `MembershipCore.send`, events go out by `MembershipCore.events` (`messages`); both are
immutable. A `Join` has a number that all that follows from it carries, so what belongs to an older attempt is ignored.
The one value that both threads touch is `Heartbeat.polled_at`, a float that is replaced as a whole.

`GroupMembership` is the port; `ClassicMembership` and `ConsumerMembershipManager` (KIP-848) implement it. Which
state may follow which is in `member_states`.
`CoordinatorLookup` finds the coordinator, `CommitRequestManager` commits and looks up.
"""
