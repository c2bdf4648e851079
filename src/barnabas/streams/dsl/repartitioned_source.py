"""Names and makes what sends records through a repartition topic."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from barnabas.streams.dsl.graph.graph_node import ProcessorParameters
from barnabas.streams.dsl.graph.repartition_nodes import Repartition
from barnabas.streams.engine.processors import KStreamFilter

if TYPE_CHECKING:
    from barnabas.streams.dsl.internal_streams_builder import InternalStreamsBuilder

SUFFIX = "-repartition"
_GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}")


def repartitioned_source(
    builder: InternalStreamsBuilder,
    key_serde: Any,
    value_serde: Any,
    prefix: str,
    *,
    named_by_user: bool,
) -> Repartition:
    """Return a repartition whose topic is named for `prefix`; the counter moves by three in all cases."""
    topic = prefix if prefix.endswith(SUFFIX) else prefix + SUFFIX
    if not named_by_user:
        builder.topology_builder.names.add(repartition=topic)
    names = [builder.names.processor(kind) for kind in ("KSTREAM-SINK-", "KSTREAM-FILTER-", "KSTREAM-SOURCE-")]
    if not _GENERATED.fullmatch(prefix):
        names = [f"{topic}-sink", f"{topic}-filter", f"{topic}-source"]
    sink, filter_name, source = names
    everything = KStreamFilter(lambda key, value: True, False)
    return Repartition(
        source_name=source,
        sink_name=sink,
        topic=topic,
        key_serde=key_serde,
        value_serde=value_serde,
        parameters=ProcessorParameters(everything, filter_name),
    )
