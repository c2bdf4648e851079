"""Fuzzing: any bytes, to the broker as frames, to a log as files, to a client as responses. See `python -m tools.fuzz`.

A target takes bytes and raises only when something is wrong: an error that is no clean one, or two answers that
disagree. The corpus of each is a file in `tests/fuzz/corpus`, one input a line in hexadecimal.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

#: Target → (its module here, what it is about). A module has `run(data)` and `seeds()`.
TARGETS = {
    "broker": ("broker_frames", "frames of every API, to a broker with topics, a group and a transaction"),
    "logins": ("logins", "what a connection sends before it has authenticated, by SASL and TLS"),
    "log": ("log_files", "damaged files of a log: segments, indexes, snapshots, checkpoints"),
    "coordinators": ("coordinator_records", "records in the topics of groups and transactions"),
    "messages": ("messages", "responses and all other messages, decoded"),
    "records": ("record_batches", "record batches, by every reader"),
}


class Target(Protocol):
    """What can be fuzzed."""

    def run(self, data: bytes) -> None:
        """Work on one input. Raises what is wrong."""

    def seeds(self) -> list[bytes]:
        """Return inputs to begin with, made from what is known to be valid."""


def target(name: str) -> Target:
    """Return a target by its name."""
    module: Target = import_module(f"tools.fuzz.{TARGETS[name][0]}")
    return module
