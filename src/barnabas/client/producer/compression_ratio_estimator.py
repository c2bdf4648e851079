"""How much of the records' bytes compression is expected to leave, topic by topic."""

from __future__ import annotations

# How fast the estimate follows what is observed, as in Kafka; and the lowest one, so that a batch of zeros does not
# take all the memory.
IMPROVING_STEP = 0.005
DETERIORATE_STEP = 0.05
LOWEST = 0.1


class CompressionRatioEstimator:
    """Kafka's estimate: it falls slowly and rises quickly, for a batch that turns out too large costs a round trip.

    The Sender thread updates it, application threads read it.
    """

    def __init__(self) -> None:
        self._ratios: dict[str, float] = {}

    def estimation(self, topic: str) -> float:
        """Return the part of the bytes that is expected to be left; 1 until something was compressed."""
        return self._ratios.get(topic, 1.0)

    def update_estimation(self, topic: str, observed: float) -> None:
        """Learn from a batch that was compressed."""
        estimate = self.estimation(topic)
        if observed > estimate:
            estimate = max(observed, estimate + DETERIORATE_STEP)
        else:
            estimate = max(observed, estimate - IMPROVING_STEP)
        self._ratios[topic] = max(estimate, LOWEST)

    def reset_estimation(self, topic: str, observed: float) -> None:
        """Begin again after a batch was too large for the broker: expect no gain."""
        self._ratios[topic] = max(1.0, observed)
