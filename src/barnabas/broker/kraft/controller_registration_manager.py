"""Keeps this controller registered with the active one (ControllerRegistrationManager, KIP-919)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.controller.feature_control_manager import CONTROLLER_FEATURES
from barnabas.broker.metadata.metadata_version import METADATA_VERSION, MetadataVersion
from barnabas.protocol.messages.controller_registration_request import ControllerRegistrationRequest, Feature, Listener

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.metadata_image import Endpoint, MetadataImage
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message

_BACKOFF, _MAX_BACKOFF = 0.1, 10.0


class ControllerRegistrationManager:
    """Registers this life of a controller until the metadata have it; a `Requester`.

    `leader()` is the active controller as far as is known, this one too; `image()` what is committed.
    """

    def __init__(
        self,
        node_id: int,
        incarnation_id: bytes,
        listeners: Mapping[str, Endpoint],
        leader: Callable[[], Node | None],
        image: Callable[[], MetadataImage],
        report: Callable[[str], None],
    ) -> None:
        self._node_id = node_id
        self._incarnation_id = incarnation_id
        self._listeners = listeners
        self._leader = leader
        self._image = image
        self._report = report
        self._next = -inf
        self._failures = 0

    @property
    def is_needed(self) -> bool:
        """Whether the metadata allow a registration, and do not have this one."""
        image = self._image()
        level = image.features.get(METADATA_VERSION)
        if level is None or not MetadataVersion(level).is_controller_registration_supported:
            return False
        found = image.controllers.get(self._node_id)
        return found is None or found.incarnation_id != self._incarnation_id

    def next_deadline(self) -> float:
        """See `Requester`."""
        return self._next if self._leader() is not None and self.is_needed else inf

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        leader = self._leader()
        if leader is None or now < self.next_deadline():
            return None
        return leader, ControllerRegistrationRequest(
            controller_id=self._node_id,
            incarnation_id=self._incarnation_id,
            zk_migration_ready=False,
            listeners=[
                Listener(name, found.host, found.port, found.security_protocol)
                for name, found in self._listeners.items()
            ],
            features=[Feature(name, low, high) for name, (low, high) in CONTROLLER_FEATURES.items()],
        )

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`: the metadata bring what came of it, so until then it is only not asked again at once."""
        code: int = response.error_code  # type: ignore[attr-defined]
        if code not in (errors.NONE, errors.NotControllerError.code):
            self._report(f"the registration of controller {self._node_id} is refused: {errors.name_of(code)}")
        self._wait(now.now)

    def disconnected(self, now: float) -> None:
        """See `Requester`."""
        self._wait(now)

    def _wait(self, now: float) -> None:
        self._next = now + min(_MAX_BACKOFF, _BACKOFF * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
