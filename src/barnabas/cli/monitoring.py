"""`barnabas monitoring`: the Grafana dashboard and the alert rules that belong to `barnabas up --metrics`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from barnabas.cli.arguments import Subparsers, add_command

if TYPE_CHECKING:
    from argparse import Namespace

#: What can be printed, and the file that has it.
FILES = {"dashboard": "grafana-dashboard.json", "alerts": "prometheus-rules.yml"}
_EXAMPLES = """\
  barnabas monitoring dashboard > kafka.json     to import into Grafana
  barnabas monitoring alerts > kafka-rules.yml   for rule_files of Prometheus
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "print a Grafana dashboard, or alert rules for Prometheus"
    parser = add_command(subparsers, "monitoring", about, examples=_EXAMPLES)
    parser.add_argument("what", choices=FILES, metavar="WHAT", help=" or ".join(FILES))


def run(args: Namespace) -> int:
    """Print the file."""
    from importlib import resources

    sys.stdout.write(resources.files("barnabas.broker.monitoring").joinpath(FILES[args.what]).read_text())
    return 0
