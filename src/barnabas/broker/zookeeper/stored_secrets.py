"""The secrets among a broker's settings in `/config/brokers`: encrypted there, readable here (DynamicBrokerConfig)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.zookeeper.password_encoder import EncoderSettings, PasswordEncoder, UndecodableSecretError
from barnabas.config.config_def import definitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.config import BrokerConfig

_NEW, _OLD = "password.encoder.secret", "password.encoder.old.secret"


class StoredSecrets:
    """Encrypts and decrypts the secrets of one broker; those of others are of no use here and left out.

    Raises `ConfigError` where `password.encoder.*` cannot be used.
    """

    def __init__(
        self, config: BrokerConfig, random_bytes: Callable[[int], bytes], report: Callable[[str], None]
    ) -> None:
        self._entity = f"brokers/{config.node_id}"
        self._report = report
        self._encoders: dict[str, PasswordEncoder] = {}
        for name in (_NEW, _OLD):
            secret = config[name]
            if secret is not None:
                self._encoders[name] = PasswordEncoder(secret.value, EncoderSettings.of(config), random_bytes)
        #: What could not be read stays in the znode as it is until it gets another value.
        self._unread: dict[str, str] = {}

    def readable(self, entity: str, values: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of an entity with secrets in clear, without those that cannot be read.

        What cannot be read is reported.
        """
        is_mine, unread = entity == self._entity, {}
        found = {}
        for name, value in values.items():
            if not is_secret(name):
                found[name] = value
            elif is_mine:
                try:
                    found[name], _ = self._decoded(value)
                except UndecodableSecretError as problem:
                    unread[name] = value
                    if self._unread.get(name) != value:
                        self._report(
                            f"/config/{entity} has {name}, which is not used, for it cannot be read: {problem}; set "
                            f"{_NEW}, and while it is changed {_OLD}, to those of this broker, or {name} anew"
                        )
        if is_mine:
            self._unread = unread
        return found

    def stored(self, entity: str, values: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of an entity with secrets encrypted. Raises `InvalidRequestError` where it cannot."""
        secrets = [name for name in values if is_secret(name)]
        if secrets and entity != self._entity:
            raise errors.InvalidRequestError(
                f"{', '.join(secrets)}: secrets are settings of one broker each, not of all of them."
            )
        if secrets and _NEW not in self._encoders:
            raise errors.InvalidRequestError(
                f"{', '.join(secrets)}: secrets stand encrypted in ZooKeeper, and this broker has no {_NEW}: set it in "
                "its file, or these settings themselves."
            )
        kept = {name: value for name, value in self._unread.items() if name not in values}
        changed = {name: self._encoders[_NEW].encode(values[name]) for name in secrets}
        return {**values, **changed, **(kept if entity == self._entity else {})}

    def encoded_anew(self, entity: str, values: Mapping[str, str]) -> dict[str, str] | None:
        """Return the settings with those secrets encrypted anew that only the old secret opens; None without any."""
        if entity != self._entity or len(self._encoders) < len((_NEW, _OLD)):
            return None
        found = dict(values)
        for name in filter(is_secret, values):
            try:
                text, by = self._decoded(values[name])
            except UndecodableSecretError:
                continue
            if by == _OLD:
                found[name] = self._encoders[_NEW].encode(text)
        return found if found != values else None

    def _decoded(self, value: str) -> tuple[str, str]:
        problem = UndecodableSecretError(f"this broker has no {_NEW}")
        for name, encoder in self._encoders.items():
            try:
                return encoder.decode(value), name
            except UndecodableSecretError as found:
                problem = found
        raise problem


def is_secret(name: str) -> bool:
    """Whether a broker's setting, or that of one of its listeners, is secret."""
    keys = definitions("broker").keys
    key = keys.get(name) or next((found for own, found in keys.items() if name.endswith(f".{own}")), None)
    return key is not None and key.is_secret
