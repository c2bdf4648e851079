"""A scripted cluster for each test."""

from __future__ import annotations

import pytest

from tests.support.scripted_cluster import ScriptedCluster


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster()
