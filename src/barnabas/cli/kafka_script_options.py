"""What people type who know Kafka's scripts or kcat, and how it is said here."""

from __future__ import annotations

_TOPIC = "name the topic itself"
_SERVERS = "-b HOST:PORT"

#: Command → option of kafka-*.sh or kcat → what it is here.
HABITS: dict[str, dict[str, str]] = {
    "topic": {
        "--list": "barnabas topic list",
        "-L": "barnabas topic list",
        "--create": "barnabas topic create TOPIC",
        "--delete": "barnabas topic delete TOPIC",
        "--describe": "barnabas topic describe TOPIC",
        "--alter": "barnabas topic alter TOPIC -p NUMBER, or barnabas topic config TOPIC --set NAME=VALUE",
        "--generate": "barnabas topic reassign plan TOPIC --to IDS",
        "--execute": "barnabas topic reassign execute --file FILE",
        "--verify": "barnabas topic reassign status --file FILE",
        "--cancel": "barnabas topic reassign cancel --file FILE",
        "--reassignment-json-file": "--file FILE",
        "--topic": f"{_TOPIC}: barnabas topic ACTION TOPIC",
        "-t": f"{_TOPIC}: barnabas topic ACTION TOPIC",
    },
    "consume": {
        "-C": "barnabas consume TOPIC",
        "-t": f"{_TOPIC}: barnabas consume TOPIC",
        "--topic": f"{_TOPIC}: barnabas consume TOPIC",
        "-G": "barnabas consume TOPIC --group GROUP",
        "--from-beginning": "barnabas consume TOPIC --from beginning",
        "--max-messages": "barnabas consume TOPIC -n NUMBER",
        "-c": "barnabas consume TOPIC -n NUMBER",
        "-o": "barnabas consume TOPIC --from PLACE",
    },
    "produce": {
        "-P": "barnabas produce TOPIC",
        "-t": f"{_TOPIC}: barnabas produce TOPIC",
        "--topic": f"{_TOPIC}: barnabas produce TOPIC",
    },
    "group": {
        "--list": "barnabas group list",
        "--describe": "barnabas group describe GROUP",
        "--delete": "barnabas group delete GROUP",
        "--reset-offsets": "barnabas group offsets reset GROUP",
        "--group": "name the group itself: barnabas group ACTION GROUP",
        "--all-groups": "barnabas group list",
    },
    "config": {
        "--describe": "barnabas config get KIND ENTITY",
        "--alter": "barnabas config set KIND ENTITY NAME=VALUE",
        "--add-config": "barnabas config set KIND ENTITY NAME=VALUE",
        "--delete-config": "barnabas config unset KIND ENTITY NAME",
        "--entity-type": "name kind and entity themselves, such as: barnabas config get topic flights",
        "--entity-name": "name kind and entity themselves, such as: barnabas config get topic flights",
    },
    "log-dir": {"--describe": "barnabas log-dir", "--broker-list": "barnabas log-dir --broker ID"},
    "leader": {
        "--election-type": "barnabas leader elect, with --unclean for the unclean kind",
        "--all-topic-partitions": "barnabas leader elect",
        "--topic": f"{_TOPIC}: barnabas leader elect TOPIC",
    },
    "feature": {"--describe": "barnabas feature list", "upgrade": "barnabas feature set FEATURE=LEVEL"},
    "": {
        "-L": "barnabas cluster, or barnabas topic list",
        "-C": "barnabas consume TOPIC",
        "-P": "barnabas produce TOPIC",
        "-Q": "barnabas topic offsets TOPIC",
        "--list": "barnabas topic list",
        "--bootstrap-server": _SERVERS,
    },
}
#: The same for all commands.
EVERYWHERE = {
    "--bootstrap-server": _SERVERS,
    "--broker-list": _SERVERS,
    "--brokers": _SERVERS,
    "--command-config": "--config FILE",
    "--consumer.config": "--config FILE",
    "--producer.config": "--config FILE",
    "--consumer-property": "-X NAME=VALUE",
    "--producer-property": "-X NAME=VALUE",
    "--property": "-X NAME=VALUE",
    "-J": "-o json",
}


def equivalent(command: str, arguments: list[str], known: set[str]) -> str | None:
    """Return what the first of these arguments that is a habit would be here, unless this command `known` it."""
    table = {**EVERYWHERE, **HABITS.get(command, {})}
    for argument in arguments:
        name = argument.partition("=")[0]
        if name in table and name not in known:
            return f"{name} is not an option here: {table[name]}"
    return None
