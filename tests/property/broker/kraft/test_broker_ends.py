"""A broker whose process has ended is fenced at once, one that lives is not; and faults planted in it are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from barnabas.broker import silent_machines
from barnabas.broker.controller.controller_result import ControllerResult
from barnabas.broker.controller.replication_control_manager import ReplicationControlManager
from barnabas.broker.kraft import broker_probes
from barnabas.broker.kraft.broker_probes import BrokerProbes
from barnabas.broker.silent_machines import Silence, SilentMachines
from tests.support.broker_ends import BrokenPromiseError, play

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from barnabas.broker.controller.broker_heartbeat_manager import BrokerIdAndEpoch
    from barnabas.broker.kraft.broker_probes import Probe


@pytest.mark.parametrize("seed", range(3))
def test_who_has_ended_is_fenced_and_who_lives_is_not(seed: int) -> None:
    play(seed, 20.0)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_who_has_ended_is_fenced_and_who_lives_is_not_in_many_histories(first: int) -> None:
    for seed in range(first, first + 100):
        play(seed)


def _anything_but_open_is_refused(patch: pytest.MonkeyPatch) -> None:
    answered = BrokerProbes.answered

    def tell(self: BrokerProbes, probe: Probe, *, is_open: bool, now: float, **_: bool) -> None:
        answered(self, probe, is_open=is_open, is_refused=not is_open, now=now)

    patch.setattr(BrokerProbes, "answered", tell)


def _a_port_counts_that_was_never_open(patch: pytest.MonkeyPatch) -> None:
    begin = broker_probes._Life.__init__

    def seen(self: broker_probes._Life, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        self.was_open = True

    patch.setattr(broker_probes._Life, "__init__", seen)


def _an_open_port_ends_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker_probes, "_MOST_PROBES", 0)


def _one_attempt_is_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(silent_machines, "_ATTEMPTS", 1)
    patch.setattr(SilentMachines, "is_gone", lambda self, key: key in self._silent)


def _nobody_is_asked_who_is_cut_off(patch: pytest.MonkeyPatch) -> None:
    def asks(self: SilentMachines[BrokerIdAndEpoch], key: BrokerIdAndEpoch, others: object) -> None:
        if key in self._silent:
            self._silent[key].is_backed = True

    patch.setattr(SilentMachines, "asks", asks)


def _who_was_heard_at_any_time_counts(patch: pytest.MonkeyPatch) -> None:
    def asks(self: SilentMachines[BrokerIdAndEpoch], key: BrokerIdAndEpoch, others: Collection[object]) -> None:
        if key in self._silent:
            self._silent[key].is_backed = 2 * sum(other in self._heard for other in others) > len(others)

    patch.setattr(SilentMachines, "asks", asks)


def _signs_of_life_void_nothing(patch: pytest.MonkeyPatch) -> None:
    def heard(self: SilentMachines[BrokerIdAndEpoch], key: BrokerIdAndEpoch, now: float) -> None:
        self._heard[key] = now

    patch.setattr(SilentMachines, "heard", heard)


def _silence_tells_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Silence, "of", classmethod(lambda _class, configured_ms, session: None))


def _connections_that_end_tell_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerProbes, "connection_ended", lambda _self, _connection, _now: None)


def _whichever_life_is_fenced(patch: pytest.MonkeyPatch) -> None:
    """Look neither whether the life has a session nor whether it is the present one."""

    def fence(self: ReplicationControlManager, whose: BrokerIdAndEpoch) -> ControllerResult[bool]:
        broker = self._state.registration(whose.id)
        return ControllerResult(self.fenced(broker) if broker is not None else (), True)

    patch.setattr(ReplicationControlManager, "fence_ended", fence)
    patch.setattr(BrokerProbes, "_take", _take_only_what_is_new)


def _take_only_what_is_new(self: BrokerProbes, brokers: object, now: float) -> None:
    """Keep the lives that have ended."""
    old = dict(self._lives)
    _TAKE(self, brokers, now)  # type: ignore[arg-type]
    self._lives.update({number: life for number, life in old.items() if life.is_suspect})


_TAKE = BrokerProbes._take


_FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a connection that is not made in time counts as refused": _anything_but_open_is_refused,
    "a port counts that was never open": _a_port_counts_that_was_never_open,
    "no port is asked again that was open": _an_open_port_ends_it,
    "one attempt that comes to nothing is enough": _one_attempt_is_enough,
    "nobody is asked whether the controller is cut off": _nobody_is_asked_who_is_cut_off,
    "who was heard at any time tells that the controller is not cut off": _who_was_heard_at_any_time_counts,
    "signs of life void no attempt that came to nothing": _signs_of_life_void_nothing,
    "silence tells nothing": _silence_tells_nothing,
    "connections that end tell nothing": _connections_that_end_tell_nothing,
    "another life is fenced": _whichever_life_is_fenced,
}


def _play_many(histories: int) -> None:
    for seed in range(histories):
        play(seed)


@pytest.mark.parametrize("name", sorted(_FAULTS))
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _FAULTS[name](monkeypatch)
    with pytest.raises(BrokenPromiseError):
        _play_many(60)
