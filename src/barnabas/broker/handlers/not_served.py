"""The APIs of Kafka that are not served, and why; ApiVersions leaves them out. `docs/reference/apis.md` has all."""

from __future__ import annotations

_CLUSTER = "the controllers of a cluster answer it, to whom a member of one forwards it; a broker alone does not"
_CONTROLLER = "spoken among brokers and controllers only; here one process is both"
_RAFT = "part of the controllers' quorum, which one broker does not need"
_OLD = "removed in Kafka 4.0"

#: API key → the reason.
NOT_SERVED: dict[int, str] = {
    4: _OLD,
    5: _OLD,
    6: _OLD,
    7: _OLD,
    52: _RAFT,
    53: _RAFT,
    54: _RAFT,
    55: _CLUSTER,
    56: _CONTROLLER,
    58: _CONTROLLER,
    59: _RAFT,
    62: _CONTROLLER,
    63: _CONTROLLER,
    64: _CLUSTER,
    67: _CONTROLLER,
    70: _CONTROLLER,
    73: _CONTROLLER,
    80: _RAFT,
    81: _RAFT,
    82: _RAFT,
}
