"""A program that a session of a model of ZooKeeper carries out."""

from __future__ import annotations

from typing import TypeVar

from barnabas.broker.zookeeper.operations import Program, run
from barnabas.errors import KafkaError
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper

T = TypeVar("T")


def carried_out(zookeeper: ModelZooKeeper, program: Program[T]) -> list[T | KafkaError]:
    """Return what it ends with: one result, none where it is not answered."""
    session, found = zookeeper.session(), list[T | KafkaError]()

    class Listener:
        def connected(self, session_id: int) -> None:
            run(session, program, found.append)

        def disconnected(self) -> None:
            pass

        def changed(self, path: str) -> None:
            pass

    session.start(Listener())
    zookeeper.deliver()
    return found
