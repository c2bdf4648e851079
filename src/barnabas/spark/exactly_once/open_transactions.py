"""What a driver asks of the transaction coordinators: which transactions are open, and to end some of them."""

from __future__ import annotations

import itertools
import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.client.admin.admin_api_handler import Outcome, StaticLookup
from barnabas.client.admin.lookups import CoordinatorStrategy
from barnabas.client.admin.requests import Answer, KeyedRequest, from_each_broker, one_key_each
from barnabas.client.admin.transactions import list_transactions
from barnabas.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaTimeoutError,
    NotCoordinatorError,
    TopicAuthorizationError,
    TransactionalIdAuthorizationError,
    TransactionalIdNotFoundError,
    UnsupportedVersionError,
)
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.api import ApiKey
from barnabas.protocol.coordinator_partition import partition_for
from barnabas.protocol.kinds import CoordinatorType
from barnabas.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn_request import EndTxnRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.spark.exactly_once import coordinator_survey as protocol
from barnabas.spark.exactly_once.commit_protocol import take_steps

if TYPE_CHECKING:
    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.results import Results
    from barnabas.client.admin.transactions import TransactionListing
    from barnabas.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
    from barnabas.protocol.messages.end_txn_response import EndTxnResponse
    from barnabas.protocol.messages.metadata_response import MetadataResponse

LOGGER = logging.getLogger("barnabas.spark")
ONGOING = "Ongoing"

#: The topic whose partitions' leaders are the transaction coordinators.
TOPIC = "__transaction_state"

#: Seconds for all brokers to answer a question of a survey; one that has not by then is asked again.
PATIENCE = 1.0
_PAUSE = 0.1
#: Seconds after which it is told what is waited for.
_TELL_EVERY = 5.0

_LATER = (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)
_NOT_ALLOWED = TransactionalIdAuthorizationError.code
#: What the coordinator of an id answers, once it has loaded it.
_COORDINATES = (0, TransactionalIdNotFoundError.code)

_CONCURRENT_TRANSACTIONS = (51,)

#: What a coordinator answers when it did not, and never will, end this transaction as it was asked to.
_DID_NOT = frozenset({
    47,  # INVALID_PRODUCER_EPOCH
    48,  # INVALID_TXN_STATE: it timed out, for instance
    49,  # INVALID_PRODUCER_ID_MAPPING
    90,  # PRODUCER_FENCED
    105,  # TRANSACTIONAL_ID_NOT_FOUND
})  # fmt: skip


class _EndHandler:
    """EndTxn at the coordinators, one transaction a request: whether it was ended as asked.

    The cluster has transaction version 2, so no answer can concern the next transaction of the same id (KIP-890).
    """

    name = "end transactions"

    def __init__(self, identities: Mapping[str, tuple[int, int]], commit: bool) -> None:
        self.lookup = CoordinatorStrategy(CoordinatorType.TRANSACTION)
        self._identities = identities
        self._commit = commit

    def build_request(self, keys: list[str], timeout_ms: int) -> RequestBuilder:
        """See `AdminApiHandler`."""

        def request(key: str) -> EndTxnRequest:
            producer_id, epoch = self._identities[key]
            return EndTxnRequest(
                transactional_id=key, producer_id=producer_id, producer_epoch=epoch, committed=self._commit
            )

        return one_key_each(ApiKey.END_TXN, "EndTxn", request, keys)

    def handle_response(self, keys: list[str], response: EndTxnResponse, outcome: Outcome[str, bool]) -> None:
        """See `AdminApiHandler`."""
        (key,) = keys
        if response.error_code in _DID_NOT:
            outcome.complete(key, False)
        elif outcome.is_success(key, response.error_code, also_passing=_CONCURRENT_TRANSACTIONS):
            outcome.complete(key, True)


