"""Kafka's ConfigTransformer: puts what config providers know in the place of variables in settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from barnabas.config.config_def import canonical_name
from barnabas.config.config_providers import Provider, create_provider
from barnabas.config.values import PARSERS, Resolved
from barnabas.errors import ConfigError

PROVIDERS = "config.providers"
_VARIABLE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

Settings = Mapping[str, Any]
_Values = dict[tuple[str, str], Mapping[str, str]]


def resolve_variables(*sources: Settings | None) -> list[Settings | None]:
    """Return the settings with `${provider:[path:]key}` replaced, and without `config.providers.*`.

    A value that held a variable becomes a `Resolved`. A variable stays as it is when its provider is unknown or does
    not know the key. What comes in place of a variable is not searched for others (KIP-297).

    Raises `ConfigError` when the settings of the providers are wrong, or one cannot read what it is asked for.
    """
    providers = _create_providers(sources)
    plain = [source and {name: source[name] for name in source if not _is_of_provider(name)} for source in sources]
    wanted: dict[tuple[str, str], set[str]] = {}
    for source in plain:
        for value in (source or {}).values():
            for provider, path, key in _variables(value):
                wanted.setdefault((provider, path), set()).add(key)
    values = {place: providers[place[0]](place[1], keys) for place, keys in wanted.items() if place[0] in providers}
    return [source and {name: _resolved(value, values) for name, value in source.items()} for source in plain]


def _is_of_provider(name: Any) -> bool:
    return isinstance(name, str) and canonical_name(name).startswith(f"{PROVIDERS}.")


def _create_providers(sources: tuple[Settings | None, ...]) -> dict[str, Provider]:
    given: dict[str, Any] = {}
    for source in sources:
        for name, value in (source or {}).items():
            key = canonical_name(name) if isinstance(name, str) else ""
            if value is None or not (key == PROVIDERS or _is_of_provider(name)):
                continue
            if key in given:
                raise ConfigError(f"{key!r} is given twice; give it once")
            given[key] = value
    names = _names(given.pop(PROVIDERS, ""))
    providers = {name: _create_provider(name, given) for name in names}
    for key in given:
        raise ConfigError(
            f"{key!r} belongs to none of the providers that {PROVIDERS}={','.join(names)} names; "
            f"there are {PROVIDERS}.<name>.class and {PROVIDERS}.<name>.param.<param>"
        )
    return providers


def _names(given: Any) -> list[str]:
    try:
        names = PARSERS["list"](given)
    except ValueError as problem:
        raise ConfigError(f"{PROVIDERS}={given!r} is not valid: it {problem}") from None
    return [name for name in dict.fromkeys(names) if isinstance(name, str) and name]


def _create_provider(name: str, given: dict[str, Any]) -> Provider:
    """One provider; takes out of `given` what is its own."""
    setting = f"{PROVIDERS}.{canonical_name(name)}.class"
    if setting not in given:
        raise ConfigError(
            f"{PROVIDERS} names {name!r}, so {PROVIDERS}.{name}.class is needed: what provides the values"
        )
    chosen = given.pop(setting)
    prefix = f"{PROVIDERS}.{canonical_name(name)}.param."
    params = {key.removeprefix(prefix): given.pop(key) for key in list(given) if key.startswith(prefix)}
    return create_provider(setting, chosen, params)


def _variables(value: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, str):
        yield from _VARIABLE.findall(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _variables(item)


def _resolved(value: Any, values: _Values) -> Any:
    is_list = isinstance(value, (list, tuple))
    before = list(value) if is_list else [value]
    after = [_replaced(item, values) for item in before]
    if after == before:
        return value
    return Resolved(after if is_list else after[0], value)


def _replaced(item: Any, values: _Values) -> Any:
    if not isinstance(item, str):
        return item
    replaced = _VARIABLE.sub(lambda variable: _value_of(variable, values), item)
    # Kafka trims every value, above all the line end of a file.
    return item if replaced == item else replaced.strip()


def _value_of(variable: re.Match[str], values: _Values) -> str:
    provider, path, key = variable[1], variable[2] or "", variable[3]
    return values.get((provider, path), {}).get(key, variable[0])
