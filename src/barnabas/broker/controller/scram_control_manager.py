"""Users of SCRAM and what proves their passwords (ScramControlManager, KIP-554, KIP-900)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.controller.controller_result import DONE, ControllerResult, Outcome, Records
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.security.scram_users import MECHANISMS, MOST_ITERATIONS
from barnabas.network.security.scram import FEWEST_ITERATIONS, stored_credential
from barnabas.protocol.messages.alter_user_scram_credentials_request import ScramCredentialUpsertion
from barnabas.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

if TYPE_CHECKING:
    from barnabas.broker.controller.controller_state import ControllerState
    from barnabas.protocol.messages.alter_user_scram_credentials_request import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
    )


class ScramControlManager:
    """Plans changes of users; each may be named once in a request."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def alter_credentials(self, request: AlterUserScramCredentialsRequest) -> ControllerResult[dict[str, Outcome]]:
        """Change credentials; the response has an outcome for each user."""
        asked: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
        times = Counter(one.name for one in asked)
        records: Records = []
        outcomes: dict[str, Outcome] = {}
        for one in asked:
            try:
                if times[one.name] > 1:
                    raise errors.DuplicateResourceError("A user credential cannot be altered twice in the same request")
                records.append(ApiMessageAndVersion(self._record(one)))
                outcomes[one.name] = DONE
            except errors.KafkaError as problem:
                outcomes[one.name] = Outcome.of(problem)
        return ControllerResult(records, outcomes, True)

    def _record(
        self, one: ScramCredentialDeletion | ScramCredentialUpsertion
    ) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
        if not self._state.metadata_version.is_scram_supported:
            raise errors.UnsupportedVersionError("The current metadata.version does not support SCRAM")
        if not one.name:
            raise errors.UnacceptableCredentialError("Username must not be empty")
        mechanism = MECHANISMS.get(one.mechanism)
        if mechanism is None:
            raise errors.UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
        if not isinstance(one, ScramCredentialUpsertion):
            if (one.name, one.mechanism) not in self._state.image.scram_credentials:
                raise errors.ResourceNotFoundError("Attempt to delete a user credential that does not exist")
            return RemoveUserScramCredentialRecord(name=one.name, mechanism=one.mechanism)
        if one.iterations < FEWEST_ITERATIONS:
            raise errors.UnacceptableCredentialError("Too few iterations")
        if one.iterations > MOST_ITERATIONS:
            raise errors.UnacceptableCredentialError("Too many iterations")
        kept = stored_credential(mechanism, one.salted_password, bytes(one.salt), one.iterations)
        return UserScramCredentialRecord(
            name=one.name,
            mechanism=one.mechanism,
            salt=kept.salt,
            stored_key=kept.stored_key,
            server_key=kept.server_key,
            iterations=kept.iterations,
        )
