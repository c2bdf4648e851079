"""An admin client belongs to the process that made it."""

from __future__ import annotations

import threading

from barnabas import AdminClient, Broker, NewTopic
from tests.unit.forking import refused_in_a_child, where_it_can_fork


@where_it_can_fork
def test_a_forked_child_is_refused_and_does_not_disturb_the_parent() -> None:
    is_held, may_end = threading.Event(), threading.Event()
    with Broker() as broker, AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.list_topics()

        def hold() -> None:
            # The process forks while another thread is in a call, which never ends in the child.
            with admin._lock:
                is_held.set()
                may_end.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        is_held.wait()
        try:
            (said,) = refused_in_a_child(admin.list_topics, then=admin.close)
        finally:
            may_end.set()
            holder.join()
        assert "before the process forked" in said

        admin.create_topics([NewTopic("t", 1)])
        assert "t" in admin.list_topics()
