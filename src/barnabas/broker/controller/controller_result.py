"""What a manager makes of a request: records to write, and the response for when they are committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, Generic, NamedTuple, TypeVar

from barnabas import errors
from barnabas.broker.instant import Instant
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion

T = TypeVar("T")

Records = list[ApiMessageAndVersion]

#: As many records one request may write (MAX_RECORDS_PER_USER_OP).
MAX_RECORDS_PER_USER_OP = 10_000


class ControllerResult(NamedTuple, Generic[T]):
    """Records and a response; `is_atomic`: the records are written as one batch, all or none."""

    records: Sequence[ApiMessageAndVersion]
    response: T
    is_atomic: bool = False

    def without_records(self) -> ControllerResult[T]:
        """Return the same response to a request that only asks whether it could be done."""
        return ControllerResult((), self.response, self.is_atomic)


class ControllerRequestContext(NamedTuple):
    """Who asks, when, and how.

    `mutate(count)` counts changes of partitions against the quota of controller mutations (KIP-599). It raises
    `ThrottlingQuotaExceededError` when there is no room. `is_forwarded`: a broker has checked the request already.
    `may_describe_configs(topic)` says whether settings of a topic may be told. `connection`: its number, each later one
    a higher one; 0 where it is not known.
    """

    now: Instant
    api_version: int = 0
    principal: str = "User:ANONYMOUS"
    mutate: Callable[[int], None] = lambda count: None
    is_forwarded: bool = False
    may_describe_configs: Callable[[str], bool] = lambda topic: True
    connection: int = 0


class Outcome(NamedTuple):
    """The error of one part of a request; code 0: it went well."""

    code: int = errors.NONE
    message: str | None = None

    @classmethod
    def of(cls, problem: errors.KafkaError) -> Outcome:
        """Return what a client is told of an error."""
        return cls(problem.code, str(problem))


DONE = Outcome()


def check_size(records: Sized) -> None:
    """Raise `PolicyViolationError` for more records than one request may write."""
    if len(records) > MAX_RECORDS_PER_USER_OP:
        raise errors.PolicyViolationError(
            f"Unable to perform excessively large batch operation: {len(records)} records, and "
            f"{MAX_RECORDS_PER_USER_OP} are the limit."
        )


def failed(outcomes: Mapping[Any, Outcome]) -> bool:
    """Whether any part went wrong."""
    return any(outcome.code for outcome in outcomes.values())
