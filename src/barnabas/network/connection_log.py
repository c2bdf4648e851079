"""Says in the log that brokers cannot be reached: once a minute for each, and once when it is back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.network.selectable import Disconnection

log = logging.getLogger("barnabas.network")

#: Seconds between two lines on a broker that stays away.
INTERVAL = 60.0


class ConnectionLog:
    """What is said of one client's connections; attempts in between are logged at DEBUG."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        # Node id to when it was first found away, when that was said last, and the attempts since.
        self._away: dict[int, tuple[float, float, int]] = {}

    def disconnected(
        self, node_id: int, disconnection: Disconnection, now: float, *, was_preparing: bool, unanswered: int
    ) -> str:
        """Say that a connection, or an attempt, ended; gives why no connection could be made, empty if one was.

        One that nothing was asked on ends for ordinary reasons, and costs nothing: its end is not said at INFO.
        """
        address, reason = disconnection.address, disconnection.reason
        where = f"{self._client_id}: the connection to node {node_id} ({address})"
        if disconnection.authentication_error is not None:
            self._say(logging.ERROR, f"{where} failed authentication: {reason}", node_id, now)
            return ""
        if not disconnection.was_connected:
            what = "could not be established"
        elif was_preparing:
            what = "ended before the broker said what it understands (does it expect TLS or SASL?)"
        else:
            level = logging.INFO if unanswered else logging.DEBUG
            text = "%s: node %s (%s) disconnected with %d requests unanswered: %s"
            log.log(level, text, self._client_id, node_id, address, unanswered, reason)
            return ""
        self._say(logging.WARNING, f"{where} {what}: {reason}", node_id, now)
        return f"the connection to {address} {what}: {reason}"

    def ready(self, node_id: int, now: float) -> None:
        """Say that a node is back, if it was away."""
        since, _, attempts = self._away.pop(node_id, (now, now, 0))
        if attempts:
            log.info("%s: node %s is back after %.0f s", self._client_id, node_id, now - since)
        else:
            log.debug("%s: node %s is ready", self._client_id, node_id)

    def _say(self, level: int, text: str, node_id: int, now: float) -> None:
        since, said_at, attempts = self._away.get(node_id, (now, now - INTERVAL, 0))
        is_due = now - said_at >= INTERVAL
        self._away[node_id] = since, now if is_due else said_at, attempts + 1
        if is_due and attempts:
            text += (
                f" (attempt {attempts + 1} in {now - since:.0f} s; what only this broker can do waits, and fails when "
                "its time is over)"
            )
        log.log(level if is_due else logging.DEBUG, "%s", text)
