"""When to send a heartbeat, and when silence has lasted too long."""

from __future__ import annotations

from collections.abc import Callable


class Heartbeat:
    """The timers of one member: heartbeats to send, answers to expect, polls to be made.

    All times are monotonic seconds. Belongs to the heartbeat thread, but for `polled_at`: the application's thread
    writes it on every poll, the heartbeat thread reads it. A float is replaced as a whole, so no lock is needed.
    """

    def __init__(
        self,
        *,
        session_timeout: float,
        interval: float,
        max_poll_interval: float,
        backoff: Callable[[int], float],
    ) -> None:
        self._session_timeout = session_timeout
        self._interval = interval
        self._max_poll_interval = max_poll_interval
        self.backoff = backoff
        self._attempts = 0
        self._next_at = 0.0
        self._session_ends_at = 0.0
        self._poll_expected_from = 0.0
        self.polled_at = 0.0
        self.in_flight = False
        self.sent_at = 0.0

    def poll(self, now: float) -> None:
        """Note that the application polled."""
        self.polled_at = now

    def on_sent(self, now: float) -> None:
        """Note that a heartbeat went out."""
        self.sent_at = now
        self.in_flight = True
        self._next_at = now + self._interval

    def set_interval(self, interval: float, now: float) -> None:
        """Follow the coordinator, which tells the interval in the consumer protocol."""
        if interval != self._interval:
            self._interval = interval
            self._next_at = now + interval

    def on_received(self, now: float) -> None:
        """Note that the coordinator answered: it has this member."""
        self.in_flight = False
        self._attempts = 0
        self._session_ends_at = now + self._session_timeout

    def on_failed(self, now: float) -> None:
        """No answer, or one that allows another try: soon, later each time, but at most an interval later."""
        self.in_flight = False
        self._next_at = now + min(self._interval, self.backoff(self._attempts))
        self._attempts += 1

    def reset_session_timeout(self, now: float) -> None:
        """Start waiting anew: another coordinator was found."""
        self._session_ends_at = now + self._session_timeout

    def reset_timeouts(self, now: float) -> None:
        """Start all timers: the member has just joined."""
        self.in_flight = False
        self._attempts = 0
        self._next_at = now + self._interval
        self._session_ends_at = now + self._session_timeout
        self._poll_expected_from = now

    def should_heartbeat(self, now: float) -> bool:
        """Whether it is time for the next one."""
        return not self.in_flight and now >= self._next_at

    def session_timeout_expired(self, now: float) -> bool:
        """Whether the coordinator has been silent for session.timeout.ms."""
        return now >= self._session_ends_at

    def poll_timeout_expired(self, now: float) -> bool:
        """Whether the application has not polled for max.poll.interval.ms."""
        return now >= self._poll_deadline()

    def time_to_next_action(self, now: float) -> float:
        """Seconds until one of the timers runs out."""
        nearest = min(self._session_ends_at, self._poll_deadline())
        if not self.in_flight:
            nearest = min(nearest, self._next_at)
        return max(0.0, nearest - now)

    def time_to_poll_timeout(self, now: float) -> float:
        """Seconds until `poll_timeout_expired`."""
        return max(0.0, self._poll_deadline() - now)

    def _poll_deadline(self) -> float:
        return max(self.polled_at, self._poll_expected_from) + self._max_poll_interval
