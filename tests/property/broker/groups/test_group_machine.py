"""Random lives of groups: whatever members and brokers do, what the protocol promises holds."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas import errors
from barnabas.broker.groups import coordinator_records as records
from barnabas.broker.groups.classic_group import VALID_PREVIOUS_STATES, ClassicGroup
from tests.unit.broker.groups.harness import GROUP, Harness, Pending

SESSION_MS = 10_000
#: However unlucky it gets, nobody waits longer: others are waited for during one rebalance timeout after each change,
#: and a member that only waits is told after five minutes to try again.
LONGEST_WAIT = 300.0 + 2 * 30.0
#: Three dynamic members, a static one, and two that share an instance id.
CLIENTS = st.integers(0, 5)
MAX_SIZES = st.sampled_from([2, 3, 100])
PROTOCOLS = [{"range": b"1"}, {"range": b"2"}, {"sticky": b"1", "range": b"1"}]
TOLD_TO_LEAVE = {errors.UnknownMemberIdError.code, errors.FencedInstanceIdError.code}


class Client:
    """A member that may hang, forget, die and come back; it believes what it was told last."""

    def __init__(self, instance: str | None, protocols: dict[str, bytes]) -> None:
        self.instance = instance
        self.protocols = protocols
        self.member_id = ""
        self.generation = -1
        self.protocol_name: str | None = None
        self.leads = False
        self.others: list[str] = []
        self.next_step = "join"
        self.waits = False


class GroupMachine(RuleBasedStateMachine):
    @initialize(
        delay_ms=st.sampled_from([0, 3000]), max_size=MAX_SIZES, rebalance_timeout_ms=st.sampled_from([5000, 30_000])
    )
    def begin(self, delay_ms: int, max_size: int, rebalance_timeout_ms: int) -> None:
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.harness = Harness(group_initial_rebalance_delay_ms=delay_ms, group_max_size=max_size)
        self.waiting: list[tuple[Pending, Client, str, float]] = []
        self.told_leaders: dict[int, set[str]] = {}
        self.committed: dict[tuple[str, int], int] = {}
        self.clients = [Client(instance, PROTOCOLS[0]) for instance in (None, None, None, "a", "b", "b")]

    @rule(client=CLIENTS)
    def do_what_is_next(self, client: int) -> None:
        """What a client in its right mind does: join, take its id and join again, sync, send heartbeats."""
        self.proceed(self.clients[client])

    @rule()
    def everybody_does_what_is_next(self) -> None:
        for client in self.clients:
            self.proceed(client)

    def proceed(self, client: Client) -> None:
        if not client.waits:
            getattr(self, f"send_{client.next_step}")(client)

    @rule(client=CLIENTS)
    def join(self, client: int) -> None:
        self.send_join(self.clients[client])

    def send_join(self, client: Client) -> None:
        pending = self.harness.join(
            client.member_id,
            instance=client.instance,
            protocols=client.protocols,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
        )
        client.waits = True
        self.waiting.append((pending, client, "join", self.harness.now))
        self.hear()

    @rule(client=CLIENTS, protocols=st.sampled_from(PROTOCOLS))
    def change_subscription(self, client: int, protocols: dict[str, bytes]) -> None:
        self.clients[client].protocols = protocols
        self.clients[client].next_step = "join"

    @rule(client=CLIENTS)
    def sync(self, client: int) -> None:
        self.send_sync(self.clients[client])

    def send_sync(self, client: Client) -> None:
        assignments = {member_id: member_id.encode() for member_id in client.others} if client.leads else None
        pending = self.harness.sync(
            client.member_id,
            client.generation,
            assignments,
            instance=client.instance,
            protocol_name=client.protocol_name,
        )
        client.waits = True
        self.waiting.append((pending, client, "sync", self.harness.now))
        self.hear()

    @rule(client=CLIENTS)
    def heartbeat(self, client: int) -> None:
        self.send_heartbeat(self.clients[client])

    def send_heartbeat(self, client: Client) -> None:
        error = self.harness.heartbeat(client.member_id, client.generation, instance=client.instance)
        self.believe(client, error)

    @rule(client=CLIENTS)
    def leave(self, client: int) -> None:
        leaving = self.clients[client]
        self.harness.leave((leaving.member_id, leaving.instance))
        self.believe(leaving, errors.UnknownMemberIdError.code)
        self.hear()

    @rule(client=CLIENTS)
    def forget(self, client: int) -> None:
        """The process dies and starts anew, without its member id."""
        self.believe(self.clients[client], errors.UnknownMemberIdError.code)

    @rule(client=CLIENTS, partition=st.integers(0, 2), offset=st.integers(0, 100))
    def commit(self, client: int, partition: int, offset: int) -> None:
        key = ("t", partition)
        member = self.clients[client]
        answer = self.harness.commit({key: offset}, member.member_id, member.generation, instance=member.instance)
        if answer == {key: 0}:
            self.committed[key] = offset
        else:
            assert answer in {
                errors.UnknownMemberIdError.code,
                errors.IllegalGenerationError.code,
                errors.FencedInstanceIdError.code,
                errors.RebalanceInProgressError.code,
                errors.GroupIdNotFoundError.code,
            }

    @rule(seconds=st.sampled_from([0.5, 3.0, 9.0, 11.0, 40.0]))
    def pass_time(self, seconds: float) -> None:
        self.harness.advance(seconds)
        self.hear()

    @rule(max_size=MAX_SIZES)
    def restart(self, max_size: int) -> None:
        """The broker dies and starts anew: who waited hears nothing."""
        for pending, client, _, _ in self.waiting:
            assert pending.waits
            client.waits = False
        self.waiting.clear()
        self.harness.restart(group_max_size=max_size)
        # The generation that was being made is forgotten, and may be made again.
        group = self.group
        written = group.generation_id if group is not None else 0
        self.told_leaders = {gen: who for gen, who in self.told_leaders.items() if gen <= written}

    @rule()
    def compact(self) -> None:
        self.harness.storage.compact()

    def hear(self) -> None:
        """Give the answers that have come to those who wait for them."""
        still = []
        for pending, client, kind, since in self.waiting:
            if pending.waits:
                still.append((pending, client, kind, since))
                continue
            client.waits = False
            response = pending.response
            self.believe(client, response.error_code)
            if kind == "join":
                self.hear_join(client, response)
            elif not response.error_code:
                client.next_step = "heartbeat"
        self.waiting = still

    def hear_join(self, client: Client, response) -> None:
        if response.error_code == errors.MemberIdRequiredError.code:
            client.member_id = response.member_id
        if response.error_code:
            return
        client.next_step = "sync"
        client.member_id = response.member_id
        client.generation = response.generation_id
        client.protocol_name = response.protocol_name
        client.leads = bool(response.members) and not response.skip_assignment
        client.others = [member.member_id for member in response.members]
        if response.members:
            self.told_leaders.setdefault(response.generation_id, set()).add(client.instance or response.member_id)

    def believe(self, client: Client, error: int) -> None:
        if error:
            client.next_step = "join"
        if error in TOLD_TO_LEAVE:
            client.member_id = ""
            client.generation = -1

    @property
    def group(self) -> ClassicGroup | None:
        return self.harness.coordinator._store.groups.get(GROUP)

    @invariant()
    def each_generation_has_one_leader(self) -> None:
        for generation, leaders in self.told_leaders.items():
            assert len(leaders) == 1, f"generation {generation} was led by {leaders}"
        group = self.group
        if group is None:
            # The expiry of offsets removes a group that is left with nothing; the next one counts from 1 again.
            self.told_leaders.clear()
        if group is not None and group.members:
            assert group.leader_id in group.members
        if group is not None and group.state == "CompletingRebalance":
            assert group.generation_id in self.told_leaders, "nobody was told to assign"

    @invariant()
    def nobody_waits_longer_than_the_protocol_allows(self) -> None:
        for pending, client, kind, since in self.waiting:
            assert self.harness.now - since <= LONGEST_WAIT, (kind, client.member_id)
            assert pending.waits

    @invariant()
    def whoever_waits_is_known_to_wait(self) -> None:
        group = self.group
        members = list(group.members.values()) if group is not None else []
        parked = sum(m.awaiting_join is not None for m in members) + sum(m.awaiting_sync is not None for m in members)
        assert len(self.waiting) == parked
        if group is not None:
            assert group.awaiting_join_count == sum(m.awaiting_join is not None for m in members)
            if group.state in ("Stable", "Empty"):
                assert parked == 0

    @invariant()
    def everybody_is_watched_by_a_timer(self) -> None:
        group = self.group
        if group is None:
            return
        timers = self.harness.coordinator._timers
        if group.state == "PreparingRebalance":
            assert ("join", GROUP) in timers
        assert group.pending_sync_members <= set(group.members)
        if group.pending_sync_members:
            assert ("sync", GROUP) in timers
        for member in group.members.values():
            watched = ("session", GROUP, member.member_id) in timers
            assert watched or member.session_goes_on
        for member_id in group.pending_members:
            assert ("session", GROUP, member_id) in timers

    @invariant()
    def protocols_are_counted_right_and_shared_by_all(self) -> None:
        group = self.group
        if group is None:
            return
        counted = Counter(name for member in group.members.values() for name in member.protocols)
        assert group._protocol_counts == counted
        if group.members and group.state in ("Stable", "CompletingRebalance"):
            assert all(group.protocol_name in member.protocols for member in group.members.values())

    @invariant()
    def committed_offsets_are_what_was_acknowledged(self) -> None:
        if self.harness.state() != "Dead":
            assert self.harness.fetch() == self.committed

    @invariant()
    def the_log_says_what_a_stable_group_is(self) -> None:
        group = self.group
        if group is None or group.state != "Stable":
            return
        key = records.group_metadata_key(GROUP)
        value = [record.value for record in self.harness.storage.records if record.key == key][-1]
        stored = records.decode_group_metadata_value(GROUP, value)
        assert stored.generation_id == group.generation_id
        assert stored.protocol_name == group.protocol_name
        # Who was put out since is still in the log, until the rebalance that follows has ended.
        assert {m: stored.members[m].assignment for m in group.members} == group.assignments


GroupMachine.TestCase.settings = settings(
    max_examples=200, stateful_step_count=80, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestGroups = GroupMachine.TestCase


def test_transitions_that_the_table_lacks_are_refused() -> None:
    """The machine above fails on IllegalStateError; this shows that there is one."""
    for target, sources in VALID_PREVIOUS_STATES.items():
        for source in VALID_PREVIOUS_STATES:
            group = ClassicGroup("g", 0)
            group.state = source
            if source not in sources:
                with pytest.raises(errors.IllegalStateError):
                    group.transition_to(target, 0)
