"""Settings of the group g."""

from __future__ import annotations

from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.core_broker import CoreBroker

_GROUP = 32


def set_group(broker: CoreBroker, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=_GROUP, resource_name="g", configs=[config])
    response = broker.connect().request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert response.responses[0].error_code == 0, response.responses[0].error_message
