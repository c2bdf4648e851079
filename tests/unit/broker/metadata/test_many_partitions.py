"""The metadata of a large cluster are read in no time: a broker that starts waits for them."""

from __future__ import annotations

import time

from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.metadata.metadata_records import encode_record
from barnabas.broker.raft.metadata_loader import MetadataLoader
from tests.support.cluster_member import broker, topic

_TOPICS, _PARTITIONS = 100, 100


def test_a_snapshot_of_ten_thousand_partitions_is_loaded_in_under_a_second() -> None:
    """It takes a twentieth of that (`./run bench controller_growth`), so a loaded machine breaks nothing here."""
    replicas = [[1 + (index + step) % 3 for step in range(3)] for index in range(_PARTITIONS)]
    records = [record for number in (1, 2, 3) for record in broker(number)]
    for number in range(_TOPICS):
        records += topic(f"topic-{number}", (1 + number).to_bytes(16, "big"), *replicas)
    values = [encode_record(record, record.VALID_VERSIONS[1]) for record in records]
    shown: list[MetadataImage] = []
    loader = MetadataLoader(shown.append)

    began = time.process_time()
    loader.load_snapshot(len(values), 1, values)
    seconds = time.process_time() - began

    assert sum(len(found.partitions) for found in shown[-1].topics.values()) == _TOPICS * _PARTITIONS
    assert seconds < 1, f"{seconds:.2f} s of CPU"
