"""Race: TLS and ACLs, large batches and small requests, with franz-go, against Apache Kafka on the same settings.

Both brokers have the same certificate, a listener with TLS and the standard authorizer with an ACL for the topic.
Batches are those of `race_throughput`, requests those of `race_small_requests`.
Run: ./run bench race_tls [--rounds N] [--records N] [--requests N]
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from barnabas import AdminClient
from barnabas.admin import AclBinding, AclOperation, ResourceType
from benchmarks._options import options
from benchmarks._race import (
    OURS,
    THEIRS,
    Figures,
    Peer,
    cpu_seconds,
    create_topic,
    franz_go,
    in_turns,
    need_apache_kafka,
)
from tests.peers import apache_kafka
from tests.peers.secure_kafka import Certificates
from tests.support.secured_broker import secured_broker

SIZE = 100
SMALL, LARGE = "small", "large"


@contextmanager
def secured(folder: Path) -> Iterator[list[Peer]]:
    """Both brokers, with a listener for TLS beside the one that topics are made through."""
    need_apache_kafka()
    certificates = Certificates.make(folder)
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    theirs = apache_kafka.ApacheKafka(settings)
    port = apache_kafka.free_port()
    clients = f"PLAINTEXT://127.0.0.1:{theirs.port},TLS://localhost:{port}"
    theirs.settings["listeners"] = f"{clients},CONTROLLER://127.0.0.1:{theirs.controller_port}"
    theirs.settings["advertised.listeners"] = clients
    settings["listeners"] = "PLAINTEXT://127.0.0.1:0,TLS://localhost:0"
    with secured_broker(folder / "ours", settings) as ours, theirs:
        authority = str(certificates.authority)
        yield [
            _peer(OURS, ours.servers["PLAINTEXT"], ours.process.pid, ours.servers["TLS"], authority),
            _peer(THEIRS, theirs.bootstrap_servers, theirs.pid, f"localhost:{port}", authority),
        ]


def _peer(name: str, servers: str, pid: int, tls_servers: str, authority: str) -> Peer:
    def never() -> None:
        raise NotImplementedError("these brokers run until the race is over")

    return Peer(name, servers, never, never, never, lambda: pid, tls_servers, authority)


def allow(peer: Peer, topic: str) -> None:
    """Have an ACL decide about the topic."""
    with AdminClient(bootstrap_servers=peer.bootstrap_servers) as admin:
        admin.create_acls([AclBinding(ResourceType.TOPIC, topic, "User:*", AclOperation.ALL)])


def measure(figures: Figures, peer: Peer, records: int, requests: int) -> None:
    """All three on one broker."""
    before = cpu_seconds(peer.pid())
    found = franz_go("latency", peer, SMALL, requests)
    figures.add("small requests: p50", peer, found["p50"])
    figures.add("small requests: p99", peer, found["p99"])
    figures.add("small requests: broker CPU each", peer, (cpu_seconds(peer.pid()) - before) / (requests + 201) * 1e3)
    for command in ("produce", "consume"):
        before = cpu_seconds(peer.pid())
        rate = records / franz_go(command, peer, LARGE, records, SIZE)["seconds"]
        figures.add(f"{command}, large batches", peer, rate)
        spent = (cpu_seconds(peer.pid()) - before) / records * 1e6
        figures.add(f"{command}, large batches: broker CPU per record", peer, spent)


def main() -> None:
    """Measure and print."""
    given = options(__doc__, rounds=5, records=2_000_000, requests=5_000)
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="race-tls-") as name, secured(Path(name)) as peers:
        for peer in peers:
            for topic, partitions in ((SMALL, 1), (LARGE, 6)):
                create_topic(peer, topic, partitions)
                allow(peer, topic)
            measure(Figures(), peer, given.records, given.requests)  # Java compiles what it runs often
        for peer in in_turns(peers, given.rounds):
            measure(figures, peer, given.records, given.requests)
    figures.report(
        {
            "small requests: p50": ("ms", None),
            "small requests: p99": ("ms", None),
            "small requests: broker CPU each": ("ms", 1.0),
            "produce, large batches": ("records/s", None),
            "produce, large batches: broker CPU per record": ("µs", 1.0),
            "consume, large batches": ("records/s", None),
            "consume, large batches: broker CPU per record": ("µs", 1.0),
        }
    )


if __name__ == "__main__":
    main()
