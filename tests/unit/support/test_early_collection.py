"""What a test leaves in a circle is gone before the next one, when it is large."""

from __future__ import annotations

import weakref

import pytest

from tests.support.early_collection import BYTES, EarlyCollection, resident


class Circle:
    def __init__(self, size: int) -> None:
        self.itself = self
        self.data = b"x" * size


@pytest.mark.parametrize(("size", "is_gone"), [(2 * BYTES, True), (1000, False)])
def test_what_is_large_is_collected_after_the_test(size: int, is_gone: bool) -> None:
    plugin = EarlyCollection()
    plugin._before = resident()
    teardown = plugin.pytest_runtest_teardown()
    circle = weakref.ref(Circle(size))
    next(teardown)
    with pytest.raises(StopIteration):
        teardown.send(None)

    assert (circle() is None) == is_gone
