"""The settings of consumer groups: what does not go together is said when the broker starts."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.groups.group_coordinator_config import GroupSettings
from barnabas.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group.consumer.session.timeout.ms": 44_999}, "must lie between group.consumer.min.session.timeout.ms=45000"),
        ({"group.consumer.heartbeat.interval.ms": 15_001}, "max.heartbeat.interval.ms=15000"),
        ({"group.consumer.assignment.interval.ms": 15_001}, "max.assignment.interval.ms=15000"),
        (
            {
                "group.consumer.min.session.timeout.ms": 1000,
                "group.consumer.session.timeout.ms": 5000,
            },
            "must be less than group.consumer.session.timeout.ms=5000",
        ),
        ({"group.consumer.assignors": "uniform,org.example.Mine"}, "must list one or more of uniform, range"),
        ({"group.consumer.assignors": ""}, "must list one or more"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "must list classic"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BrokerConfig(settings)


@pytest.mark.parametrize(
    ("policy", "upgrade", "downgrade"),
    [
        (None, True, True),
        ("Disabled", False, False),
        ("upgrade", True, False),
        ("DOWNGRADE", False, True),
        ("bidirectional", True, True),
    ],
)
def test_the_migration_policy_is_read_in_any_case(policy: str | None, upgrade: bool, downgrade: bool) -> None:
    given = {} if policy is None else {"group.consumer.migration.policy": policy}

    settings = GroupSettings(BrokerConfig(given))

    assert (settings.upgrade_enabled, settings.downgrade_enabled) == (upgrade, downgrade)
