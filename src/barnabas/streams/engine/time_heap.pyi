from typing import Generic, TypeVar

_T = TypeVar("_T")

class TimeHeap(Generic[_T]):
    heap: list[tuple[int, _T]]
    def push(self, timestamp: int, item: _T) -> None: ...
    def pop(self) -> _T: ...
