"""Kafka's names in their two forms: `ErrorCode` in the schema, `error_code` here."""

from __future__ import annotations

import re

_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(name: str) -> str:
    """`ErrorCode` and `errorCode` become `error_code`, `KRaftVersion` becomes `k_raft_version`."""
    return _WORD_STARTS.sub("_", name).lower()


def camel_case(name: str) -> str:
    """`error_code` becomes `errorCode`, as Kafka writes it in JSON."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
