"""`barnabas format`: make directories ready for a node of a quorum, as `kafka-storage format` does."""

from __future__ import annotations

import os

from barnabas.errors import ConfigError, KafkaStorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.kraft.formatter import Format
    from barnabas.broker.raft.voter_set import VoterSet
    from barnabas.cli.arguments import Subparsers

_EPILOG = """\
All nodes of a cluster are formatted with the same id. A quorum whose voters may change (KIP-853) begins with
--standalone on the first controller, or with the same --initial-controllers everywhere; nodes that join later take
--no-initial-controllers. With controller.quorum.voters in the file none of the three is needed.
What is formatted here Apache Kafka 4.3 can start on, and the reverse.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    import argparse

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "format",
        help="format the directories of a node of a cluster",
        description="Format the directories of a node of a cluster.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Describe the options, also of `barnabas cluster format`."""
    parser.add_argument("-c", "--config", metavar="FILE", help="the node's server.properties")
    parser.add_argument("-t", "--cluster-id", metavar="ID", help="the id of the cluster")
    parser.add_argument("--random-uuid", action="store_true", help="print a new id, for a cluster or a directory")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("-s", "--standalone", action="store_true", help="this controller is the only voter at first")
    who.add_argument("-I", "--initial-controllers", metavar="ID@HOST:PORT:DIRECTORY-ID,...", help="the first voters")
    who.add_argument("-N", "--no-initial-controllers", action="store_true", help="others know who votes")
    parser.add_argument("-r", "--release-version", metavar="VERSION", help="the release whose features are finalized")
    parser.add_argument("-f", "--feature", metavar="NAME=LEVEL", action="append", default=[], help="another level")
    parser.add_argument("-S", "--add-scram", metavar="USER", action="append", default=[], help="as of `barnabas up`")
    parser.add_argument("-g", "--ignore-formatted", action="store_true", help="leave out what is formatted already")


def run(args: argparse.Namespace) -> int:
    """Format what the file names. Raises `ConfigError` and `KafkaStorageError`."""
    from barnabas.broker.kraft import formatter

    if args.random_uuid:
        print(formatter.random_uuid_text(os.urandom))
        return 0
    if not args.config or not args.cluster_id:
        raise ConfigError("--config FILE and --cluster-id ID are needed; `barnabas format --random-uuid` makes an id")
    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.log.os_filesystem import OsFileSystem
    from barnabas.config.properties_file import read_properties

    config = BrokerConfig(read_properties(args.config), is_formatted=True)
    directories = _directories(config)
    filesystem = OsFileSystem()
    before = [path for path in directories if formatter.is_formatted(filesystem, path)]
    if before and not args.ignore_formatted:
        raise KafkaStorageError(
            f"{', '.join(before)}: formatted already. With --ignore-formatted only the others are formatted"
        )
    wanted = _wanted(args, config)
    formatted = formatter.format_directories(filesystem, wanted, directories, os.urandom)
    version = wanted.bootstrap.metadata_version
    for path in formatted:
        print(
            f"formatted {path} for node {config.node_id} of cluster {wanted.cluster_id}, "
            f"metadata.version {version.level} ({version.name})"
        )
    return 0


def _directories(config: BrokerConfig) -> list[str]:
    """Return the directory of the metadata log, then the others. Raises `ConfigError`."""
    found = [path for path in (config.metadata_directory, *config.data_directories) if path]
    if not found:
        raise ConfigError("log.dirs names no directory: add it to the file")
    return list(dict.fromkeys(os.path.abspath(path) for path in found))


def _wanted(args: argparse.Namespace, config: BrokerConfig) -> Format:
    from barnabas.broker.controller.bootstrap_metadata import BootstrapMetadata
    from barnabas.broker.kraft import formatter
    from barnabas.broker.security.scram_arguments import parse_scram
    from barnabas.cli.broker_settings import check_cluster_id

    check_cluster_id("--cluster-id", args.cluster_id)
    directory_id, voters = _voters(args, config)
    levels = formatter.chosen_levels(args.release_version, args.feature, do_voters_change=_names_voters(args))
    bootstrap = BootstrapMetadata.of_levels(levels)
    users = formatter.scram_records(dict(map(parse_scram, args.add_scram)))
    if users and not bootstrap.metadata_version.is_scram_supported:
        raise ConfigError("--add-scram needs release 3.5-IV2 or later")
    records = [*bootstrap.records, *users]
    return formatter.Format(args.cluster_id, config.node_id, BootstrapMetadata(records), voters, directory_id)


def _names_voters(args: argparse.Namespace) -> bool:
    """Whether the options say who votes first, so that the voters may change."""
    return bool(args.standalone or args.initial_controllers or args.no_initial_controllers)


def _voters(args: argparse.Namespace, config: BrokerConfig) -> tuple[bytes | None, VoterSet | None]:
    """Return the id that the metadata directory gets, and who votes first, where the options say so."""
    from barnabas.broker.kraft import formatter

    chosen = _names_voters(args)
    if config.voters and chosen:
        raise ConfigError(
            "the voters are static: --standalone, --initial-controllers and --no-initial-controllers go with "
            "controller.quorum.bootstrap.servers, without controller.quorum.voters"
        )
    if not config.is_controller:
        if args.standalone:
            raise ConfigError("--standalone is for a node with the role controller")
        return None, None
    if not config.voters and not chosen:
        raise ConfigError(
            "controller.quorum.voters is not set: say who votes with --standalone, --initial-controllers or "
            "--no-initial-controllers"
        )
    own = config.of_controller()
    if args.standalone:
        directory_id = os.urandom(16)
        return directory_id, formatter.standalone_voters(own, directory_id)
    if args.initial_controllers:
        voters = formatter.initial_voters(args.initial_controllers, own.controller_listener_names[0])
        found = voters.get(config.node_id)
        if found is None:
            raise ConfigError(
                f"--initial-controllers does not name node {config.node_id}: format a controller that is to join "
                "later with --no-initial-controllers"
            )
        return found.key.directory_id, voters
    return None, None
