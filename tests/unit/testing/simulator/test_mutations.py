"""Each fault can still be planted: whoever changes that code says in mutations.py what the fault looks like now."""

from __future__ import annotations

import pytest

from barnabas.testing.simulator.cluster import planted_faults as of_clusters
from barnabas.testing.simulator.mutations import mutated_source
from barnabas.testing.simulator.planted_faults import MUTATIONS, Mutation


@pytest.mark.parametrize("mutation", [*MUTATIONS, *of_clusters.MUTATIONS], ids=lambda mutation: mutation.name)
def test_every_fault_can_still_be_planted(mutation: Mutation) -> None:
    compile(mutated_source(mutation), mutation.module, "exec")
