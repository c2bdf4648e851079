"""Finds what a setting of type class names as `package.module:name`."""

from __future__ import annotations

from typing import Any

from barnabas.errors import ConfigError


def load_attribute(path: str, setting: str) -> Any:
    """The object called `package.module:name`.

    Raises:
        ConfigError: there is none; `setting` is named.
    """
    import importlib

    module, colon, attribute = path.partition(":")
    if not colon:
        raise ConfigError(f"{setting}={path!r} is not of the form 'package.module:name'")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as problem:
        raise ConfigError(f"{setting}={path!r} cannot be loaded: {problem}") from problem
