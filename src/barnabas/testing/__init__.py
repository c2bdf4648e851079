"""For test suites: fixtures, clients without a broker, faults on the way, and a simulator.

- `plugin`: pytest's fixtures. It imports nothing of barnabas before one is asked for.
- `fault_proxy`: `FaultProxy` stands between any client and any broker, one thread of its own over
  `proxied_connection`.
- `mock_producer`, `mock_consumer`, `mock_share_consumer`: the clients without a broker, for tests of applications.
- `verifiable_producer`, `verifiable_consumer`: Kafka's, event for event.
- `simulator`: broker and clients on virtual time, with faults drawn from a seed.

docs/guide/testing.md is run by a test.
"""

from __future__ import annotations

from barnabas import _lazily

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from barnabas.client.environment import Environment
    from barnabas.testing.fault_proxy import FaultProxy
    from barnabas.testing.mock_consumer import MockConsumer
    from barnabas.testing.mock_producer import MockProducer
    from barnabas.testing.mock_share_consumer import MockShareConsumer

__all__ = [
    "Environment",
    "FaultProxy",
    "MockConsumer",
    "MockProducer",
    "MockShareConsumer",
]

_HOMES = {
    "barnabas.client.environment": "Environment",
    "barnabas.testing.fault_proxy": "FaultProxy",
    "barnabas.testing.mock_consumer": "MockConsumer",
    "barnabas.testing.mock_producer": "MockProducer",
    "barnabas.testing.mock_share_consumer": "MockShareConsumer",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
