"""`barnabas spark repair`: what to do about a batch of the exactly-once sink that lost rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import API_TIMEOUT_MS, check_reachable, client_settings
from barnabas.cli.output import print_json, print_table

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.spark.exactly_once.decision import Decision

COLUMNS = ("task", "rows", "topics", "fate", "transactionalId")
_EXAMPLES = """\
  barnabas spark repair 3e5bf6b2-4bd2-488c-baa2-b218c8dd39ed
  barnabas spark repair 3e5bf6b2-4bd2-488c-baa2-b218c8dd39ed --rewrite-lost
"""


def add_repair(parts: Subparsers) -> None:
    """Describe the command's options."""
    from barnabas.spark.exactly_once.decision import DECISION_TOPIC, TRANSACTIONAL_ID_PREFIX

    about = "finish the last batch of a query with guarantee=exactly-once; stop the query first"
    parser = add_command(parts, "repair", about, examples=_EXAMPLES)
    parser.add_argument("query", metavar="QUERY", help="the query's id, from the error or the checkpoint's metadata")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--rewrite-lost", action="store_const", dest="choice", const="rewrite-lost",
        help="have the tasks whose rows were lost write them when the query starts again",
    )  # fmt: skip
    choice.add_argument(
        "--accept-loss", action="store_const", dest="choice", const="accept-loss",
        help="leave lost rows lost, so that the query can go on",
    )  # fmt: skip
    parser.add_argument(
        "--decision-topic", metavar="TOPIC", default=DECISION_TOPIC, help="the sink's option decisionTopic"
    )
    parser.add_argument(
        "--transactional-id-prefix", metavar="TEXT", default=TRANSACTIONAL_ID_PREFIX,
        help="the sink's option transactionalIdPrefix",
    )  # fmt: skip
    add_connection(parser)
    parser.set_defaults(action=run_repair)


def run_repair(args: Namespace) -> int:
    """Take over from the query's driver, do what was chosen, print what became of the batch. 1 while rows are lost."""
    from barnabas.spark.exactly_once import driver_steps as driver
    from barnabas.spark.exactly_once.decision import LOST

    settings = client_settings(args, "producer", {"max.block.ms": API_TIMEOUT_MS})
    check_reachable(str(settings["bootstrap.servers"]), section="producer", settings=settings)
    place = driver.SinkPlace(
        tuple(sorted((name, str(value)) for name, value in settings.items())),
        args.decision_topic,
        args.transactional_id_prefix,
    )
    decision = driver.repair(place, args.query, args.choice)
    rows = [] if decision is None else _rows(decision)
    if args.output == "json":
        found = None if decision is None else {"batch": decision.batch, "state": decision.state}
        print_json({"query": args.query, "decision": found, "tasks": rows})
    elif decision is None:
        print(f"no batch of query {args.query} was ever decided; what its tasks had left open was aborted")
    else:
        print(f"batch  {decision.batch}\nstate  {decision.state}\n")
        print_table(rows, COLUMNS)
    return 1 if decision is not None and decision.state == LOST else 0


def _rows(decision: Decision) -> list[dict[str, Any]]:
    return [
        {
            "task": task.partition,
            "rows": task.rows,
            "topics": " ".join(f"{topic}:{','.join(map(str, found))}" for topic, found in sorted(task.topics.items())),
            "fate": "lost" if task.partition in decision.lost else "committed",
            "transactionalId": task.transactional_id,
        }
        for task in decision.tasks
    ]
