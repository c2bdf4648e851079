"""What a broker tells its operator, on standard error: time, level, broker, message and logger, as text or as JSON.

The text has the form of Kafka's own `log4j2` pattern with Kafka's prefix of broker messages:
`[2026-11-22 18:04:15,123] WARN [Broker id=1] big-0 goes offline (barnabas.broker)`. One record is one line, but for
stack traces in the text form.
"""

from __future__ import annotations

import json
import logging
import sys
import time

from barnabas.broker.loggers import LEVELS, name_of_level

#: The logger of what concerns the broker as a whole.
BROKER = "barnabas.broker"
FORMS = ("text", "json")
#: Loggers whose levels can be set before they have said anything (KIP-412).
_ROOMS = (
    BROKER, *(f"{BROKER}.{room}" for room in ("groups", "log", "metadata", "transactions")), "barnabas.config"
)  # fmt: skip


class OperatorLog(logging.StreamHandler):  # type: ignore[type-arg]
    """The handler of a broker's process; it holds records back until it knows which broker they are of."""

    def __init__(self, form: str = "text") -> None:
        super().__init__(sys.stderr)
        self.setFormatter(_Json() if form == "json" else _Text())
        self._held: list[logging.LogRecord] | None = []
        self._broker_id = -1

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or hold it back."""
        if self._held is not None:
            self._held.append(record)
            return
        record.broker_id = self._broker_id
        super().emit(record)

    def name_broker(self, broker_id: int) -> None:
        """Write what was held back; from now on every record is of this broker."""
        self._broker_id = broker_id
        held, self._held = self._held, None
        for record in held or ():
            self.handle(record)

    def close(self) -> None:
        """Write what is still held back: the broker did not come so far as to have an id."""
        if self._held:
            self.name_broker(-1)
        super().close()


def start(form: str, level: str) -> OperatorLog:
    """Send all that is logged in this process to standard error, from this level on.

    `form` is one of `FORMS`, `level` one of Kafka's names for levels; call `stop` when the broker has ended.
    """
    handler = OperatorLog(form)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(LEVELS[level])
    for name in _ROOMS:
        logging.getLogger(name)
    return handler


def stop(handler: OperatorLog) -> None:
    """Undo `start`."""
    root = logging.getLogger()
    root.removeHandler(handler)
    root.setLevel(logging.WARNING)
    handler.close()


def warn(line: str) -> None:
    """Log one line that the operator should know."""
    logging.getLogger(BROKER).warning("%s", line)


def report(line: str) -> None:
    """Log a fault of the broker itself, which its makers should know."""
    logging.getLogger(BROKER).error("%s", line)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        broker = getattr(record, "broker_id", -1)
        prefix = f"[Broker id={broker}] " if broker >= 0 else ""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        line = (
            f"[{moment},{record.msecs:03.0f}] {name_of_level(record.levelno)} {prefix}{record.getMessage()} "
            f"({record.name})"
        )
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "timestamp": f"{moment}.{record.msecs:03.0f}Z",
            "level": name_of_level(record.levelno),
            "brokerId": getattr(record, "broker_id", -1),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["stackTrace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
