"""What a controller reads and writes in ZooKeeper, as programs (KafkaZkClient)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from barnabas import errors
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller import controller_znodes
from barnabas.broker.zookeeper.controller.controller_context import LeaderAndIsr, LiveBroker
from barnabas.broker.zookeeper.operations import (
    BadVersionError,
    Check,
    Children,
    ConnectionLostError,
    Create,
    Delete,
    Get,
    Multi,
    NodeExistsError,
    NoNodeError,
    SetData,
    Znode,
    ZooKeeperError,
    expect,
    found_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from barnabas.broker.zookeeper.controller.controller_context import ReplicaAssignment
    from barnabas.broker.zookeeper.operations import Program, Result
    from barnabas.protocol.topic_partition import TopicPartition

T = TypeVar("T")
#: So many writes go in one transaction; a server takes 1 MB.
_TOGETHER = 100
Write = Create | SetData | Delete


class KafkaZkClient:
    """Every write is one transaction with a check that no other controller has raised the epoch meanwhile.

    Programs raise `ControllerMovedError` where one has, and `ConnectionLostError` where nothing is known.
    """

    def __init__(self, epoch: int, epoch_version: int, report: Callable[[str], None]) -> None:
        self.epoch = epoch
        self._fence = Check(controller_znodes.CONTROLLER_EPOCH, epoch_version)
        self._report = report

    # -- how ---------------------------------------------------------------------------------------------------------

    def write(self, writes: Sequence[Write]) -> Program[list[Result]]:
        """Carry writes out, each for itself; returns their results, what has failed as a `ZooKeeperError`.

        Many go in one transaction, which costs the server one sync. Where one of them fails, all of that transaction
        are carried out again, one by one.
        """
        chunks = [writes[start : start + _TOGETHER] for start in range(0, len(writes), _TOGETHER)]
        found = yield [Multi((self._fence, *chunk)) for chunk in chunks]
        results: list[Result] = []
        for chunk, result in zip(chunks, found, strict=True):
            done = self._checked(result)
            if isinstance(done, list):
                results += done[1:]
            elif len(chunk) == 1:
                results.append(done)
            else:
                single = yield [Multi((self._fence, write)) for write in chunk]
                results += [told[1] if isinstance(told := self._checked(one), list) else told for one in single]
        return results

    def write_together(self, writes: Sequence[Write]) -> Program[None]:
        """Carry out all writes or none. Raises `ZooKeeperError` for none."""
        (result,) = yield [Multi((self._fence, *writes))]
        found = self._checked(result)
        if isinstance(found, ZooKeeperError):
            raise found

    def _checked(self, result: Result) -> Result:
        if isinstance(result, ConnectionLostError):
            raise result
        moved = isinstance(result, BadVersionError | NoNodeError) and result.path == self._fence.path
        if moved:
            raise errors.ControllerMovedError(f"controller epoch {self.epoch} is over: another broker is controller")
        return result

    def read(
        self, paths: Sequence[str], decode: Callable[[str, bytes | None], T], *, watch: bool = False
    ) -> Program[dict[str, tuple[T, Znode]]]:
        """Read znodes; those that are missing are left out, and so are malformed ones, which are reported."""
        results = yield [Get(path, watch) for path in paths]
        found: dict[str, tuple[T, Znode]] = {}
        for path, result in zip(paths, results, strict=True):
            znode = found_or_none(result)
            if znode is None:
                continue
            try:
                found[path] = decode(path, znode.data), znode
            except znodes.MalformedZnodeError as problem:
                self._report(f"the controller leaves out what it cannot read: {problem}")
        return found

    def children(self, path: str, *, watch: bool = False) -> Program[list[str]]:
        """Return the names of a znode's children; none where it is missing."""
        (names,) = yield [Children(path, watch)]
        return [] if isinstance(names, NoNodeError) else expect(names, list)

    # -- brokers and topics ------------------------------------------------------------------------------------------

    def live_brokers(self) -> Program[dict[int, LiveBroker]]:
        """Return the registered brokers, and watch for others; each one's registration is watched too."""
        names = yield from self.children(znodes.BROKER_IDS, watch=True)
        return (yield from self.brokers([int(name) for name in names if name.isdecimal()]))

    def brokers(self, ids: Iterable[int]) -> Program[dict[int, LiveBroker]]:
        """Return those of these brokers that are registered, and watch their registrations."""
        paths = {f"{znodes.BROKER_IDS}/{number}": number for number in sorted(ids)}
        found = yield from self.read(list(paths), znodes.decode_broker, watch=True)
        return {paths[path]: LiveBroker(paths[path], at.created, *value) for path, (value, at) in found.items()}

    def topics(self, names: Collection[str]) -> Program[dict[str, znodes.TopicZnode]]:
        """Return the assignments of topics, and watch them."""
        paths = {znodes.topic_path(name): name for name in sorted(names)}
        found = yield from self.read(list(paths), znodes.decode_topic, watch=True)
        return {paths[path]: value for path, (value, _) in found.items()}

    def set_topic(
        self,
        topic: str,
        topic_id: bytes,
        assignments: Mapping[int, ReplicaAssignment],
        *,
        drops_others: bool = False,
    ) -> Program[None]:
        """Write the assignment of a topic that is there. Raises `ZooKeeperError`.

        Partitions that a tool has added meanwhile stay, except with `drops_others`.
        """
        path, value = znodes.topic_path(topic), topic_znode(topic_id, assignments)
        while True:
            (result,) = yield [Get(path)]
            found = expect(result, Znode)
            there = znodes.decode_topic(path, found.data)
            if there.topic_id not in (None, topic_id):
                raise NoNodeError(path, "another topic of that name is there")
            data = znodes.encode_topic(value if drops_others else _with_others(value, there))
            (written,) = yield from self.write([SetData(path, data, found.version)])
            if not isinstance(written, BadVersionError):
                expect(written, int)
                return

    def delete_topic(self, topic: str) -> Program[None]:
        """Delete a topic: first its partitions, then together the topic, its settings, and the wish to delete it.

        So no other topic of that name can be there while the wish is.
        """
        path = znodes.topic_path(topic)
        yield from self.delete_below(path)
        last = [path, f"{znodes.CONFIG}/topics/{topic}", f"{znodes.DELETE_TOPICS}/{topic}"]
        results = yield [Get(one) for one in last]
        there = [one for one, found in zip(last, results, strict=True) if found_or_none(found) is not None]
        if there:
            yield from self.write_together([Delete(one) for one in there])

    def delete_below(self, path: str) -> Program[None]:
        """Delete all that is below a znode."""
        for name in (yield from self.children(path)):
            below = f"{path}/{name}"
            yield from self.delete_below(below)
            yield from self.delete([below])

    def delete(self, paths: Sequence[str]) -> Program[None]:
        """Delete znodes; one that is missing is fine. Raises `ZooKeeperError` for others."""
        for result in (yield from self.write([Delete(path) for path in paths])):
            if isinstance(result, ZooKeeperError) and not isinstance(result, NoNodeError):
                raise result

    # -- states of partitions ----------------------------------------------------------------------------------------

    def states(self, partitions: Sequence[TopicPartition]) -> Program[dict[TopicPartition, LeaderAndIsr]]:
        """Return the states of those partitions that have one."""
        paths = {znodes.state_path(*name): name for name in partitions}
        found = yield from self.read(list(paths), znodes.decode_state)
        return {
            paths[path]: LeaderAndIsr(
                state.leader,
                state.isr,
                state.leader_epoch,
                at.version,
                state.leader_recovery_state,
                state.controller_epoch,
            )
            for path, (state, at) in found.items()
        }

    def create_states(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> Program[list[TopicPartition]]:
        """Make the first states of partitions; returns those that have had none before."""
        topics = dict.fromkeys(f"{znodes.topic_path(name.topic)}/partitions" for name in states)
        yield from self.write([Create(path) for path in topics])
        yield from self.write([Create(znodes.state_path(*name).removesuffix("/state")) for name in states])
        results = yield from self.write(
            [Create(znodes.state_path(*name), self._encoded(state)) for name, state in states.items()]
        )
        made = []
        for name, result in zip(states, results, strict=True):
            if not isinstance(result, ZooKeeperError):
                made.append(name)
            elif not isinstance(result, NodeExistsError | NoNodeError):
                raise result
        return made

    def update_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr]
    ) -> Program[tuple[dict[TopicPartition, LeaderAndIsr], list[TopicPartition]]]:
        """Write states that follow the version that they have.

        Returns those that are written, in their new version, and the partitions whose state has another version or is
        gone.
        """
        writes = [
            SetData(znodes.state_path(*name), self._encoded(state), state.partition_epoch)
            for name, state in states.items()
        ]
        results = yield from self.write(writes)
        done: dict[TopicPartition, LeaderAndIsr] = {}
        stale = []
        for (name, state), result in zip(states.items(), results, strict=True):
            if isinstance(result, BadVersionError | NoNodeError):
                stale.append(name)
            else:
                version = expect(result, int)
                done[name] = state._replace(partition_epoch=version, controller_epoch=self.epoch)
        return done, stale

    def _encoded(self, state: LeaderAndIsr) -> bytes:
        found = znodes.PartitionState(
            state.leader, state.leader_epoch, state.isr, self.epoch, state.leader_recovery_state
        )
        return znodes.encode_state(found)


def _with_others(value: znodes.TopicZnode, there: znodes.TopicZnode) -> znodes.TopicZnode:
    """Return an assignment with those partitions of another one that it does not have."""
    added = {index: replicas for index, replicas in there.replicas.items() if index not in value.replicas}
    return value._replace(replicas={**value.replicas, **added})


def topic_znode(topic_id: bytes, assignments: Mapping[int, ReplicaAssignment]) -> znodes.TopicZnode:
    """Return what stands in a topic's znode."""
    return znodes.TopicZnode(
        topic_id,
        {index: found.replicas for index, found in assignments.items()},
        {index: found.adding for index, found in assignments.items() if found.adding},
        {index: found.removing for index, found in assignments.items() if found.removing},
    )
