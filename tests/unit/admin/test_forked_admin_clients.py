"""An admin client belongs to the process that made it."""

from __future__ import annotations

import multiprocessing
import os
import threading
import warnings
from typing import Any

import pytest

from barnabas import AdminClient, Broker, NewTopic
from barnabas.errors import IllegalStateError


def in_child(admin: AdminClient, said: Any) -> None:
    try:
        admin.list_topics()
    except IllegalStateError as error:
        said.put(str(error))
    admin.close()
    said.put("closed")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_is_refused_and_does_not_disturb_the_parent() -> None:
    context = multiprocessing.get_context("fork")
    said = context.Queue()
    is_asked, may_end = threading.Event(), threading.Event()
    with Broker() as broker, AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.list_topics()

        def hold() -> None:
            # The process forks while another thread is in a call, which never ends in the child.
            with admin._lock:
                is_asked.set()
                may_end.wait(20)

        holder = threading.Thread(target=hold)
        holder.start()
        is_asked.wait(20)
        with warnings.catch_warnings():
            # Newer Pythons warn of forking beside threads, which is what is tested here.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = context.Process(target=in_child, args=(admin, said))
            child.start()
        may_end.set()
        holder.join()
        assert "before the process forked" in said.get(timeout=20)
        assert said.get(timeout=20) == "closed"
        child.join(20)
        assert child.exitcode == 0

        admin.create_topics([NewTopic("t", 1)])
        assert "t" in admin.list_topics()
