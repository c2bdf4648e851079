"""What travels to the tasks: topologies, settings, and where the cluster is. Picklable by value, lambdas and all."""

from __future__ import annotations

import copyreg
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.spark.client_settings import ClientSettings
from barnabas.spark.exactly_once.driver_steps import SinkPlace
from barnabas.spark.options import SourceOptions
from barnabas.streams.config import StreamsConfig
from barnabas.streams.spark.repartition_levels import Levels
from barnabas.streams.topology.nodes import ProcessorTopology

#: Where state and checkpoints lie unless `state.dir` says otherwise; Kafka's default.
STATE_DIR = "/tmp/kafka-streams"  # noqa: S108


class Application(NamedTuple):
    """A topology cut into sub-topologies, by number. `partitions` says how many each known topic has.

    `levels` says which repartition topics can be read within a batch, `is_within` whether they are.

    `must_wait` are the sub-topologies of several topics whose timestamps an extractor of the user's makes: only the
    engine can tell the order of their records, so it needs all of a batch at once.
    """

    id: str
    config: Mapping[str, Any]
    subtopologies: Mapping[int, ProcessorTopology]
    global_topology: ProcessorTopology | None
    partitions: Mapping[str, int]
    must_wait: frozenset[int]
    place: SinkPlace
    client: ClientSettings
    source: SourceOptions
    levels: Levels
    is_within: bool = False


def application_folder(config: StreamsConfig) -> Path:
    """Return where a machine keeps what belongs to the application."""
    return Path(str(config.values["state.dir"] or STATE_DIR)) / config.application_id


def _reduced(packed: struct.Struct) -> tuple[type[struct.Struct], tuple[str]]:
    return struct.Struct, (packed.format,)


# Serdes are made of closures over it, and Python leaves it to its users to say that it is its format.
copyreg.pickle(struct.Struct, _reduced)
