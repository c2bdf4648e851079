# cython: language_level=3, annotation_typing=False, nonecheck=True
"""What comes next by time. Ties come out as they do of Java's PriorityQueue, as Kafka uses it.

C types are in `time_heap.pxd`, those of Python in `time_heap.pyi`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython


@cython.final
@cython.cclass
class TimeHeap:
    """Items by their times; `heap` holds (time, item) as Java's array does, the next one first."""

    def __init__(self):
        self.heap = []

    def push(self, timestamp, item):
        """Add an item."""
        heap = self.heap
        at = len(heap)
        entry = (timestamp, item)
        heap.append(entry)
        while at > 0:
            parent = (at - 1) >> 1
            if timestamp >= heap[parent][0]:
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = entry

    def pop(self):
        """Take the item with the least time."""
        heap = self.heap
        taken = heap[0][1]
        entry = heap.pop()
        size = len(heap)
        if size:
            at = 0
            while 2 * at + 1 < size:
                child = 2 * at + 1
                if child + 1 < size and heap[child][0] > heap[child + 1][0]:
                    child += 1
                if entry[0] <= heap[child][0]:
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = entry
        return taken
