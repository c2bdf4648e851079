"""A member of a streams group as Java's StreamsMembershipManager is one, for a coordinator or a CoreBroker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from barnabas import errors
from barnabas.protocol.messages import streams_group_heartbeat_request as said
from barnabas.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

#: Sends a heartbeat; errors stand in the response.
Send = Callable[[said.StreamsGroupHeartbeatRequest], StreamsGroupHeartbeatResponse]
#: Sub-topology → tasks, for each role.
Tasks = dict[str, set[int]]

FENCED = (errors.FencedMemberEpochError.code, errors.UnknownMemberIdError.code)


def topic(name: str, partitions: int = 0, replicas: int = 0, **configs: str) -> said.TopicInfo:
    told = [said.KeyValue(key, value) for key, value in configs.items()]
    return said.TopicInfo(name, partitions, replicas, told)


def subtopology(
    id: str,
    *sources: str,
    changelogs: tuple[str, ...] = (),
    sinks: tuple[str, ...] = (),
    repartitions: tuple[str | said.TopicInfo, ...] = (),
    joined: tuple[tuple[list[int], list[int]], ...] = (),
) -> said.Subtopology:
    """`joined` are indexes of sources and of repartition topics."""
    return said.Subtopology(
        subtopology_id=id,
        source_topics=list(sources),
        state_changelog_topics=[topic(name) for name in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[topic(one) if isinstance(one, str) else one for one in repartitions],
        copartition_groups=[said.CopartitionGroup(left, [], right) for left, right in joined],
    )


#: Words are counted: by a repartition topic, into a store.
WORD_COUNT = (
    subtopology("0", "lines", sinks=("app-words",)),
    subtopology("1", changelogs=("app-counts",), repartitions=("app-words",)),
)


class StreamsMember:
    """Joins, takes tasks and gives them up as it is told; `keeps_revoked` has it not give up what it shall."""

    def __init__(
        self,
        send: Send,
        member_id: str,
        topology: tuple[said.Subtopology, ...] = WORD_COUNT,
        *,
        group: str = "g",
        process: str | None = None,
        endpoint: tuple[str, int] | None = None,
        tags: Mapping[str, str] | None = None,
        topology_epoch: int = 0,
    ) -> None:
        self.send = send
        self.id = member_id
        self.topology = topology
        self.topology_epoch = topology_epoch
        self.group = group
        self.process = process or member_id
        self.endpoint = endpoint
        self.tags = dict(tags or {})
        self.rebalance_timeout_ms = 60_000
        self.epoch = 0
        self.endpoint_epoch = 0
        self.owned: tuple[Tasks, Tasks, Tasks] = ({}, {}, {})
        self.endpoints: dict[tuple[str, int], Any] = {}
        self.statuses: dict[int, str] = {}
        self.shuts_down = False
        self.keeps_revoked = False
        self._reported: tuple[Tasks, Tasks, Tasks] | None = None

    def __repr__(self) -> str:
        return f"<{self.id} epoch={self.epoch} owned={self.owned}>"

    @property
    def active(self) -> Tasks:
        return self.owned[0]

    @property
    def standby(self) -> Tasks:
        return self.owned[1]

    def request(self, **fields: Any) -> said.StreamsGroupHeartbeatRequest:
        """The next heartbeat, with what has changed or, when it joins, with everything."""
        joins = self.epoch == 0
        told: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "endpoint_information_epoch": self.endpoint_epoch,
            "shutdown_application": self.shuts_down,
        }
        if joins:
            self.owned = ({}, {}, {})
            told["topology"] = said.Topology(self.topology_epoch, list(self.topology))
            told["rebalance_timeout_ms"] = self.rebalance_timeout_ms
            told["process_id"] = self.process
            told["user_endpoint"] = None if self.endpoint is None else said.Endpoint(*self.endpoint)
            told["client_tags"] = [said.KeyValue(key, value) for key, value in self.tags.items()]
        if joins or self.owned != self._reported:
            names = ("active_tasks", "standby_tasks", "warmup_tasks")
            told.update(zip(names, map(task_ids, self.owned), strict=True))
        told.update(fields)
        return said.StreamsGroupHeartbeatRequest(**told)

    def heartbeat(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """Send one, and do as the answer says; who is fenced begins anew with the next."""
        request = self.request(**fields)
        response = self.send(request)
        if response.error_code in FENCED:
            self.epoch, self.owned, self._reported = 0, ({}, {}, {}), None
        if response.error_code:
            return response
        if request.active_tasks is not None:
            self._reported = tuple(dict(tasks) for tasks in self.owned)  # type: ignore[assignment]
        self.epoch = max(response.member_epoch, 0)
        self.endpoint_epoch = response.endpoint_information_epoch
        self.statuses = {status.status_code: status.status_detail for status in response.status or ()}
        if response.partitions_by_user_endpoint is not None:
            self.endpoints = {
                (one.user_endpoint.host, one.user_endpoint.port): one for one in response.partitions_by_user_endpoint
            }
        if response.active_tasks is not None and not self.keeps_revoked:
            found = (response.active_tasks, response.standby_tasks or [], response.warmup_tasks or [])
            self.owned = tuple({one.subtopology_id: set(one.partitions) for one in tasks} for tasks in found)  # type: ignore[assignment]
        return response

    def leave(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        response = self.send(
            said.StreamsGroupHeartbeatRequest(
                group_id=self.group, member_id=self.id, member_epoch=-1, shutdown_application=self.shuts_down, **fields
            )
        )
        self.epoch, self.owned, self._reported = 0, ({}, {}, {}), None
        return response


def task_ids(tasks: Tasks) -> list[said.TaskIds]:
    return [said.TaskIds(name, sorted(tasks[name])) for name in sorted(tasks) if tasks[name]]


def settle(*members: StreamsMember, wait: Callable[[], object] = lambda: None, rounds: int = 20) -> None:
    """All send heartbeats, and do as told, until nothing changes any more."""
    quiet = 0
    for _ in range(rounds):
        before = [(member.epoch, member.owned) for member in members]
        for member in members:
            response = member.heartbeat()
            assert not response.error_code or response.error_code in FENCED, response.error_message
        wait()
        quiet = quiet + 1 if before == [(member.epoch, member.owned) for member in members] else 0
        if quiet == 2:
            return
    raise AssertionError(f"not settled after {rounds} rounds: {members}")
