"""Whether the disk serves a log: what fails at present, and whether the log is out of service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

WRITING, FLUSHING, CLEANING, READING, OFFLINE = "writing", "flushing", "cleaning", "reading", "being offline"
_CONSEQUENCES = {
    WRITING: "records are refused until the disk takes them again, reading goes on",
    FLUSHING: "a loss of power may take what was written since the last flush; it is tried again",
    CLEANING: "it is tried again",
    READING: "fetches of it are refused until the disk can be read again",
}


#: A failure that has not come again for so long is over, in milliseconds.
CALM_MS = 60_000
_JUST_NOW = -1


class LogHealth:
    """What a log has met of the disk. The first failure of a kind, and its end, are one line each in the broker's log.

    `troubles` tells by kind what fails at present; what comes and goes is over, for the broker's log, when it has
    stayed away for a minute (`settle`). A log that goes offline stays so: `on_offline` is called, and where
    it `can_be_reopened` `LogManager` opens it anew. `on_trouble` is called with every kind of failure that begins.
    """

    __slots__ = ("_directory", "_offline", "_told", "can_be_reopened", "on_offline", "on_trouble", "troubles")

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._offline: str | None = None
        self.troubles: dict[str, str] = {}
        #: The kinds of which the broker's log says that they fail, and when that was last so.
        self._told: dict[str, int] = {}
        self.can_be_reopened = False
        self.on_offline: Callable[[], None] = lambda: None
        self.on_trouble: Callable[[], None] = lambda: None

    @property
    def is_offline(self) -> bool:
        """Whether the log is of no use any more."""
        return self._offline is not None

    def check_online(self) -> None:
        """Raise `KafkaStorageError` if the log is of no use any more."""
        if self._offline is not None:
            raise KafkaStorageError(f"{self._directory} is offline since {self._offline}; {self._remedy}")

    @property
    def _remedy(self) -> str:
        if self.can_be_reopened:
            return "it is recovered as soon as the disk allows it"
        return "restart the broker to recover"

    def failed(self, action: str, error: OSError, kind: str) -> KafkaStorageError:
        """Note a failure that has left the files as they must be; the error to raise."""
        if kind not in self.troubles:
            self.troubles[kind] = f"{action} failed: {error}"
            self.on_trouble()
        if kind not in self._told:
            from logging import getLogger

            getLogger(__name__).error("%s: %s; %s", self._directory, self.troubles[kind], _CONSEQUENCES[kind])
        self._told[kind] = _JUST_NOW
        return KafkaStorageError(f"{action} in {self._directory} failed: {error}")

    def succeeded(self, kind: str) -> None:
        """Note that what has failed works."""
        self.troubles.pop(kind, None)

    def settle(self, now_ms: int) -> bool:
        """Say what has ceased to fail; whether nothing is left to be said. To be called every few seconds."""
        for kind, failed_ms in list(self._told.items()):
            if kind in self.troubles or not 0 <= failed_ms <= now_ms:
                self._told[kind] = now_ms
            elif now_ms - failed_ms >= CALM_MS:
                from logging import getLogger

                del self._told[kind]
                getLogger(__name__).warning("%s: %s works again", self._directory, kind)
        return not self._told and not self.troubles

    def go_offline(self, action: str, error: Exception, *, reopen: bool) -> KafkaStorageError:
        """Take the log out of service, for a failure has left its files in an unknown state; the error to raise."""
        if self._offline is None:
            from logging import getLogger

            self._offline = self.troubles[OFFLINE] = f"{action} failed: {error}"
            self.can_be_reopened = reopen
            self.on_trouble()
            getLogger(__name__).error("%s goes offline: %s; %s", self._directory, self._offline, self._remedy)
            self.on_offline()
        return KafkaStorageError(f"{action} in {self._directory} failed: {error}")

    def end(self) -> None:
        """Note that the log was deleted."""
        self._offline = self.troubles[OFFLINE] = "it was deleted"
        self.can_be_reopened = False
