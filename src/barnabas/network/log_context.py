"""Whose log messages these are: every message of a client begins with its client id, as with Kafka's LogContext."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter

_client_id: ContextVar[str] = ContextVar("barnabas_client_id", default="")

#: Called by what drives a client, before anything else: from then on this thread, or this task, logs for that client.
enter_client = _client_id.set
#: The client that this thread, or this task, works for; empty outside of clients.
current_client = _client_id.get


class _ClientLogger(_Adapter):
    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log with the client id in front, where a client is at work."""
        if self.isEnabledFor(level):
            client_id = _client_id.get()
            if client_id:
                msg, args = f"%s: {msg}", (client_id, *args)
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            self.logger.log(level, msg, *args, **kwargs)


def client_logger(name: str) -> _Adapter:
    """Return a logger for the parts of clients that do not know which client they are part of.

    Messages are constants.
    """
    return _ClientLogger(logging.getLogger(name), {})
