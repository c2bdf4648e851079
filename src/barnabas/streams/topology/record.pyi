from collections.abc import Sequence
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
NewK = TypeVar("NewK")
NewV = TypeVar("NewV")

Headers = list[tuple[str, bytes | None]]

class Record(Generic[K, V]):
    key: K
    value: V
    timestamp: int
    headers: Headers
    header_list: Headers | None
    def __init__(
        self, key: K, value: V, timestamp: int, headers: Sequence[tuple[str, bytes | None]] | None = None
    ) -> None: ...
    def _own_headers(self) -> Headers: ...
    def with_key(self, key: NewK) -> Record[NewK, V]: ...
    def with_value(self, value: NewV) -> Record[K, NewV]: ...
    def with_timestamp(self, timestamp: int) -> Record[K, V]: ...
    def with_headers(self, headers: Sequence[tuple[str, bytes | None]]) -> Record[K, V]: ...
    __hash__ = None  # type: ignore[assignment]

def make_record(key: Any, value: Any, timestamp: int, headers: Headers | None) -> Record[Any, Any]: ...
