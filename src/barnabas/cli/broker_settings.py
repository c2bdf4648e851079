"""The settings of `barnabas up`: those of a file or of the environment, then the options; nothing exposed unasked."""

from __future__ import annotations

import os

from barnabas.cli.named_values import named_values
from barnabas.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from barnabas.broker.config import BrokerConfig
    from barnabas.cli.secure import Secured

DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_DATA = "barnabas-data"
_LISTENERS, _ADVERTISED = "listeners", "advertised.listeners"
_LOG_DIRECTORIES = {"log.dirs", "log.dir"}
#: Hosts that mean every address of this machine.
_EVERY_ADDRESS = ("", "0.0.0.0", "[::]", "::")  # noqa: S104 - narrowed here, not bound
_LONGEST_CLUSTER_ID = 249
_LOOPBACK = "127.0.0.1"

#: What Kafka's container image does not take for a setting of the broker (its KafkaDockerWrapper).
_NOT_SETTINGS = frozenset({
    "KAFKA_VERSION", "KAFKA_HEAP_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_OPTS", "KAFKA_JMX_OPTS",
    "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_LOG4J_LOGGERS",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_JMX_HOSTNAME",
})  # fmt: skip


class Options:
    """The command's options; the same attributes as argparse gives."""

    def __init__(self) -> None:
        self.listen: str | None = None
        self.data: str | None = None
        self.config: str | None = None
        self.log_format = "text"
        self.log_level = "INFO"
        self.metrics: str | None = None
        self.request_log: str | None = None
        self.request_log_every = 1
        self.brokers: int | None = None
        self.controllers = 1
        self.zookeeper: str | None = None
        self.set: list[str] = []
        self.add_scram: list[str] = []
        self.allow_remote = False
        self.environment = False
        self.until_stdin_ends = False
        self.console = False
        self.no_browser = False
        self.secure = False


def settings(args: Options | argparse.Namespace) -> tuple[BrokerConfig, str, Secured | None]:
    """Return the broker's settings, its data directory, and what `--secure` has made. Raises `ConfigError`."""
    from barnabas.broker.config import BrokerConfig

    properties: dict[str, str] = {}
    if args.config:
        from barnabas.config.properties_file import read_properties

        properties = read_properties(args.config)
    if args.environment:
        properties |= settings_of_environment(os.environ)
    chosen = named_values(args.set, "--set", "num.partitions=6")
    if not args.secure:
        _choose_listener(args, properties, chosen)
    given = {**properties, **chosen}
    if args.data or not _LOG_DIRECTORIES & given.keys():
        given["log.dirs"] = os.path.abspath(args.data or DEFAULT_DATA)
    secured = None
    if args.secure:
        from barnabas.cli.secure import secure

        directories = args.data or given.get("log.dirs") or given["log.dir"]
        secured = secure(given, args.listen, directories.split(",")[0].strip())
        given |= secured.settings
    directory = str(given.get("metadata.log.dir") or args.data or _first_of(given) or DEFAULT_DATA)
    config = BrokerConfig(given, is_formatted=_has_quorum_files(directory))
    if args.config:
        from barnabas.broker.security.readable_secrets import has_secrets

        config.secrets_file = os.path.abspath(args.config) if has_secrets(properties) else None
    return config, os.path.abspath(args.data or config.data_directory or DEFAULT_DATA), secured


def _first_of(given: Mapping[str, str]) -> str:
    return str(given.get("log.dirs") or given.get("log.dir") or "").partition(",")[0].strip()


def _has_quorum_files(directory: str) -> bool:
    """Whether a directory was formatted for a node of a quorum, by `barnabas format` or Kafka's tool."""
    return any(os.path.exists(f"{directory}/{name}") for name in ("bootstrap.checkpoint", "__cluster_metadata-0"))