class OpenTransactions:
    """Lists the open transactions of a cluster, through an AdminClient for as long as that lives: see `survey`."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._proven = protocol.Proven()
        self._takes_patterns = True

    def now(self, prefix: str) -> dict[str, int]:
        """Return those whose ids begin with `prefix`, with their producer ids.

        Raises KafkaTimeoutError when that could not be known for default.api.timeout.ms, and what a broker refuses.
        """
        return dict(take_steps(protocol.survey(self._proven), _Surveyor(self, self._admin, prefix)))

    def ask(self, prefix: str) -> Results[int, list[TransactionListing]]:
        """Ask all brokers once."""
        pattern = f"{re.escape(prefix)}.*" if self._takes_patterns else None
        handler = list_transactions([ONGOING], (), -1, pattern)
        found = self._admin._complete(self._admin._ask_all_brokers(handler, PATIENCE, False))
        if pattern is not None and any(isinstance(each, UnsupportedVersionError) for each in found.errors.values()):
            # Brokers before 4.1 (KIP-1152) take no pattern, and tell of all.
            self._takes_patterns = False
            return self.ask(prefix)
        return found


class _Surveyor:
    """Performs the steps of one survey."""

    def __init__(self, cluster: OpenTransactions, admin: AdminClient, prefix: str) -> None:
        self._cluster = cluster
        self._admin = admin
        self._prefix = prefix
        self._began = time.monotonic()
        self._told_at = self._began
        self._partitions = 0
        self._steps: dict[type[Any], Callable[[Any], Any]] = {
            protocol.ListOpenAtAll: lambda step: self._listed(),
            protocol.AskLeaders: lambda step: self._leaders(step.brokers),
            protocol.Probe: lambda step: self._served(step.leaders),
            protocol.Wait: lambda step: self._wait(step.why),
        }

    def perform(self, step: Any) -> Any:
        """See `StepPerformer`."""
        return self._steps[type(step)](step)

    def _listed(self) -> protocol.Listed:
        try:
            found = self._cluster.ask(self._prefix)
        except KafkaTimeoutError as error:  # of no broker of the cluster even the name is known
            return protocol.Listed({}, frozenset(), {-1: str(error)})
        silent, loading = _sorted_out(found)
        answers = {
            broker: {each.transactional_id: each.producer_id for each in listed if self._is_wanted(each)}
            for broker, listed in found.items()
        }
        return protocol.Listed(answers, loading, silent)

    def _is_wanted(self, listing: TransactionListing) -> bool:
        return listing.transactional_id.startswith(self._prefix)

    def _leaders(self, brokers: tuple[int, ...]) -> dict[int, dict[int, protocol.Leader]] | None:
        handler = from_each_broker("list leaders of __transaction_state", _topic_request, _read_leaders)
        found = self._admin._run(handler, brokers, PATIENCE, False)
        _sorted_out(found)
        views = {broker: view for broker, view in found.items() if view is not None}
        self._partitions = max(map(len, views.values()), default=0)
        return views if len(views) == len(found) else None

    def _served(self, leaders: tuple[tuple[int, protocol.Leader], ...]) -> set[int]:
        probes = ids_of_all_partitions(self._prefix, self._partitions)
        asked = {probes[partition]: partition for partition, _ in leaders}
        by_broker: dict[int, list[str]] = {}
        for partition, leader in leaders:
            by_broker.setdefault(leader.broker, []).append(probes[partition])
        found = self._admin._run(_probe(by_broker), by_broker, PATIENCE, False)
        _sorted_out(found)
        return {asked[name] for names in found.values() for name in names}

    def _wait(self, why: str) -> None:
        now, most = time.monotonic(), self._admin._config.get_seconds("default.api.timeout.ms")
        if now - self._began > most:
            raise KafkaTimeoutError(
                f"which transactions {self._prefix}* are open could not be known for {most:.0f} s, for not all "
                f"transaction coordinators answer; nothing was decided, and nothing is lost: {why}"
            )
        if now - self._told_at > _TELL_EVERY:
            self._told_at = now
            LOGGER.warning(
                "a batch waits, for %.0f s now, for the transaction coordinators: %s", now - self._began, why
            )
        time.sleep(_PAUSE)


def list_open(admin: AdminClient, prefix: str) -> dict[str, int]:
    """Return the open transactions whose ids begin with `prefix`, with their producer ids: see `OpenTransactions`."""
    return OpenTransactions(admin).now(prefix)


def ids_of_all_partitions(prefix: str, partitions: int) -> dict[int, str]:
    """Return a transactional id for each partition of `__transaction_state`; none of a producer's."""
    found: dict[int, str] = {}
    for number in itertools.count():
        if len(found) == partitions:
            return found
        name = f"{prefix}probe-{number}"
        found.setdefault(partition_for(name, partitions), name)
    raise AssertionError("unreachable")


def _topic_request() -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)


def _read_leaders(broker: int, response: MetadataResponse) -> dict[int, protocol.Leader] | None:
    """Return what a broker says of the leaders; None where the user may not describe the topic."""
    (topic,) = response.topics
    if topic.error_code == TopicAuthorizationError.code:
        return None
    return {each.partition_index: protocol.Leader(each.leader_id, each.leader_epoch) for each in topic.partitions}


def _probe(ids: Mapping[int, list[str]]) -> KeyedRequest[int, list[str]]:
    """DescribeTransactions at brokers, not at the coordinators as others see them: those ids that each coordinates."""

    def build(keys: list[int], timeout_ms: int) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=ids[keys[0]])

    def answers(keys: list[int], response: DescribeTransactionsResponse) -> list[Answer[int, list[str]]]:
        states = response.transaction_states
        if refused := next((each for each in states if each.error_code == _NOT_ALLOWED), None):
            return [(keys[0], _NOT_ALLOWED, f"transactional id {refused.transactional_id}", [])]
        return [(keys[0], 0, None, [each.transactional_id for each in states if each.error_code in _COORDINATES])]

    return KeyedRequest("ask transaction coordinators", StaticLookup(lambda broker: broker), build, answers)


def _sorted_out(found: Results[int, Any]) -> tuple[dict[int, str], frozenset[int]]:
    """Return who gave no answer, and why, and who is loading. Raises what a broker refuses for good."""
    silent: dict[int, str] = {}
    loading = set()
    for broker, error in found.errors.items():
        if not isinstance(error, KafkaTimeoutError):
            raise error
        if isinstance(error.__cause__, _LATER):
            loading.add(broker)
        else:
            silent[broker] = "does not answer" + (f" ({error.__cause__})" if error.__cause__ else "")
    return silent, frozenset(loading)


def describe(admin: AdminClient, transactional_ids: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Return producer id and epoch of those that are open."""
    found = admin.describe_transactions(transactional_ids, raise_errors=False)
    for error in found.errors.values():
        if not isinstance(error, TransactionalIdNotFoundError):
            raise error
    return {name: (each.producer_id, each.producer_epoch) for name, each in found.items() if each.state == ONGOING}


def end_all(admin: AdminClient, transactions: tuple[tuple[str, int, int], ...], commit: bool) -> set[str]:
    """Commit or abort each; the ids of those for which the cluster says that it did not.

    Raises what kept it from knowing, after default.api.timeout.ms.
    """
    identities = {name: (producer_id, epoch) for name, producer_id, epoch in transactions}
    done = admin._run(_EndHandler(identities, commit), identities, None, True)
    return {name for name, was_done in done.items() if not was_done}
