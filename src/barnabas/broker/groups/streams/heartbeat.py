"""StreamsGroupHeartbeat: joining, living in and leaving a streams group (KIP-1071)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.coordinator_records import group_metadata_tombstone
from barnabas.broker.groups.modern_group import said
from barnabas.broker.groups.streams import topic_configuration as status
from barnabas.broker.groups.streams.current_assignment import Owned, reconcile
from barnabas.broker.groups.streams.draft import StreamsGroupDraft
from barnabas.broker.groups.streams.endpoints import endpoints
from barnabas.broker.groups.streams.heartbeat_validation import check_countable, check_epoch, check_tasks, owned_tasks
from barnabas.broker.groups.streams.target_assignment import (
    TargetComputation,
    assignment_configs,
    can_compute,
    is_large,
    update_target,
)
from barnabas.broker.groups.streams.topic_configuration import ConfiguredTopology, Problem, configure
from barnabas.broker.groups.streams.topology import InternalTopic, from_message
from barnabas.broker.groups.streams_group import NOT_VALIDATED, StreamsGroup
from barnabas.broker.groups.streams_group_member import (
    NO_TASKS,
    UNREVOKED_TASKS,
    StreamsGroupMember,
    Tasks,
)
from barnabas.broker.groups.topic_image import metadata_hash
from barnabas.protocol.epochs import JOIN_EPOCH, LEAVE_EPOCH
from barnabas.protocol.messages.streams_group_heartbeat_response import Status, StreamsGroupHeartbeatResponse, TaskIds

if TYPE_CHECKING:
    from barnabas.broker.coordinator.timers import TimerQueue
    from barnabas.broker.groups.group_coordinator_config import GroupSettings
    from barnabas.broker.groups.group_store import GroupStore
    from barnabas.broker.groups.topic_image import TopicImage
    from barnabas.broker.instant import Instant
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, Topology

#: How long after a failed write what a timer does is tried again.
_RETRY_SECONDS = 0.5
#: Between two pieces of a target assignment the broker does what else there is.
_NEXT_TURN = 0.0005


class HeartbeatResult(NamedTuple):
    """What the member is told, and the internal topics that are to be made for its group."""

    response: StreamsGroupHeartbeatResponse
    missing: tuple[InternalTopic, ...] = ()


class StreamsMembership:
    """Who is in which streams group, and what each member has; `rebalances` counts epochs that heartbeats began."""

    __slots__ = ("_image", "_settings", "_store", "_timers", "rebalances")

    def __init__(self, settings: GroupSettings, store: GroupStore, timers: TimerQueue, image: TopicImage) -> None:
        self._settings = settings
        self._store = store
        self._timers = timers
        self._image = image
        self.rebalances = 0

    def heartbeat(self, context: RequestContext, request: StreamsGroupHeartbeatRequest, at: Instant) -> HeartbeatResult:
        """Join, go on or leave. Raises KafkaError."""
        if request.member_epoch == LEAVE_EPOCH:
            return HeartbeatResult(self._leave(request, at))
        joins = request.member_epoch == JOIN_EPOCH
        owned = owned_tasks(request)
        draft = self._draft(request.group_id, joins)
        was_empty = draft.group.is_empty
        before = self._existing(draft.group, request, owned, joins)
        member = _said(before, context, request)
        problems: list[Problem] = []
        changed = self._update_member(draft, member)
        self._update_topology(draft, request.topology, member, problems)
        configured = self._configured(draft.group)
        if configured.is_ready:
            check_tasks(owned, configured.task_counts)
        began = self._refresh_epoch(draft, changed, configured)
        self._delay_first_assignment(draft.group, was_empty, at)
        member = self._approach_target(draft, member, configured, owned, problems, at)
        draft.commit(self._store, at)
        draft.group.metadata_version = self._image.version
        self.rebalances += began
        self.renew_session(request.group_id, member.member_id, at)
        if (before.state, before.member_epoch) != (member.state, member.member_epoch):
            self._watch_revocation(request.group_id, member, at)
        if request.shutdown_application:
            _shut_down(draft.group, member)
        response = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self._settings.streams_heartbeat_interval_ms(request.group_id),
        )
        if joins or before.assigned != member.assigned or not _is_told(owned, member):
            told = member.assigned.without_epochs()
            response.active_tasks, response.standby_tasks, response.warmup_tasks = map(_task_ids, told)
            draft.group.endpoint_epoch += member.user_endpoint is not None
        self._tell_endpoints(draft.group, request.endpoint_information_epoch, response)
        response.status = [Status(*problem) for problem in _all_problems(draft.group, configured, problems)]
        return HeartbeatResult(response, configured.missing)

    # --- the group and the member

    def _draft(self, group_id: str, joins: bool) -> StreamsGroupDraft:
        group = self._store.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return StreamsGroupDraft(group)
        if group is None and joins:
            self._store.check_room(group_id)
            return StreamsGroupDraft(StreamsGroup(group_id))
        if isinstance(group, ClassicGroup) and joins and group.is_empty:
            # Its offsets stay; only the group itself is of another kind from now on.
            return StreamsGroupDraft(StreamsGroup(group_id), [group_metadata_tombstone(group_id)])
        kind = "not found" if group is None else "not a streams group"
        raise errors.GroupIdNotFoundError(f"Group {group_id} is {kind}.")

    def _existing(
        self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, owned: Owned, joins: bool
    ) -> StreamsGroupMember:
        member = group.members.get(request.member_id)
        if member is None and joins:
            limit = self._settings.streams_max_size
            if len(group.members) >= limit:
                raise errors.GroupMaxSizeReachedError(
                    f"The streams group has reached its maximum capacity of {limit} members."
                )
            return StreamsGroupMember(request.member_id)
        member = group.member(request.member_id)
        check_epoch(member, request.member_epoch, owned)
        return member

    def _update_member(self, draft: StreamsGroupDraft, member: StreamsGroupMember) -> bool:
        known = draft.group.members.get(member.member_id)
        if known is not None and known.metadata == member.metadata:
            return False
        draft.put_member(member)
        return True

    # --- the topology, its topics and the group epoch

    def _update_topology(
        self, draft: StreamsGroupDraft, told: Topology | None, member: StreamsGroupMember, problems: list[Problem]
    ) -> None:
        known = draft.group.topology
        if told is not None:
            topology = from_message(told)
            if known is None:
                check_countable(topology)
                draft.put_topology(topology)
            elif topology.epoch >= known.epoch and topology != known:
                raise errors.InvalidRequestError(
                    "Topology updates are not supported yet: all members have to run the same topology. To run another "
                    "one, stop all members and delete the group."
                )
        if known is not None and member.topology_epoch < known.epoch:
            detail = (
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{known.epoch}."
            )
            problems.append(Problem(status.STALE_TOPOLOGY, detail))

    def _configured(self, group: StreamsGroup) -> ConfiguredTopology:
        """Return the topology beside the topics, worked out anew when they have changed."""
        if group.topology is None:
            raise errors.FencedMemberEpochError(f"Group {group.group_id} has no topology. The member must join again.")
        if group.configured is None or group.metadata_version != self._image.version:
            group.configured = configure(group.topology, self._image)
        return group.configured

    def _refresh_epoch(self, draft: StreamsGroupDraft, changed: bool, configured: ConfiguredTopology) -> bool:
        """Begin a new epoch if a member or the topics changed, or what the assignor goes by."""
        group = draft.group
        found = group.metadata_hash
        if group.metadata_version != self._image.version:
            found = metadata_hash(configured.topology.required_topics, self._image)
        validated = configured.topology.epoch if configured.is_ready else NOT_VALIDATED
        configs = assignment_configs(self._settings, group.group_id)
        before = group.metadata_hash, group.validated_topology_epoch, group.assignment_configs
        if changed or before != (found, validated, configs):
            draft.put_epoch(found, validated, configs)
            return True
        return False

    # --- the target assignment

    def _delay_first_assignment(self, group: StreamsGroup, was_empty: bool, at: Instant) -> None:
        """Let those who start together join together (group.streams.initial.rebalance.delay.ms)."""
        delay_ms = self._settings.streams_initial_rebalance_delay_ms(group.group_id)
        key = _initial_delay(group.group_id)
        if was_empty and delay_ms > 0 and key not in self._timers:
            action = partial(self._assign_after_delay, group.group_id)
            self._timers.schedule(key, at.now + delay_ms / 1000, action)

    def _assign_after_delay(self, group_id: str, at: Instant) -> None:
        group = self._store.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or group.is_empty or group.target_epoch >= group.epoch:
            return
        draft = StreamsGroupDraft(group)
        try:
            configured = self._configured(group)
            if is_large(group, configured):
                self._begin_computation(group, configured, at)
                return
            update_target(draft, configured, at)
            draft.commit(self._store, at)
        except errors.KafkaError as error:
            self._store.warn_of_retry(group_id, "assign", f"tasks of group {group_id} could not be assigned: {error}")
            again = partial(self._assign_after_delay, group_id)
            self._timers.schedule(_initial_delay(group_id), at.now + _RETRY_SECONDS, again)

    def _approach_target(
        self,
        draft: StreamsGroupDraft,
        member: StreamsGroupMember,
        configured: ConfiguredTopology,
        owned: Owned,
        problems: list[Problem],
        at: Instant,
    ) -> StreamsGroupMember:
        """Bring the target assignment up to date if that is due, then the member a step towards it."""
        group = draft.group
        target = None
        if _initial_delay(group.group_id) in self._timers:
            detail = "Assignment delayed due to the configured initial rebalance delay."
            problems.append(Problem(status.ASSIGNMENT_DELAYED, detail))
            target = NO_TASKS
        elif group.epoch > group.target_epoch and can_compute(group, self._settings, at):
            if is_large(group, configured):
                self._begin_computation(group, configured, at)
                problems.append(Problem(status.ASSIGNMENT_DELAYED, "The assignment is being computed."))
            else:
                update_target(draft, configured, at)
                group = draft.group
        elif group.epoch > group.target_epoch:
            detail = "Assignment delayed due to the configured assignment interval."
            problems.append(Problem(status.ASSIGNMENT_DELAYED, detail))
        if target is None:
            target = group.targets.get(member.member_id, NO_TASKS)
        after = reconcile(group, member, group.target_epoch, target, owned)
        if after != member:
            draft.put_current(after)
        return after

    def _begin_computation(self, group: StreamsGroup, configured: ConfiguredTopology, at: Instant) -> None:
        """Work the target assignment out in pieces, with the requests of others in between."""
        key = _computation(group.group_id)
        if key not in self._timers:
            computation = TargetComputation(group, configured)
            self._timers.schedule(key, at.now + _NEXT_TURN, partial(self._go_on, group.group_id, computation))

    def _go_on(self, group_id: str, computation: TargetComputation, at: Instant) -> None:
        group = self._store.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or not group.target_epoch < computation.epoch <= group.epoch:
            return
        again = partial(self._go_on, group_id, computation)
        if not computation.step():
            self._timers.schedule(_computation(group_id), at.now + _NEXT_TURN, again)
            return
        draft = StreamsGroupDraft(group)
        try:
            computation.write(draft, at)
            draft.commit(self._store, at)
        except errors.KafkaError as error:
            # The next heartbeat begins anew.
            self._store.warn_of_retry(group_id, "assign", f"tasks of group {group_id} could not be assigned: {error}")

    # --- the response

    def _tell_endpoints(self, group: StreamsGroup, known_epoch: int, response: StreamsGroupHeartbeatResponse) -> None:
        response.endpoint_information_epoch = group.endpoint_epoch
        if group.endpoint_epoch != known_epoch and group.topology is not None:
            response.partitions_by_user_endpoint = endpoints(group.members.values(), group.topology, self._image)

    # --- leaving

    def _leave(self, request: StreamsGroupHeartbeatRequest, at: Instant) -> StreamsGroupHeartbeatResponse:
        group = self._draft(request.group_id, joins=False).group
        member = group.member(request.member_id)
        if request.shutdown_application:
            _shut_down(group, member)
        self.put_out(group, member, at)
        return StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def put_out(self, group: StreamsGroup, member: StreamsGroupMember, at: Instant) -> None:
        """Put a member out; what it had is free for the others from the next epoch on. Raises KafkaError."""
        draft = StreamsGroupDraft(group)
        draft.remove_member(member.member_id)
        draft.put_epoch(group.metadata_hash, group.validated_topology_epoch, dict(group.assignment_configs))
        draft.group.endpoint_epoch += member.user_endpoint is not None
        draft.commit(self._store, at)
        self._end_timers(group.group_id, member.member_id)

    # --- timers

    def loaded(self, group: StreamsGroup, at: Instant) -> None:
        """Start a whole session for each member of a group that comes from the log."""
        for member in group.members.values():
            self.renew_session(group.group_id, member.member_id, at)
            self._watch_revocation(group.group_id, member, at)

    def unload(self, group: StreamsGroup) -> None:
        """Another broker coordinates the group, or none."""
        self._timers.cancel(_initial_delay(group.group_id))
        self._timers.cancel(_computation(group.group_id))
        for member_id in group.members:
            self._end_timers(group.group_id, member_id)

    def renew_session(self, group_id: str, member_id: str, at: Instant) -> None:
        """Note that the member was heard of: its session timeout begins anew."""
        deadline = at.now + self._settings.streams_session_timeout_ms(group_id) / 1000
        key = _session(group_id, member_id)
        self._timers.schedule(key, deadline, partial(self._expire, key, None))

    def _watch_revocation(self, group_id: str, member: StreamsGroupMember, at: Instant) -> None:
        """See to it that a member gives up in time what it is to give up."""
        key = _revocation(group_id, member.member_id)
        if member.state != UNREVOKED_TASKS:
            self._timers.cancel(key)
        else:
            deadline = at.now + member.rebalance_timeout_ms / 1000
            self._timers.schedule(key, deadline, partial(self._expire, key, member.member_epoch))

    def _end_timers(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_session(group_id, member_id))
        self._timers.cancel(_revocation(group_id, member_id))

    def _expire(self, key: tuple[str, str, str], epoch: int | None, at: Instant) -> None:
        _, group_id, member_id = key
        group = self._store.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, StreamsGroup) else None
        if not isinstance(group, StreamsGroup) or member is None or epoch not in (None, member.member_epoch):
            return
        try:
            self.put_out(group, member, at)
        except errors.KafkaError as error:
            problem = f"member {member_id} of group {group_id} could not be put out: {error}"
            self._store.warn_of_retry(group_id, "put out", problem)
            self._timers.schedule(key, at.now + _RETRY_SECONDS, partial(self._expire, key, epoch))


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "streams session", group_id, member_id


def _revocation(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "streams revocation", group_id, member_id


def _computation(group_id: str) -> tuple[str, str]:
    return "streams assignment", group_id


def _initial_delay(group_id: str) -> tuple[str, str]:
    return "streams initial rebalance", group_id


def _is_told(owned: Owned, member: StreamsGroupMember) -> bool:
    """Whether a member that says what it has has what it is to have; if not, an answer may have got lost."""
    return owned is None or owned == member.assigned.without_epochs()


def _shut_down(group: StreamsGroup, member: StreamsGroupMember) -> None:
    # Until the group is empty; a coordinator that takes over is asked again by the member.
    if group.shutdown_requested_by is None:
        group.shutdown_requested_by = member.member_id


def _said(
    member: StreamsGroupMember, context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupMember:
    endpoint, tags, timeout_ms = request.user_endpoint, request.client_tags, request.rebalance_timeout_ms
    return member._replace(
        rack_id=said(request.rack_id, member.rack_id),
        client_id=context.client_id or "",
        client_host=context.connection.inet_address,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=said(request.process_id, member.process_id),
        user_endpoint=member.user_endpoint if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=member.client_tags if tags is None else {tag.key: tag.value for tag in tags},
    )


def _all_problems(group: StreamsGroup, configured: ConfiguredTopology, problems: list[Problem]) -> list[Problem]:
    found = list(problems)
    if configured.problem is not None:
        found.append(configured.problem)
    if group.shutdown_requested_by is not None:
        detail = (
            f"Streams group member {group.shutdown_requested_by} encountered a fatal error and requested a shutdown "
            "for the entire application."
        )
        found.append(Problem(status.SHUTDOWN_APPLICATION, detail))
    return found


def _task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id, sorted(tasks[subtopology_id])) for subtopology_id in sorted(tasks)]
