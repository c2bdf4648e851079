"""What a forked child does with the clients of its parent, and what they say to it."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable

import pytest

from barnabas.errors import IllegalStateError

where_it_can_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def refused_in_a_child(*calls: Callable[[], object], then: Callable[[], object]) -> list[str]:
    """Fork, make these calls in the child, and `then` the last one; how each of the first was refused."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)

    def work() -> None:
        said = []
        for call in calls:
            try:
                call()
            except IllegalStateError as error:
                said.append(str(error))
        then()
        sending.send(said)

    child = context.Process(target=work)
    with warnings.catch_warnings():
        # Newer Pythons warn of forking beside threads, which is what is tested here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    sending.close()
    with receiving:
        assert receiving.poll(20)
        said: list[str] = receiving.recv()
    child.join(20)
    assert child.exitcode == 0
    return said
