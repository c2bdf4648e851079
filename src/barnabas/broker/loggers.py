"""The broker's loggers and their levels, which DescribeConfigs shows and IncrementalAlterConfigs sets (KIP-412)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas import errors

if TYPE_CHECKING:
    import logging

ROOT = "root"
#: Kafka's logger of requests: DEBUG writes a line for each request, TRACE with its content.
REQUEST_LOGGER = "kafka.request.logger"
_PREFIX = "barnabas"

#: Kafka's names for levels, and Python's numbers for them.
LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}


class Loggers:
    """Levels under Kafka's names. They last as long as the broker runs, as in Kafka.

    `on_request_level(level)` is called when the level of the request log was set.
    """

    def __init__(self, on_request_level: Callable[[str], None]) -> None:
        self.request_level = "WARN"
        self._on_request_level = on_request_level

    def levels(self) -> dict[str, str]:
        """Every logger that there is, with the level that holds for it."""
        found = {name: name_of_level(logger.getEffectiveLevel()) for name, logger in _python_loggers().items()}
        found[REQUEST_LOGGER] = self.request_level
        return found

    def check(self, name: str, level: str | None) -> None:
        """Whether that logger can be set to that level; None takes its own level away. Raises KafkaError."""
        if name != REQUEST_LOGGER and name not in _python_loggers():
            raise errors.InvalidConfigurationError(f"Logger {name} does not exist!")
        if level is None:
            if name == ROOT:
                raise errors.InvalidRequestError("Removing the log level of the root logger is not allowed")
        elif level not in LEVELS:
            raise errors.InvalidConfigurationError(
                f"Cannot set the log level of {name} to {level}. Valid log levels are {', '.join(sorted(LEVELS))}"
            )

    def set(self, name: str, level: str | None) -> None:
        """Set a level that `check` has let through."""
        if name == REQUEST_LOGGER:
            self.request_level = level or "WARN"
            self._on_request_level(self.request_level)
        else:
            _python_loggers()[name].setLevel(LEVELS[level] if level is not None else 0)


def _python_loggers() -> dict[str, logging.Logger]:
    import logging

    found = {ROOT: logging.getLogger()}
    for name, logger in logging.root.manager.loggerDict.items():
        if name.partition(".")[0] == _PREFIX and isinstance(logger, logging.Logger):
            found[name] = logger
    return found


def name_of_level(level: int) -> str:
    """Kafka's name for a level of Python's logging: the nearest one that is not below it."""
    return next((name for name, value in sorted(LEVELS.items(), key=lambda item: item[1]) if level <= value), "FATAL")
