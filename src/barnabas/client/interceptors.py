"""Interceptors: the application's code that sees what passes through a client (KIP-42)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.config.loading import load_attribute
from barnabas.errors import ConfigError
from barnabas.network.log_context import client_logger

log = client_logger("barnabas.interceptors")


class Interceptors:
    """What `interceptor.classes` names, in its order: objects, classes, or 'module:name'.

    Each needs the method `needed`; `configure(settings)` and `close()` are called where they exist.
    """

    def __init__(self, setting: Any, settings: Mapping[str, Any], needed: str) -> None:
        given = setting.split(",") if isinstance(setting, str) else setting
        if not isinstance(given, list | tuple):
            given = [given]
        self._interceptors = [_made(one, needed) for one in given if one != ""]
        for interceptor in self._interceptors:
            configure = getattr(interceptor, "configure", None)
            if configure is not None:
                configure(settings)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def tell(self, method: str, *arguments: Any) -> None:
        """Call a method of every interceptor that has it; what it raises is logged."""
        for interceptor in self._interceptors:
            function = getattr(interceptor, method, None)
            try:
                if function is not None:
                    function(*arguments)
            except Exception:
                log.warning("The interceptor %r raised an error in %s", interceptor, method, exc_info=True)

    def close(self) -> None:
        """Close the interceptors that can be closed."""
        self.tell("close")


def _made(setting: Any, needed: str) -> Any:
    if isinstance(setting, str):
        setting = _load(setting.strip())
    interceptor = setting() if isinstance(setting, type) else setting
    if not callable(getattr(interceptor, needed, None)):
        raise ConfigError(f"interceptor.classes: {setting!r} has no method {needed}()")
    return interceptor


def _load(path: str) -> Any:
    if ":" not in path:
        raise ConfigError(f"interceptor.classes={path!r}: give classes or objects, or their names as 'module:name'")
    return load_attribute(path, "interceptor.classes")
