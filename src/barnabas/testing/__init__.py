"""For test suites: fixtures, clients without a broker, faults on the way, and a simulator."""

from __future__ import annotations

from barnabas import _lazily

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from barnabas.client.environment import Environment
    from barnabas.testing.fault_proxy import FaultProxy
    from barnabas.testing.mock_consumer import MockConsumer
    from barnabas.testing.mock_producer import MockProducer

__all__ = [
    "Environment",
    "FaultProxy",
    "MockConsumer",
    "MockProducer",
]

_HOMES = {
    "barnabas.client.environment": "Environment",
    "barnabas.testing.fault_proxy": "FaultProxy",
    "barnabas.testing.mock_consumer": "MockConsumer",
    "barnabas.testing.mock_producer": "MockProducer",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
