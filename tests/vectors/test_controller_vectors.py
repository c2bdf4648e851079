"""What an Apache Kafka 4.3.1 controller answered and wrote to random requests: ours does the same, byte for byte.

Each line of the file is one cluster, from its first start on (`python -m tools.controller_vectors`). Records of one
request are compared without their order, which is that of Java's hash maps; replicas are assigned by the requests.
"""

from __future__ import annotations

import gzip
import json

import pytest

from tests.support.controller_scenarios import differences
from tools.controller_vectors import CONFIG, PATH

CLUSTERS = [json.loads(line) for line in gzip.decompress(PATH.read_bytes()).splitlines()]


@pytest.mark.parametrize("cluster", CLUSTERS, ids=[f"seed {found['seed']}" for found in CLUSTERS])
def test_the_same_requests_give_the_same_records_and_responses(cluster: dict[str, object]) -> None:
    found = differences(cluster["steps"], cluster["levels"], CONFIG)  # type: ignore[arg-type]
    assert not found, "\n".join(found)


def test_the_vectors_have_every_kind_of_record_that_matters() -> None:
    kinds = {
        bytes.fromhex(value)[1] for cluster in CLUSTERS for step in cluster["steps"][1:] for value in step["records"]
    }
    assert kinds >= {0, 1, 2, 3, 4, 5, 9, 11, 12, 14, 15, 17, 18, 19, 28}
