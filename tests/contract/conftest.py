"""The brokers that the contract tests run against: ours, and a real Apache Kafka where Java and Maven are present.

BARNABAS_TEST_BOOTSTRAP=host:port runs them against that one instead.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from barnabas import AdminClient
from tests.contract.group import CLASSIC, PARTITIONS, Group
from tests.contract.waiting import create_topic
from tests.peers import apache_kafka

#: Old records are kept (some of the tests' are as old as 1970), and members of the consumer protocol hear of their
#: targets soon.
SETTINGS = {
    "log.retention.ms": "-1",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    # Members of share groups hear of their targets soon, and their locks may be short.
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.record.lock.duration.ms": "1000",
}
PEERS = ["barnabas", "apache-kafka"]
# An authorizer for the tests of ACLs; everyone is a super user, so that it refuses nobody anything.
_KAFKA_SETTINGS = {
    **SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "a secret of the tests",
}
_numbers = itertools.count()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that asks for `bootstrap_servers` against each broker, or those that its module's PEERS names."""
    if "bootstrap_servers" in metafunc.fixturenames:
        chosen = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
        peers = [chosen] if chosen else getattr(metafunc.module, "PEERS", PEERS)
        metafunc.parametrize("bootstrap_servers", peers, indirect=True, scope="session")


@pytest.fixture(scope="session")
def kafka() -> Iterator[apache_kafka.ApacheKafka]:
    """The Apache Kafka of the session, for tests of what is only there; what they do to it must not last."""
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with apache_kafka.ApacheKafka(_KAFKA_SETTINGS) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap_servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a broker listens; one for the whole session, so tests use topics and groups of their own."""
    if request.param == "barnabas":
        from barnabas import Broker

        with Broker(config={**SETTINGS}) as broker:
            yield broker.bootstrap_servers
    elif request.param == "apache-kafka":
        yield request.getfixturevalue("kafka").bootstrap_servers
    else:
        yield request.param


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names of topics and groups that no other test uses."""
    return lambda kind: f"{kind}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[AdminClient]:
    """An admin client of the broker at hand, which gives up before the time of its test is over."""
    with AdminClient(bootstrap_servers=bootstrap_servers, default_api_timeout_ms=30_000) as client:
        yield client


@pytest.fixture
def topic(bootstrap_servers: str, new_name: Callable[[str], str]) -> str:
    """A topic of two partitions."""
    return create_topic(bootstrap_servers, new_name("topic"), 2)


@pytest.fixture
def group(request: pytest.FixtureRequest, bootstrap_servers: str, new_name: Callable[[str], str]) -> Iterator[Group]:
    """A group on a topic of its own; the module's GROUP has its members' settings."""
    topic = create_topic(bootstrap_servers, new_name("topic"), PARTITIONS)
    made = Group(bootstrap_servers, topic, new_name("group"), getattr(request.module, "GROUP", CLASSIC))
    yield made
    for consumer in made.members:
        consumer.close(5)
