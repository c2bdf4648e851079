"""What an admin client does with settings and quotas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from barnabas.client.admin.admin_operations import AdminOperations
from barnabas.client.admin.client_quotas import (
    ClientQuotaEntity,
    ClientQuotaFilterComponent,
    Quotas,
    alter_quotas,
    describe_quotas,
)
from barnabas.client.admin.configs import (
    Changes,
    ConfigEntry,
    ConfigResource,
    DescribeConfigsHandler,
    IncrementalAlterConfigsHandler,
    as_operations,
    list_config_resources,
)
from barnabas.client.admin.results import Results
from barnabas.client.arguments import as_keys, as_mapping
from barnabas.errors import IllegalTypeError
from barnabas.protocol.kinds import ConfigResourceType


class ConfigOperations(AdminOperations):
    """Settings of topics, brokers, groups, loggers and client metrics; quotas of clients."""

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """Return the settings of topics and brokers: for each resource by name."""
        handler = DescribeConfigsHandler(include_synonyms=include_synonyms, include_documentation=include_documentation)
        return self._run(handler, _resources(resources, "resources"), timeout, raise_errors)

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Changes],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[ConfigResource, None]:
        """Change settings and leave the others as they are.

        For each resource `{name: value}`, where None goes back to the default, or a list of `AlterConfigOp`.

        Raises `InvalidConfigurationError`, ...

        """
        operations = {resource: as_operations(wanted) for resource, wanted in as_mapping(changes, "changes").items()}
        _resources(operations, "changes")
        handler = IncrementalAlterConfigsHandler(
            operations, validate_only=validate_only, at_controllers=self._metadata.uses_controllers
        )
        return self._run(handler, operations, timeout, raise_errors)

    def list_config_resources(
        self, types: Collection[ConfigResourceType] = (), *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """Return the resources that have settings, of these types or of all.

        A broker before 4.1 lists only those of client metrics, and an `UnsupportedVersionError` is raised when others
        are asked for.
        """
        return self._run_one(list_config_resources(types), "resources", timeout)

    def describe_client_quotas(
        self,
        components: Iterable[ClientQuotaFilterComponent] = (),
        *,
        strict: bool = False,
        timeout: float | None = None,
    ) -> dict[ClientQuotaEntity, Quotas]:
        """Return the quotas of entities that match all components; with `strict`, of those with no other part.

        Raises `InvalidRequestError`, `UnsupportedVersionError` (a type of entity that the broker does not
        know), ...

        """
        return self._run_one(describe_quotas(components, strict=strict), "quotas", timeout)

    def alter_client_quotas(
        self,
        changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[ClientQuotaEntity, None]:
        """Set quotas, such as `{ClientQuotaEntity.of(user="alice"): {"producer_byte_rate": 1e6}}`; None removes one.

        Raises `InvalidRequestError`, `ClusterAuthorizationError`, ...

        """
        wanted = as_mapping(changes, "changes")
        return self._run(alter_quotas(wanted, validate_only=validate_only), wanted, timeout, raise_errors)


def _resources(resources: Iterable[ConfigResource], name: str) -> list[ConfigResource]:
    keys = as_keys(resources, name)
    for resource in keys:
        if not isinstance(resource, ConfigResource):
            raise IllegalTypeError(f"{name} has {resource!r}, which is no ConfigResource(type, name)")
    return keys
