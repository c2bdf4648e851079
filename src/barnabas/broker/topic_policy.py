"""A rule of the operator's own for new topics (`create.topic.policy.class.name`, KIP-108)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import ConfigError, PolicyViolationError, UnknownServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.broker.config import BrokerConfig

_SETTING = "create.topic.policy.class.name"


class TopicRequest(NamedTuple):
    """A topic that is to be made (Kafka's CreateTopicPolicy.RequestMetadata), with `configs` as the client gave them.

    Where the client assigns the replicas, `replicas_assignments` has them by partition, and the two numbers are None;
    else it is None.
    """

    topic: str
    num_partitions: int | None
    replication_factor: int | None
    replicas_assignments: Mapping[int, Sequence[int]] | None
    configs: Mapping[str, str]


def allow_all(request: TopicRequest) -> None:
    """Allow every topic."""


def make_topic_policy(config: BrokerConfig) -> Callable[[TopicRequest], None]:
    """Return what checks a new topic: it raises `PolicyViolationError`, whose text goes to the client.

    What else the class raises costs that topic only. Raises `ConfigError` for a class that cannot be loaded.
    """
    name = config[_SETTING]
    if not name:
        return allow_all
    if ":" not in name:
        raise ConfigError(f"{_SETTING}={name} is a Java class; give package.module:Class with validate(request)")
    from barnabas.config.loading import load_function

    validate = load_function(name, _SETTING, "validate", config.given)

    def check(request: TopicRequest) -> None:
        try:
            validate(request)
        except PolicyViolationError:
            raise
        except Exception as problem:
            text = f"the policy {name} of {_SETTING} failed: {type(problem).__name__}: {problem}"
            logging.getLogger("barnabas.broker").error("%s (topic %s)", text, request.topic)
            raise UnknownServerError(text) from problem

    return check
