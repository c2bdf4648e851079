"""Finds what a setting of type class names as `package.module:name`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from barnabas.errors import ConfigError


def load_attribute(path: str, setting: str) -> Any:
    """Return the object called `package.module:name`.

    Raises `ConfigError`, which names the setting, when there is none.
    """
    import importlib

    module, colon, attribute = path.partition(":")
    if not colon:
        raise ConfigError(f"{setting}={path!r} is not of the form 'package.module:name'")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as problem:
        raise ConfigError(f"{setting}={path!r} cannot be loaded: {problem}") from problem


def load_function(chosen: Any, setting: str, method: str, settings: Mapping[str, Any]) -> Callable[..., Any]:
    """Return what the value of a setting of type class is called by: the `method` of an object, else the object itself.

    `chosen` is a function, an object, a class (made without arguments) or `package.module:name` of one; a `configure`
    that it has gets the `settings`.

    Raises `ConfigError` when there is nothing to call.
    """
    found = load_attribute(chosen, setting) if isinstance(chosen, str) else chosen
    made = found() if isinstance(found, type) else found
    function = getattr(made, method, made)
    if not callable(function):
        raise ConfigError(f"{setting} must be a function, or an object or class with a method {method}()")
    if hasattr(made, "configure"):
        made.configure(settings)
    called: Callable[..., Any] = function
    return called
