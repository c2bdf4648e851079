"""What the console changes about topics: created, deleted, altered, emptied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from barnabas.admin import ConfigResource, NewTopic
from barnabas.console.commands import set_options
from barnabas.console.topics import offset_bounds
from barnabas.errors import IllegalArgumentError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.aio import AdminClient
    from barnabas.console.answers import Body
    from barnabas.console.commands import Commands


class Changed(TypedDict):
    """A change that was made, or with `dryRun` could be; and the command line that does the same."""

    dryRun: bool
    command: str


async def create(admin: AdminClient, body: Body, commands: Commands) -> Changed:
    """Create a topic. Raises `TopicExistsError`, ..."""
    name, partitions = body.text("name"), body.integer("partitions", -1)
    replicas, settings, dry_run = body.integer("replicationFactor", -1), body.settings("settings"), body.flag("dryRun")
    new = NewTopic(name, partitions, replicas, configs=settings)
    await admin.create_topics([new], validate_only=dry_run)
    counts = [*(["-p", str(partitions)] if partitions > 0 else []), *(["-r", str(replicas)] if replicas > 0 else [])]
    return _changed(commands, dry_run, "topic", "create", name, *counts, *set_options(settings))


async def delete(admin: AdminClient, name: str, body: Body, commands: Commands) -> Changed:
    """Delete a topic with all its records. Raises `UnknownTopicOrPartitionError`, ..."""
    body.confirmed(name)
    await admin.delete_topics([name])
    return _changed(commands, False, "topic", "delete", name)


async def alter_settings(admin: AdminClient, name: str, body: Body, commands: Commands) -> Changed:
    """Change settings of a topic, or take them back to their defaults. Raises `InvalidConfigurationError`, ..."""
    given, unset, dry_run = body.settings("set"), body.texts("unset"), body.flag("dryRun")
    changes: dict[str, Any] = {**given, **dict.fromkeys(unset)}
    if not changes:
        raise IllegalArgumentError("nothing to change: give set or unset")
    await admin.incremental_alter_configs({ConfigResource.topic(name): changes}, validate_only=dry_run)
    unsets = [word for setting in unset for word in ("--unset", setting)]
    return _changed(commands, dry_run, "topic", "config", name, *set_options(given), *unsets)


async def add_partitions(admin: AdminClient, name: str, body: Body, commands: Commands) -> Changed:
    """Give a topic more partitions. Raises `InvalidPartitionsError`, ..."""
    total, dry_run = body.integer("total"), body.flag("dryRun")
    await admin.create_partitions({name: total}, validate_only=dry_run)
    return _changed(commands, dry_run, "topic", "alter", name, "-p", str(total))


async def empty(admin: AdminClient, name: str, body: Body, commands: Commands) -> Changed:
    """Delete the records that a topic has now; those that come meanwhile stay. Raises `PolicyViolationError`, ..."""
    body.confirmed(name)
    description = (await admin.describe_topics([name]))[name]
    _, ends = await offset_bounds(admin, description)
    await admin.delete_records({TopicPartition(name, partition): end for partition, end in ends.items()})
    return _changed(commands, False, "topic", "trim", name, "--before", "end")


def _changed(commands: Commands, dry_run: bool, *words: str) -> Changed:
    return {"dryRun": dry_run, "command": commands.line(*words, *(["--dry-run"] if dry_run else []))}
