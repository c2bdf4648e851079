"""Clocks of several processes: how far they are apart, by the requests between them.

A request leaves the client, reaches the broker, is answered there, and the answer comes back, in this order. Where both
sides told of it, each of the two ways bounds how much later the broker's clock may be; all requests together leave a
narrow range, as in NTP.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from barnabas.anatomy import events

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

#: Changes with each start of a Linux machine, as its monotonic clock does.
_BOOT = Path("/proc/sys/kernel/random/boot_id")
#: Client id, port and correlation id: which request it is.
_Which = tuple[str, int, int]
_Told = Sequence[tuple[float, "Event"]]


class _Sides(NamedTuple):
    """When requests left and came back at the clients of a recording, and when its brokers took them and answered."""

    left: dict[_Which, float]
    back: dict[_Which, float]
    taken: dict[_Which, float]
    answered: dict[_Which, float]


def of_this_machine() -> str:
    """Return the name of the clock that this process tells times by; empty where the system has none."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def shifts(recordings: Sequence[tuple[str, _Told]]) -> list[float]:
    """Return the seconds to add to the times of each recording, so that no effect is before its cause.

    Each comes with the name of its clock, empty where that is not known; what has the same clock is not shifted. The
    first of those that have requests in common keeps its times.
    """
    if len({clock for clock, _ in recordings}) == 1 and recordings[0][0]:
        return [0.0] * len(recordings)
    sides = [_sides(told) for _, told in recordings]
    found: list[float | None] = [None] * len(recordings)
    for first in range(len(recordings)):
        if found[first] is not None:
            continue
        found[first] = 0.0
        reached = [first]
        for known in reached:
            for other in range(len(recordings)):
                is_known = found[other] is not None
                shift = None if is_known else _shift(sides[known], sides[other])
                if not is_known and recordings[known][0] and recordings[known][0] == recordings[other][0]:
                    shift = 0.0
                if shift is not None:
                    found[other] = (found[known] or 0.0) + shift
                    reached.append(other)
    return [shift or 0.0 for shift in found]


def _sides(told: _Told) -> _Sides:
    sides = _Sides({}, {}, {}, {})
    ports: dict[tuple[str, int, int], int] = {}
    for at, event in told:
        if isinstance(event, events.RequestInFlight):
            ports[event.client, event.core, event.correlation] = event.port
            sides.left[event.client, event.port, event.correlation] = at
        elif isinstance(event, events.RequestAnswered) and not event.error:
            port = ports.pop((event.client, event.core, event.correlation), 0)
            sides.back[event.client, port, event.correlation] = at
        elif isinstance(event, events.RequestReceived):
            sides.taken[event.client, event.port, event.correlation] = at
        elif isinstance(event, events.ResponseSent):
            sides.answered[event.client, event.port, event.correlation] = at
    return sides


def _shift(known: _Sides, other: _Sides) -> float | None:
    """Return what to add to the times of `other` so that they fit; None where the two have no request in common."""
    least = max((*_apart(known.left, other.taken), *_apart(known.answered, other.back)), default=-inf)
    most = min((*_apart(known.back, other.answered), *_apart(known.taken, other.left)), default=inf)
    if least == -inf and most == inf:
        return None
    if least <= 0 <= most:
        return 0.0
    if least == -inf or most == inf:
        return least if most == inf else most
    return (least + most) / 2


def _apart(known: dict[_Which, float], other: dict[_Which, float]) -> Iterable[float]:
    return (known[which] - other[which] for which in known.keys() & other.keys() if which[1])
