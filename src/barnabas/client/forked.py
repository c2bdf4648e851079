"""What clients say in a forked child: threads, sockets and locks are those of the process that made them."""

from __future__ import annotations


def refusal(client: str) -> str:
    """Return the message of the error there; `client` is what it is called, such as "producer"."""
    return (
        f"This {client} was made before the process forked and belongs to the parent; make a new one in the child "
        "(with multiprocessing: in the worker, or use the start method 'spawn')"
    )