def settings_of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in `KAFKA_*` variables, by the rules of Kafka's container image.

    `KAFKA_LOG_DIRS` is `log.dirs`, two underscores stand for one, three for a dash. Listeners that are only advertised
    are listened to on every address, at the ports that are advertised.
    """
    found = {
        name.removeprefix("KAFKA_").lower().replace("_", ".").replace("...", "-").replace("..", "_"): value
        for name, value in environment.items()
        if name.startswith("KAFKA_") and name not in _NOT_SETTINGS
    }
    if found.get(_ADVERTISED) and not found.get(_LISTENERS):
        found[_LISTENERS] = ",".join(
            f"{name}://0.0.0.0:{port}" for name, _, port in map(_parts, found[_ADVERTISED].split(","))
        )
    return found


def cluster_id_of_environment(environment: Mapping[str, str]) -> str | None:
    """Return what `CLUSTER_ID` says, with which Kafka's container formats its storage. Raises `ConfigError`."""
    cluster_id = environment.get("CLUSTER_ID", "").strip()
    if not cluster_id:
        return None
    check_cluster_id("CLUSTER_ID", cluster_id)
    return cluster_id


def check_cluster_id(where: str, cluster_id: str) -> None:
    """Raise `ConfigError` for what cannot be a cluster's id."""
    if not cluster_id.isprintable() or " " in cluster_id or len(cluster_id) > _LONGEST_CLUSTER_ID:
        raise ConfigError(
            f"{where}={cluster_id!r} cannot be a cluster's id: it must have no spaces and at most "
            f"{_LONGEST_CLUSTER_ID} characters; `barnabas format --random-uuid` makes one of 22"
        )


def _choose_listener(args: Options | argparse.Namespace, properties: dict[str, str], chosen: dict[str, str]) -> None:
    if args.listen is not None:
        from barnabas.broker.config import join_address, parse_address

        # What the file advertises belongs to the listeners of the file.
        properties.pop(_ADVERTISED, None)
        chosen[_LISTENERS] = f"PLAINTEXT://{join_address(*parse_address(args.listen))}"
    elif _LISTENERS not in properties and _LISTENERS not in chosen:
        chosen[_LISTENERS] = f"PLAINTEXT://{DEFAULT_LISTEN}"
        if args.config:
            _say(f"{args.config} has no listeners; the broker listens on {DEFAULT_LISTEN} (--listen changes that)")
    elif not args.allow_remote and _LISTENERS not in chosen:
        _narrow(properties, chosen)


def _narrow(properties: dict[str, str], chosen: Mapping[str, str]) -> None:
    """Let listeners on every address of the machine listen on the loopback, and be advertised there; say so.

    Those whose clients authenticate stay as they are.
    """
    given = properties[_LISTENERS]
    if not all("://" in text for text in given.split(",")):
        return
    parts = [_parts(text) for text in given.split(",")]
    narrowed = {name for name, host, _ in parts if host in _EVERY_ADDRESS}
    if narrowed:
        from barnabas.broker.config import BrokerConfig

        config = BrokerConfig({**properties, **chosen})
        safe = {listener.name for listener in config.listeners if config.authenticates(listener)}
        narrowed = {name for name in narrowed if name.upper() not in safe}
    if not narrowed:
        return
    properties[_LISTENERS] = ",".join(
        f"{name}://{_LOOPBACK if name in narrowed else host}:{port}" for name, host, port in parts
    )
    advertised = [_parts(text) for text in properties.get(_ADVERTISED, "").split(",") if text.strip()]
    if advertised:
        properties[_ADVERTISED] = ",".join(
            f"{name}://{_LOOPBACK if name in narrowed and host != 'localhost' else host}:{port}"
            for name, host, port in advertised
        )
    _say(
        f"{_LISTENERS}={given} means every address of this machine; without authentication the broker listens on "
        f"{_LOOPBACK} only, and clients are told so (--allow-remote changes that)"
    )


def _parts(listener: str) -> tuple[str, str, str]:
    """Name, host and port of a listener, as they are written; `BrokerConfig` checks them."""
    name, _, address = listener.strip().partition("://")
    host, _, port = address.rpartition(":")
    return name, host, port


def _say(line: str) -> None:
    import logging

    logging.getLogger("barnabas.broker").warning("%s", line)
