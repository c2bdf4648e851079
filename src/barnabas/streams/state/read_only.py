"""Views of stores that refuse to change them: global stores in processors, and what queries are given."""

from __future__ import annotations

from typing import Any

from barnabas.streams.state.store import StateStore

_WRITES = frozenset(
    {
        "put",
        "put_all",
        "put_if_absent",
        "put_with_timestamp",
        "delete",
        "remove",
        "restore",
        "flush",
        "changes",
        "init",
        "close",
    }
)


class ReadOnlyStore:
    """A store without its methods that write: they raise NotImplementedError."""

    def __init__(self, store: StateStore, refusal: str = "Global store is read only") -> None:
        self._store = store
        self._refusal = refusal

    def __getattr__(self, name: str) -> Any:
        if name in _WRITES:
            raise NotImplementedError(self._refusal)
        return getattr(self._store, name)


class ReadOnlyPlainSessionStore(ReadOnlyStore):
    """A store of sessions with headers, seen as one of aggregations alone."""

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        """Return the aggregation of one session, None for none."""
        found = self._store.fetch_session(key, start, end)  # type: ignore[attr-defined]
        return None if found is None else found.aggregation

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name not in _SESSION_READS:
            return found
        return lambda *args: ((session, value.aggregation) for session, value in found(*args))


_SESSION_READS = frozenset({"fetch", "backward_fetch", "find_sessions", "backward_find_sessions"})


class ReadOnlyPlainStore(ReadOnlyStore):
    """A store of values with timestamps, seen as one of values alone: what queries by Kafka's plain types see."""

    def get(self, key: Any) -> Any:
        """Return the value of a key, None for none."""
        found = self._store.get(key)  # type: ignore[attr-defined]
        return None if found is None else found.value

    def _plain(self, name: str, *args: Any) -> Any:
        return ((key, found.value) for key, found in getattr(self._store, name)(*args))

    def range(self, first: Any, last: Any) -> Any:
        """Return entries from one key to another, both included."""
        return self._plain("range", first, last)

    def reverse_range(self, first: Any, last: Any) -> Any:
        """Return the entries of `range` in the opposite order."""
        return self._plain("reverse_range", first, last)

    def all(self) -> Any:
        """Return all entries."""
        return self._plain("all")

    def reverse_all(self) -> Any:
        """Return all entries in the opposite order."""
        return self._plain("reverse_all")

    def prefix_scan(self, prefix: Any, prefix_serde: Any) -> Any:
        """Return the entries whose keys' bytes begin with those of a prefix."""
        return self._plain("prefix_scan", prefix, prefix_serde)

    def fetch(self, *args: Any) -> Any:
        """Return the value of a window, or iterate, as `WindowStore.fetch` does."""
        if len(args) == 2:
            found = self._store.fetch(*args)  # type: ignore[attr-defined]
            return None if found is None else found.value
        return self._plain("fetch", *args)

    def backward_fetch(self, *args: Any) -> Any:
        """Return the windows of `fetch` in the opposite order."""
        return self._plain("backward_fetch", *args)

    def fetch_all(self, time_from: int, time_to: int) -> Any:
        """Return the windows of all keys that start between two times."""
        return self._plain("fetch_all", time_from, time_to)

    def backward_fetch_all(self, time_from: int, time_to: int) -> Any:
        """Return the windows of `fetch_all` in the opposite order."""
        return self._plain("backward_fetch_all", time_from, time_to)

    def backward_all(self) -> Any:
        """Return all windows in the opposite order."""
        return self._plain("backward_all")
