"""Who may use a consumer: one thread at a time, and between its calls the heartbeat thread, for a moment."""

from __future__ import annotations

import threading
import time

import pytest

from barnabas.client.consumer.single_thread_use import SingleThreadUse
from barnabas.errors import ConcurrentModificationError, IllegalStateError


def in_thread(call: object) -> None:
    assert callable(call)
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


def test_a_call_waits_until_what_was_borrowed_is_given_back() -> None:
    use, order = SingleThreadUse(), list[str]()
    lent, ended = threading.Event(), threading.Event()

    def heartbeat_thread() -> None:
        assert use.borrow()
        lent.set()
        time.sleep(0.1)
        order.append("given back")
        use.give_back()
        ended.set()

    threading.Thread(target=heartbeat_thread).start()
    assert lent.wait(20)
    with use:
        order.append("call")
    assert ended.wait(20)
    assert order == ["given back", "call"]


def test_nothing_is_lent_during_a_call_or_after_the_end() -> None:
    use, answers = SingleThreadUse(), list[bool]()
    with use:
        in_thread(lambda: answers.append(use.borrow()))
        with use:
            in_thread(lambda: answers.append(use.borrow()))
    use.is_closed = True
    in_thread(lambda: answers.append(use.borrow()))
    assert answers == [False, False, False]
    with pytest.raises(IllegalStateError), use:
        pass


def test_another_thread_is_still_refused() -> None:
    use, refused = SingleThreadUse(), list[bool]()

    def other() -> None:
        try:
            with use:
                refused.append(False)
        except ConcurrentModificationError:
            refused.append(True)

    with use:
        in_thread(other)
    assert use.borrow()
    use.give_back()
    in_thread(other)
    assert refused == [True, False]
