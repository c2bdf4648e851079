"""A broker's ephemeral znode in `/brokers/ids` (KafkaZkClient.registerBroker)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.membership.broker_lifecycle import NO_EPOCH
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER, CONTROLLER_EPOCH
from barnabas.broker.zookeeper.operations import (
    BadVersionError,
    Check,
    ConnectionLostError,
    Create,
    Created,
    Delete,
    Get,
    Multi,
    NodeExistsError,
    NoNodeError,
    Program,
    Znode,
    ZooKeeperError,
    expect,
    found_or_none,
    run,
)
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.zookeeper.operations import ZooKeeperSession


#: No transaction id is above it.
_LATEST = 2**63 - 1


class Registration:
    """Keeps a broker registered in every session that it has; `done` is called when it is, in a new epoch.

    The epoch is the transaction id of the znode's creation. While the znode of another session is there, it waits until
    that is gone; but where that names the very address at which this process listens, it is that of the broker's last
    life, which has ended, and is deleted. So is `/controller` of that life.
    """

    def __init__(
        self, me: int, session: ZooKeeperSession, report: Callable[[str], None], done: Callable[[], None]
    ) -> None:
        self._path = f"{znodes.BROKER_IDS}/{me}"
        self._me = me
        self._session = session
        self._report = report
        self._done = done
        self._data: Callable[[], bytes] | None = None
        self._session_id = 0
        self._is_registered = False
        self._is_waiting = False
        self.broker_epoch = NO_EPOCH
        #: What is told to a broker of this epoch, or an earlier one, is for another process in this one's place, the
        #: broker's last life for instance; so is all before this one begins to register.
        self.other_epoch = _LATEST
        #: Told when what was asked of ZooKeeper tells which epochs are for another process.
        self.on_decided: Callable[[], None] = lambda: None

    @property
    def is_undecided(self) -> bool:
        """Whether it has begun, and ZooKeeper has not said yet what is for this process and what for another one."""
        return self.other_epoch == self.broker_epoch == NO_EPOCH

    def begin(self, data: Callable[[], bytes]) -> None:
        """Register from now on, with what `data` gives."""
        self._data, self.other_epoch = data, NO_EPOCH
        self._register()

    def connected(self, session_id: int) -> None:
        """Register anew in a new session, or go on with what was interrupted."""
        if session_id != self._session_id:
            self._session_id, self._is_registered = session_id, False
        self._register()

    def changed(self, path: str) -> None:
        """Try again when the znode of another session is gone."""
        if path == self._path:
            self._register()

    def _register(self) -> None:
        if self._data is not None and not self._is_registered and self._session_id:
            run(self._session, self._program(self._data(), self._session_id), self._finished)

    def _program(self, data: bytes, session_id: int) -> Program[Znode]:
        while True:
            (made,) = yield [Create(self._path, data, ephemeral=True)]
            if not isinstance(made, NodeExistsError):
                return Znode(data, 0, expect(made, Created).created, session_id)
            (result,) = yield [Get(self._path, watch=True)]
            found = found_or_none(result)
            if found is None:
                continue
            if found.owner in (0, session_id) or not self._is_of_last_life(found.data, data):
                return found
            self.other_epoch = found.created
            yield from self._end_last_life(found)

    def _is_of_last_life(self, found: bytes | None, data: bytes) -> bool:
        """Whether a znode names this process's addresses: no other one can listen there."""
        try:
            listeners, _ = znodes.decode_broker(self._path, found)
        except znodes.MalformedZnodeError:
            return False
        return bool(listeners) and listeners == znodes.decode_broker(self._path, data)[0]

    def _end_last_life(self, found: Znode) -> Program[None]:
        results = yield [Get(CONTROLLER_EPOCH), Get(CONTROLLER)]
        raised, controller = map(found_or_none, results)
        operations: tuple[Check | Delete, ...] = (Delete(self._path, found.version),)
        if raised is not None and controller is not None and controller.owner == found.owner:
            checked = Check(CONTROLLER_EPOCH, raised.version)
            operations = (*operations, checked, Delete(CONTROLLER, controller.version))
        (result,) = yield [Multi(operations)]
        if isinstance(result, ZooKeeperError) and not isinstance(result, BadVersionError | NoNodeError):
            raise result

    def _finished(self, result: Znode | KafkaError) -> None:
        if isinstance(result, ConnectionLostError) or self._is_registered:
            # It goes on when the session is connected again.
            return
        if isinstance(result, KafkaError):
            self._report(f"broker {self._me} is not registered: {result}")
        elif result.owner != self._session_id:
            self.other_epoch = result.created
            if not self._is_waiting:
                self._is_waiting = True
                self._report(
                    f"another process with broker.id={self._me} is registered in ZooKeeper; this one waits until it is "
                    "gone. If it was this broker's last life, its session expires after zookeeper.session.timeout.ms"
                )
            self.on_decided()
        else:
            self.broker_epoch = result.created
            self._done()
            # Last: what a fault has kept from being done is done when all begins anew.
            self._is_registered, self._is_waiting = True, False
            self.on_decided()
