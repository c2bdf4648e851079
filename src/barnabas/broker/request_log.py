"""A line for each request, or for every n-th: who asked what, and how long it took (Kafka's kafka.request.logger)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from barnabas.broker.loggers import REQUEST_LOGGER
from barnabas.config.config_def import definitions
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kinds import ConfigResourceType

if TYPE_CHECKING:
    from barnabas.broker.request import Request, RequestObserver
    from barnabas.protocol.message import Message

#: So much of a request and of a response is shown, in characters.
_SHOWN = 2000
#: Kinds of resources whose settings may be secret → where these are described.
_SECTIONS: dict[int, str] = {ConfigResourceType.BROKER: "broker", ConfigResourceType.TOPIC: "topic"}


def log_request(line: str) -> None:
    """Write a line of the request log where the broker's other lines go."""
    import logging

    logger = logging.getLogger(REQUEST_LOGGER)
    # Whether there is a request log is decided before a line is made.
    logger.setLevel(logging.DEBUG)
    logger.debug("%s", line)


class RequestLog:
    """Gives `write` a line for every `every`-th request, in JSON under the names that Kafka's has.

    With `content` each line also has the request and the response, cut to a readable size.
    """

    def __init__(self, write: Callable[[str], None], every: int = 1):
        self._write = write
        self._every = every
        self._seen = 0
        self.content = False

    def follow_level(self, level: str, observers: list[RequestObserver]) -> None:
        """Observe requests while the level of the request log asks for it: DEBUG, or TRACE with the content."""
        if self in observers:
            observers.remove(self)
        self.content = level == "TRACE"
        if level in ("TRACE", "DEBUG"):
            observers.append(self)

    def completed(self, request: Request, response: Message | None, now: float) -> None:
        """Write the line of a request that was answered at `now`."""
        self._seen += 1
        if self._seen % self._every:
            return
        api, context = request.api, request.context
        connection = context.connection
        line: dict[str, Any] = {
            "requestHeader": {
                "requestApiKey": api.key,
                "requestApiVersion": api.version,
                "correlationId": context.correlation_id,
                "clientId": context.client_id,
                "requestApiKeyName": ApiKey(api.key).name,
            },
            "connection": f"{connection.client_host}:{connection.client_port}-{connection.id}",
            "totalTimeMs": _ms(context.handler_seconds + max(0.0, now - context.instant.now)),
            "localTimeMs": _ms(context.handler_seconds),
            "throttleTimeMs": getattr(response, "throttle_time_ms", 0),
            "requestSizeBytes": context.size,
            "securityProtocol": connection.security_protocol,
            "principal": connection.principal,
            "listener": connection.listener,
            "clientInformation": {
                "softwareName": connection.client_software_name,
                "softwareVersion": connection.client_software_version,
            },
        }
        if self.content:
            message = _without_secrets(request.message)
            line["request"], line["response"] = repr(message)[:_SHOWN], repr(response)[:_SHOWN]
        self._write(f"Completed request:{json.dumps(line, separators=(',', ':'))}")

    def sent(self, request: Request, seconds: float, now: float) -> None:
        """Do nothing: the line was written when the request was answered."""


def _without_secrets(message: Message | None) -> Message | None:
    """Return a request as it may be shown: values of settings that are secret, or not known, are hidden."""
    if message is None or message.API_KEY not in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
        return message
    shown: Any = copy.deepcopy(message)
    for resource in shown.resources:
        for config in resource.configs:
            if config.value is not None and _may_be_secret(resource.resource_type, config.name):
                config.value = "[hidden]"
    return cast("Message", shown)


def _may_be_secret(kind: int, name: str) -> bool:
    section = _SECTIONS.get(kind)
    if section is None:
        return False
    key = definitions(section).keys.get(name)
    return key is None or key.is_secret


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
