"""This broker's part in the election of a controller, and the controller that it is then (KafkaController)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller.active_controller import ActiveController
from barnabas.broker.zookeeper.controller.broker_lifelines import BrokerLifelines, Life
from barnabas.broker.zookeeper.controller.controller_broker_request_batch import ControllerBrokerRequestBatch
from barnabas.broker.zookeeper.controller.controller_channel_manager import ControllerChannelManager
from barnabas.broker.zookeeper.controller.controller_context import ControllerContext
from barnabas.broker.zookeeper.controller.controller_election import Elected, depose, elect
from barnabas.broker.zookeeper.controller.controller_environment import ControllerEnvironment
from barnabas.broker.zookeeper.controller.controller_event_manager import ControllerEventManager
from barnabas.broker.zookeeper.controller.controller_stats import BALANCE, TAKING_OFFICE, ControllerStats
from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER
from barnabas.broker.zookeeper.controller.kafka_zk_client import KafkaZkClient
from barnabas.broker.zookeeper.operations import ConnectionLostError, Delete, Get, found_or_none, run

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.broker.zookeeper.controller.controller_channel_manager import OpenChannels
    from barnabas.broker.zookeeper.controller.controller_environment import ControllerSettings
    from barnabas.broker.zookeeper.operations import Program, ZooKeeperSession

#: How soon after the election the balance of leaderships is looked at for the first time, in seconds.
_FIRST_BALANCE = 5.0
#: How long a broker that could not take office leaves it to others, in seconds.
_PAUSE = 1.0
#: The same for one that has deposed a controller whose machine is silent for it, as it need not be for others.
_SHORT_PAUSE = 0.3
#: How often a controller in which an event met a fault of this program takes office anew, in seconds, at most.
_RENEWAL_INTERVAL = 60.0


class KafkaController:
    """Stands for election while this broker is registered; `active` is there while it is controller.

    `controller_id` is who `/controller` says, None while that is not known. `on_changed` is called when it may have
    changed. A service of the dispatcher: it looks after the balance of leaderships.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        session: ZooKeeperSession,
        channels: OpenChannels,
        random: random.Random,
        report: Callable[[str], None],
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._session = session
        self._channels = channels
        self._random = random
        self._report = report
        self._wall_clock_ms = wall_clock_ms
        self.stats = ControllerStats(lambda: wall_clock_ms() / 1000)
        self._session_id = 0
        self._registered_in: int | None = None
        self._connection = 0
        self._is_electing = False
        self._looks_again = False
        self._pauses_until: float | None = None
        self._is_pausing = False
        self._pause = _PAUSE
        self._is_disconnected = False
        self._session_ends: float | None = None
        self._balance_at: float | None = None
        self._events: ControllerEventManager | None = None
        self._renewed_at = -inf
        #: By id the epochs in which brokers' processes have ended, as this broker has seen.
        self._ended: dict[int, int] = {}
        self._controllers_life: Life | None = None
        #: The connections that tell of the end of brokers: of all for a controller, else of the controller.
        self.lifelines = BrokerLifelines(self._life_ended, settings.silence, settings.broker_id)
        self.lifelines.gone = self._life_silent
        self.active: ActiveController | None = None
        self.controller_id: int | None = None
        self.on_changed: Callable[[], None] = lambda: None

    # -- the session -------------------------------------------------------------------------------------------------

    def connected(self, session_id: int) -> None:
        """Go on in the same session, and read again what is watched, for no watch may be left; else begin anew."""
        self._lose_election()
        self._is_disconnected, self._session_ends = False, None
        if session_id != self._session_id:
            self._resign()
        self._session_id = session_id
        if self.active is not None and self._events is not None:
            self._events.resume()
            self.active.look_again()
        self._elect()

    def disconnected(self) -> None:
        """Wait: others are elected only when the session has ended, and brokers refuse an earlier controller then."""
        self._lose_election()
        self._is_disconnected, self._session_ends = True, None
        if self._events is not None:
            self._events.pause()

    def _lose_election(self) -> None:
        self._connection += 1
        self._is_electing = self._looks_again = False

    def begin_anew(self) -> None:
        """End the reign: a fault of this program may have left half of a change."""
        self._resign()

    def registered(self) -> None:
        """Stand for election from now on, as long as this session lasts."""
        self._registered_in = self._session_id
        self._elect()

    def changed(self, path: str) -> None:
        """Look again at a znode that has changed."""
        if path == CONTROLLER:
            self._elect()
        elif self.active is not None:
            self.active.changed(path)

    # -- the election ------------------------------------------------------------------------------------------------

    def _elect(self) -> None:
        if self._registered_in != self._session_id or self._is_pausing or self._is_disconnected:
            return
        if self._is_electing:
            self._looks_again = True
            return
        self._is_electing = True
        connection = self._connection
        epoch = None if self.active is None else self.active.context.epoch
        program = elect(self._settings.broker_id, self._session_id, self._wall_clock_ms(), epoch)

        def finished(result: Elected | errors.KafkaError) -> None:
            if connection == self._connection:
                self._is_electing = False
                self._on_elected(result)

        run(self._session, program, finished)

    def _on_elected(self, result: Elected | errors.KafkaError) -> None:
        if isinstance(result, ConnectionLostError):
            return
        if isinstance(result, errors.KafkaError):
            self._report(f"this broker takes no part in the election of a controller: {result}")
        else:
            self.controller_id = result.controller_id
            if result.epoch >= 0 or result.controller_id != self._settings.broker_id:
                self._resign()
            if result.epoch >= 0:
                self._begin(result)
            self._watch_controller()
            self.on_changed()
        if self._looks_again:
            self._looks_again = False
            self._elect()

    def _begin(self, elected: Elected) -> None:
        settings, context = self._settings, ControllerContext(elected.epoch, self._ended)
        channels = ControllerChannelManager(
            self._channels, self.lifelines, settings.listener, self._report, self.stats, lambda: events.fail()
        )

        def new_batch() -> ControllerBrokerRequestBatch:
            return ControllerBrokerRequestBatch(
                settings.broker_id, settings.listener, context, channels.send, controller
            )

        zk = KafkaZkClient(elected.epoch, elected.epoch_version, self._report)
        environment = ControllerEnvironment(context, zk, settings, new_batch, self._report, self.stats)
        events = self._events = ControllerEventManager(self._session, self._report, self._moved, self.stats)
        controller = self.active = ActiveController(environment, events, channels, self._random)
        self._balance_at = None
        controller.put(TAKING_OFFICE, lambda: self._failover(controller, channels))

    def _failover(self, controller: ActiveController, channels: ControllerChannelManager) -> Program[None]:
        try:
            yield from controller.failover()
            self._let_go(channels)
        except (errors.ControllerMovedError, ConnectionLostError):
            raise
        except Exception as problem:
            # What is half read must not lead to decisions: another broker may do better.
            self._report(
                f"this broker cannot be controller, and leaves it to others: {type(problem).__name__}: {problem}"
            )
            self._is_pausing, self._pause = True, _PAUSE
            yield from controller.environment.zk.write([Delete(CONTROLLER)])
            raise errors.ControllerMovedError("this broker has resigned as controller") from problem

    def _moved(self) -> None:
        """Resign, and see who is controller."""
        self._resign()
        self._elect()

    def _resign(self) -> None:
        controller, self.active = self.active, None
        if controller is not None:
            controller.close()
            self.on_changed()

    # -- the end of brokers ------------------------------------------------------------------------------------------

    def _watch_controller(self) -> None:
        """Hold the lifeline of the broker that is controller, if that is another one.

        Who takes office itself keeps that of the controller before until it holds those of all brokers: by what was
        learned on it already, that machine may soon be given up.
        """
        number, connection = self.controller_id, self._connection
        if self.active is not None:
            return
        if number is None or number == self._settings.broker_id:
            self._hold(None)
            return
        path = f"{znodes.BROKER_IDS}/{number}"

        def program() -> Program[Life | None]:
            (result,) = yield [Get(path)]
            found = found_or_none(result)
            if found is None:
                return None
            listeners, _ = znodes.decode_broker(path, found.data)
            endpoint = listeners.get(self._settings.listener)
            return None if endpoint is None else Life(number, found.created, endpoint.host, endpoint.port)

        def finished(life: Life | errors.KafkaError | None) -> None:
            if connection != self._connection or self.controller_id != number or self.active is not None:
                return
            self._hold(life if isinstance(life, Life) and self._ended.get(number) != life.epoch else None)
            self.on_changed()

        run(self._session, program(), finished)

    def _hold(self, life: Life | None) -> None:
        """Hold the lifeline of a controller, and no other's."""
        before, self._controllers_life = self._controllers_life, life
        if before is not None and before != life:
            self.lifelines.forget(before)
        if life is not None:
            self.lifelines.watch(life)

    def _let_go(self, channels: ControllerChannelManager) -> None:
        """Leave the lifeline of the controller before to the office, which has none of it if its session is over."""
        life, self._controllers_life = self._controllers_life, None
        if life is not None and not channels.holds(life):
            self.lifelines.forget(life)

    def _life_ended(self, life: Life) -> None:
        """Act on the end of a broker's process as on that of its session, which may take long to be seen."""
        self._give_up(life, f"has ended: its connection did, and {life.host}:{life.port} refuses others")

    def _life_silent(self, life: Life) -> None:
        """Act likewise on a machine from which nothing comes; who deposes it may be badly placed, and stands last."""
        deposes = self.active is None and life.id == self.controller_id
        if deposes:
            self._is_pausing, self._pause = True, _SHORT_PAUSE
        self._give_up(life, f"is silent: nothing comes back from {life.host}:{life.port}, and others are reached")

    def _give_up(self, life: Life, why: str) -> None:
        self._ended[life.id] = max(life.epoch, self._ended.get(life.id, life.epoch))
        self._report(f"broker {life.id} {why}. It is taken for dead before its session expires")
        if self.active is not None:
            self.active.changed(znodes.BROKER_IDS)
        elif life.id == self.controller_id:
            run(self._session, depose(life.id, life.epoch), self._deposed)

    def _deposed(self, result: bool | errors.KafkaError) -> None:
        if result is not True and self._is_pausing and self._pause == _SHORT_PAUSE:
            # Another one has done it, and leaves the election to this one.
            self._is_pausing, self._pauses_until = False, None
            self._elect()

    # -- time --------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When `tick` is due."""
        if self._is_pausing:
            return -inf if self._pauses_until is None else self._pauses_until
        if self.active is None:
            return inf
        if self._is_disconnected:
            return -inf if self._session_ends is None else self._session_ends
        renewal = self._renewed_at + _RENEWAL_INTERVAL if self._has_failed else inf
        if not self._settings.rebalances:
            return renewal
        return -inf if self._balance_at is None else min(self._balance_at, renewal)

    @property
    def _has_failed(self) -> bool:
        """Whether what the controller knows may not be what ZooKeeper has."""
        return self._events is not None and self._events.has_failed

    def tick(self, instant: Instant) -> None:
        """Stand for election again after a pause; take office anew after a fault; balance the leaderships."""
        now = instant.now
        if self._is_pausing:
            if self._pauses_until is None:
                self._pauses_until = now + self._pause
            elif now >= self._pauses_until:
                self._is_pausing, self._pauses_until = False, None
                self._elect()
        elif self.active is None:
            return
        elif self._is_disconnected:
            self._wait_for_session(now)
        elif self._has_failed and now >= self._renewed_at + _RENEWAL_INTERVAL:
            self._renewed_at = now
            self._moved()
        elif self._balance_at is None:
            self._balance_at = now + _FIRST_BALANCE
        elif now >= self._balance_at:
            self._balance_at = now + self._settings.imbalance_interval
            self.active.put(BALANCE, self.active.preferred.balance)

    def _wait_for_session(self, now: float) -> None:
        """Resign when the session has ended by all that can be known here: who asks is sent to another controller."""
        if self._session_ends is None:
            self._session_ends = now + self._settings.session_timeout
        elif now >= self._session_ends:
            self._resign()
