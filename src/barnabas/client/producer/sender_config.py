"""The settings that the Sender reads (SenderConfig)."""

from __future__ import annotations

from typing import NamedTuple


class SenderConfig(NamedTuple):
    """The settings that the Sender reads; times in seconds."""

    acks: int
    retries: int
    max_request_size: int
    request_timeout: float
    retry_backoff: float
    guarantee_message_order: bool
