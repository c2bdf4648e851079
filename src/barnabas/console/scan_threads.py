"""`ScanThreads`: where scans run, bounded in number for all sessions together and for each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

#: Of one session.
MOST_SCANS = 4
#: Of all sessions; each takes a thread and a consumer.
MOST_OF_ALL = 16


class ScanThreads:
    """Threads for scans alone: scans that take long keep no other work waiting."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(MOST_OF_ALL, thread_name_prefix="console-scan")
        self.running = 0

    @property
    def is_full(self) -> bool:
        """Whether no further scan may begin."""
        return self.running >= MOST_OF_ALL
