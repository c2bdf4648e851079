"""The settings of fetching."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.protocol.kinds import IsolationLevel

if TYPE_CHECKING:
    from barnabas.config.config import Config


class FetchConfig(NamedTuple):
    """What every fetch asks for and how its records are read; sizes in bytes, times in milliseconds.

    The deserializers are functions of a key's or value's bytes, None where bytes stay bytes.
    """

    min_bytes: int = 1
    max_bytes: int = 52428800
    max_wait_ms: int = 500
    max_partition_bytes: int = 1048576
    max_poll_records: int = 500
    check_crcs: bool = True
    isolation_level: int = IsolationLevel.READ_UNCOMMITTED
    client_rack: str = ""
    key_deserializer: Any = None
    value_deserializer: Any = None

    @classmethod
    def of(cls, config: Config, key_deserializer: Any, value_deserializer: Any) -> FetchConfig:
        """From a consumer's settings."""
        return cls(
            min_bytes=config.get_int("fetch.min.bytes"),
            max_bytes=config.get_int("fetch.max.bytes"),
            max_wait_ms=config.get_int("fetch.max.wait.ms"),
            max_partition_bytes=config.get_int("max.partition.fetch.bytes"),
            max_poll_records=config.get_int("max.poll.records"),
            check_crcs=config.get_bool("check.crcs"),
            isolation_level=isolation_level(config.get_str("isolation.level")),
            client_rack=config["client.rack"] or "",
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
        )

    def as_bytes(self) -> FetchConfig:
        """Return the same without deserializers."""
        return self._replace(key_deserializer=None, value_deserializer=None)


def isolation_level(name: str) -> int:
    """Return the number that stands for `isolation.level` on the wire."""
    return IsolationLevel.READ_COMMITTED if name.lower() == "read_committed" else IsolationLevel.READ_UNCOMMITTED
