"""Kafka's config providers (KIP-297, KIP-632, KIP-887): where the values of variables in settings come from."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.config.loading import load_attribute
from barnabas.config.properties_file import read_properties
from barnabas.errors import ConfigError

Provider = Callable[[str, set[str]], Mapping[str, str]]
"""Takes a path ("" when the variable has none) and keys; gives the values of those keys that it knows."""

_JAVA = "org.apache.kafka.common.config.provider."


def create_provider(setting: str, chosen: Any, params: Mapping[str, Any]) -> Provider:
    """Return the provider that `setting` (`config.providers.<name>.class`) chooses, with its `.param.*` settings.

    `chosen` is one of Kafka's three class names, a function (see `Provider`), or its name as `package.module:name`.

    Raises `ConfigError` when there is no such provider, or it does not take this parameter or its value.
    """
    found = _BUILT_IN.get(chosen) if isinstance(chosen, str) else None
    if found is None:
        if isinstance(chosen, str) and ":" not in chosen:
            raise ConfigError(f"{setting}={chosen!r} is not known; there are {', '.join(_BUILT_IN)}, or 'module:name'")
        function = load_attribute(chosen, setting) if isinstance(chosen, str) else chosen
        if not callable(function):
            raise ConfigError(
                f"{setting} is a class name or a function of path and keys, not {type(function).__name__}"
            )
        _refuse_params(setting, params, ())
        provider: Provider = function
        return provider
    factory, param = found
    _refuse_params(setting, params, (param,))
    return factory(setting.removesuffix("class") + f"param.{param}", params.get(param))


def _refuse_params(setting: str, params: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for param in params:
        if param not in known:
            prefix = setting.removesuffix("class")
            raise ConfigError(f"{prefix}param.{param} is not a setting of this provider; it has {known or 'none'}")


def _environment(setting: str, allowlist: Any) -> Provider:
    try:
        allowed = re.compile(".*" if allowlist is None else str(allowlist))
    except re.error as problem:
        raise ConfigError(f"{setting}={allowlist!r} is not a regular expression: {problem}") from None

    def get(path: str, keys: set[str]) -> Mapping[str, str]:
        if path:
            raise ConfigError(f"a variable of the environment has no path: write ${{env:NAME}}, without {path!r}")
        return {key: os.environ[key] for key in keys if key in os.environ and allowed.fullmatch(key)}

    return get


def _below_allowed_paths(read: Callable[[str, set[str]], Mapping[str, str]]) -> Callable[[str, Any], Provider]:
    """Make providers of the values that `read(path, keys)` finds in a path, if that may be opened."""

    def create(setting: str, allowed_paths: Any) -> Provider:
        allowed = _allowed_paths(setting, allowed_paths)

        def get(path: str, keys: set[str]) -> Mapping[str, str]:
            place = _permitted(path, allowed)
            return {} if place is None else read(place, keys)

        return get

    return create


def _in_file(path: str, keys: set[str]) -> Mapping[str, str]:
    try:
        found = read_properties(path)
    except (ConfigError, ValueError) as problem:
        # What read_properties says may quote the file, which holds secrets.
        cause = problem.__cause__
        why = cause.strerror if isinstance(cause, OSError) else "it is not UTF-8 in the syntax of Java's properties"
        raise ConfigError(f"the config provider cannot read properties from {path!r}: {why}") from None
    return {key: found[key] for key in keys if key in found}


def _in_directory(path: str, keys: set[str]) -> Mapping[str, str]:
    if not os.path.isdir(path):
        _warn("the config provider's path %r is not a directory", path)
        return {}
    names = [key for key in keys if os.path.basename(key) == key and os.path.isfile(os.path.join(path, key))]
    return {name: _content(os.path.join(path, name)) for name in names}


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise ConfigError(f"the config provider cannot read {path!r}: {why}") from None


def _allowed_paths(setting: str, given: Any) -> list[str] | None:
    if given is None or given == "":
        return None
    paths = [os.path.normpath(path) for path in (given.split(",") if isinstance(given, str) else given)]
    for path in paths:
        if not os.path.isabs(path):
            raise ConfigError(f"{setting}: {path!r} is not an absolute path")
        if not os.path.exists(path):
            raise ConfigError(f"{setting}: {path!r} does not exist")
    return paths


def _permitted(path: str, allowed: list[str] | None) -> str | None:
    """Return the path to open; None when there is none, or when it lies outside of what is allowed."""
    if not path or allowed is None:
        return path or None
    normal = os.path.normpath(path)
    if any(normal == base or normal.startswith(base.rstrip("/") + "/") for base in allowed):
        return normal
    _warn("the config provider may not read %r, which is not in its allowed.paths", path)
    return None


def _warn(message: str, *arguments: object) -> None:
    import logging

    logging.getLogger("barnabas.config").warning(message, *arguments)


_BUILT_IN: dict[str, tuple[Callable[[str, Any], Provider], str]] = {
    f"{_JAVA}EnvVarConfigProvider": (_environment, "allowlist.pattern"),
    f"{_JAVA}FileConfigProvider": (_below_allowed_paths(_in_file), "allowed.paths"),
    f"{_JAVA}DirectoryConfigProvider": (_below_allowed_paths(_in_directory), "allowed.paths"),
}
