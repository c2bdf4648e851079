"""The users of SCRAM, as the metadata keeps them: of each password only what a proof is checked by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.broker.security.sasl_server import Identity
from barnabas.broker.security.scram_sasl_server import FindUser, ScramUser
from barnabas.network.security import scram
from barnabas.network.security.scram import StoredCredential
from barnabas.protocol.kinds import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata, Done
    from barnabas.broker.metadata.metadata_store import Value

_SCRAM = "scram/"
#: The protocol's numbers of the mechanisms.
MECHANISMS = SCRAM_MECHANISMS
MOST_ITERATIONS = 16384
#: User and mechanism → the credential, None to delete it.
Alterations = Mapping[tuple[str, str], StoredCredential | None]


class ScramUsers:
    """Users and their credentials; `finder` is what an exchange looks them up by."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata

    def finder(self, mechanism: str) -> FindUser:
        """Return what finds the users of a mechanism."""

        def find(name: str, is_token: bool) -> ScramUser | None:
            found = None if is_token else self._metadata.value(_key(name, mechanism))
            return None if found is None else ScramUser(_credential(found), Identity(name))

        return find

    def iterations(self, user: str) -> dict[int, int]:
        """Return what a user has: mechanism (its number) → iterations."""
        found = {number: self._metadata.value(_key(user, name)) for number, name in MECHANISMS.items()}
        return {number: value["iterations"] for number, value in found.items() if value is not None}

    def names(self) -> list[str]:
        """Return all users, sorted."""
        return sorted({key.partition("/")[2] for key in self._metadata.values(_SCRAM)})

    def alter(self, alterations: Alterations, done: Done | None = None) -> None:
        """Store or delete credentials, in one commit."""
        values = {
            _key(*whose): None if credential is None else _value(credential)
            for whose, credential in alterations.items()
        }
        self._metadata.put_values(values, done)


def _key(user: str, mechanism: str) -> str:
    return f"{_SCRAM}{mechanism}/{user}"


def _value(credential: StoredCredential) -> Value:
    return {
        "salt": scram.to_base64(credential.salt),
        "stored_key": scram.to_base64(credential.stored_key),
        "server_key": scram.to_base64(credential.server_key),
        "iterations": credential.iterations,
    }


def _credential(value: Value) -> StoredCredential:
    salt, stored_key, server_key = (scram.from_base64(value[name]) for name in ("salt", "stored_key", "server_key"))
    return StoredCredential(salt, stored_key, server_key, value["iterations"])
