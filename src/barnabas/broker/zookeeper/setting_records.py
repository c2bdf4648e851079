"""What the settings of a znode are as metadata records: of topics and brokers, quotas, SCRAM credentials."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING

from barnabas.broker.zookeeper.znodes import MalformedZnodeError, desanitized, sanitized
from barnabas.protocol.kinds import SCRAM_MECHANISMS, ConfigResourceType
from barnabas.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.protocol.messages.config_record import ConfigRecord
from barnabas.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.broker.metadata.metadata_image import MetadataImage, QuotaEntity
    from barnabas.protocol.message import Message

_QUOTA_KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}
_FOLDERS = {kind: folder for folder, kind in _QUOTA_KINDS.items()}
_ORDER = tuple(_FOLDERS)
_MECHANISMS = {name: number for number, name in SCRAM_MECHANISMS.items()}


def setting_records(image: MetadataImage, entity: str, values: Mapping[str, str]) -> Iterable[Message]:
    """Give the records with which an image has exactly these settings of an entity (`topics/flights`, `users/alice`).

    Raises `MalformedZnodeError` for a value that Kafka does not write.
    """
    kind, _, name = entity.partition("/")
    if kind == "topics":
        yield from _configs(image, ConfigResourceType.TOPIC, name, values)
    elif kind == "brokers":
        yield from _configs(image, ConfigResourceType.BROKER, desanitized(name) or "", values)
    elif kind in _QUOTA_KINDS:
        credentials = {key: value for key, value in values.items() if key in _MECHANISMS}
        yield from _quotas(image, entity, {key: values[key] for key in values if key not in credentials})
        if kind == "users" and "/" not in name:
            yield from _credentials(image, entity, desanitized(name), credentials)


def known_entities(image: MetadataImage) -> Iterable[str]:
    """Give the entities that have settings in an image."""
    found: dict[str, None] = {}
    for kind, name in image.configs:
        found[f"topics/{name}" if kind == ConfigResourceType.TOPIC else f"brokers/{sanitized(name or None)}"] = None
    for entity in image.client_quotas:
        found[quota_path(entity)] = None
    for user, _ in image.scram_credentials:
        found[f"users/{sanitized(user)}"] = None
    return found


def quota_path(entity: QuotaEntity) -> str:
    """Return where the quotas of an entity stand below `/config`, such as `users/alice/clients/c1`."""
    order = sorted(entity, key=lambda pair: _ORDER.index(pair[0]))
    return "/".join(f"{_FOLDERS[kind]}/{sanitized(name)}" for kind, name in order)


def _configs(image: MetadataImage, kind: int, name: str, values: Mapping[str, str]) -> Iterable[Message]:
    known = image.configs.get((kind, name), {})
    for key in {**known, **values}:
        if known.get(key) != values.get(key):
            yield ConfigRecord(resource_type=kind, resource_name=name, name=key, value=values.get(key))


def _quotas(image: MetadataImage, entity: str, values: Mapping[str, str]) -> Iterable[Message]:
    parts = entity.split("/")
    pairs = [(_QUOTA_KINDS[kind], desanitized(name)) for kind, name in zip(parts[::2], parts[1::2], strict=True)]
    known = image.client_quotas.get(frozenset(pairs), {})
    wanted = {key: _number(entity, key, value) for key, value in values.items()}
    for key in {**known, **wanted}:
        if known.get(key) != wanted.get(key):
            yield ClientQuotaRecord(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in pairs],
                key=key,
                value=wanted.get(key, 0.0),
                remove=key not in wanted,
            )


def _number(entity: str, key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise MalformedZnodeError(f"/config/{entity} has the quota {key}={value!r}, which is no number") from None


def _credentials(image: MetadataImage, entity: str, user: str | None, values: Mapping[str, str]) -> Iterable[Message]:
    for mechanism, number in _MECHANISMS.items():
        known, text = image.scram_credentials.get((user or "", number)), values.get(mechanism)
        if text is None:
            if known is not None:
                yield RemoveUserScramCredentialRecord(name=user or "", mechanism=number)
            continue
        found = _credential(entity, user or "", number, text)
        if found != known:
            yield found


def _credential(entity: str, user: str, mechanism: int, text: str) -> UserScramCredentialRecord:
    try:
        fields = dict(part.split("=", 1) for part in text.split(","))
        return UserScramCredentialRecord(
            name=user,
            mechanism=mechanism,
            salt=b64decode(fields["salt"], validate=True),
            stored_key=b64decode(fields["stored_key"], validate=True),
            server_key=b64decode(fields["server_key"], validate=True),
            iterations=int(fields["iterations"]),
        )
    except (KeyError, ValueError, Base64Error) as problem:
        raise MalformedZnodeError(f"/config/{entity} has a credential that Kafka does not write") from problem
