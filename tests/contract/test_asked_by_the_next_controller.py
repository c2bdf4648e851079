"""A broker of Apache Kafka that one controller took for dead is asked by the next one, and told what it has missed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas import AdminClient, NewTopic
from barnabas.errors import KafkaError
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.topic_partition import TopicPartition
from tests.contract.waiting import eventually
from tests.peers import namespaces, zookeeper
from tests.peers.namespaces import Machines
from tests.peers.zookeeper import ZooKeeperCluster
from tests.support.core_broker import SocketClient

THEIRS, OURS = 1, (2, 3)
_SOON = 30.0
_AWAY = [one for one in (namespaces.why_not(), zookeeper.why_not()) if one]


def _listed(address: str) -> set[str]:
    with SocketClient(address) as client:
        return {topic.name for topic in client.request(MetadataRequest(topics=None), 12).topics}


def _quiet(call: Callable[[], bool]) -> Callable[[], bool]:
    def tried() -> bool:
        try:
            return call()
        except (KafkaError, OSError):
            return False

    return tried


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(bool(_AWAY), reason=", ".join(_AWAY))
def test_what_went_while_it_was_taken_for_dead_by_another_controller_goes_there_too() -> None:
    # Its session outlasts the silence that it is given up for.
    cluster = ZooKeeperCluster(1, 2, {"zookeeper.session.timeout.ms": "40000"})
    for broker in cluster.ours.values():
        broker.settings["broker.silence.timeout.ms"] = "1000"
    with Machines() as machines:
        machines.place(cluster.brokers.values(), outside=[cluster.zookeeper.port])
        with cluster:
            first = cluster.hand_over_to(*OURS)
            (other,) = (number for number in OURS if number != first)
            theirs = cluster.theirs[THEIRS]
            log = theirs.folder / "data" / "delays-0"
            with AdminClient({"bootstrap.servers": cluster.brokers[other].bootstrap_servers}) as admin:
                made = {"flights": [2, 3], "delays": [other, THEIRS]}
                admin.create_topics([NewTopic(name, replica_assignments={0: who}) for name, who in made.items()])
                eventually(lambda: _listed(theirs.bootstrap_servers) >= made.keys(), _SOON)
                eventually(lambda: log.is_dir(), _SOON)
                machines.cut(theirs)
                eventually(lambda: f"broker {THEIRS} is silent" in cluster.ours[first].log, _SOON)
                admin.delete_topics(["flights"])
                admin.alter_partition_reassignments({TopicPartition("delays", 0): [other, first]})
                eventually(_quiet(lambda: not admin.list_partition_reassignments()), _SOON)
                eventually(_quiet(lambda: "flights" not in admin.list_topics()), _SOON)
                cluster.ours[first].stop(kill=True)
                eventually(lambda: cluster.controller == other, _SOON)
                machines.mend(theirs)
                eventually(_quiet(lambda: _listed(theirs.bootstrap_servers) & made.keys() == {"delays"}), _SOON)
                eventually(lambda: not log.exists(), _SOON)
            told = cluster.ours[other].log
            assert f"broker {THEIRS} is told that these are gone: flights-0" in told
            assert f"broker {THEIRS} is to delete replicas that others have: delays-0" in told
            assert f"broker {THEIRS} was taken for dead" not in told, "it is this controller's first word on it"
