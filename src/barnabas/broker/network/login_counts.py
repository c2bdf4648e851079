"""How often clients have shown who they are, and how often they have not (Kafka's socket-server-metrics)."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import NamedTuple


class LoginOutcome(Enum):
    """What has come of a login; `value` is the name of Kafka's metric."""

    SUCCESSFUL = "successful_authentication"
    FAILED = "failed_authentication"
    RENEWED = "successful_reauthentication"
    NOT_RENEWED = "failed_reauthentication"
    #: The session has ended, and the connection went on asking.
    EXPIRED = "expired_connections_killed"


class LoginKind(NamedTuple):
    """What is counted apart. `mechanism` is SASL's, "SSL" for a certificate or handshake, "" before it was chosen."""

    listener: str
    mechanism: str
    outcome: LoginOutcome


class LoginCounts:
    """Counts since the broker's start."""

    def __init__(self) -> None:
        self.by_kind: Counter[LoginKind] = Counter()

    def count(self, listener: str, mechanism: str, outcome: LoginOutcome) -> None:
        """Count one."""
        self.by_kind[LoginKind(listener, mechanism, outcome)] += 1
