"""Each alert fires on series that show its fault, and is silent on those of a sound broker: Prometheus itself says so.

`promtool test rules` evaluates the rules minute by minute on series that are written down here. The first column has
the fault, the second the same metric of a broker that is well, both in promtool's notation: `0+60x30` begins with 0
and adds 60 in each of thirty minutes.
"""

from __future__ import annotations

import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

RULES_TEXT = resources.files("barnabas.broker.monitoring").joinpath("prometheus-rules.yml").read_text()
RULES = {rule["alert"]: rule for group in yaml.safe_load(RULES_TEXT)["groups"] for rule in group["rules"]}

CASES: dict[str, tuple[str, str, str]] = {
    "KafkaBrokerDown": ('up{job="kafka-eu", instance="a"}', "0x60", "1x60"),
    "KafkaOfflinePartitions": ("kafka_controller_kafkacontroller_offlinepartitionscount", "3x60", "0x60"),
    "KafkaOfflineLogDirectory": ("kafka_log_logmanager_offlinelogdirectorycount", "1x60", "0x60"),
    "KafkaNoActiveController": ("kafka_controller_kafkacontroller_activecontrollercount", "0x60", "1x60"),
    "KafkaQuorumWithoutLeader": ("kafka_server_raft_metrics_current_leader", "-1x60", "3000x60"),
    "KafkaQuorumElections": ("kafka_server_raft_metrics_current_epoch", "7+1x60", "7x60"),
    "KafkaControllerLags": ("kafka_controller_kafkacontroller_lastappliedrecordlagms", "0+60000x60", "500x60"),
    "KafkaFencedBrokers": ("kafka_controller_kafkacontroller_fencedbrokercount", "1x60", "0x60"),
    "KafkaTopicDeletionStuck": ("kafka_controller_kafkacontroller_topicsineligibletodeletecount", "2x60", "0x60"),
    "KafkaUnderMinIsrPartitions": ("kafka_server_replicamanager_underminisrpartitioncount", "1x60", "0x60"),
    "KafkaUnderReplicatedPartitions": ("kafka_server_replicamanager_underreplicatedpartitions", "1x60", "0x60"),
    "KafkaIsrShrinks": ("kafka_server_replicamanager_isrshrinks_total", "0+1x60", "4x60"),
    "KafkaFollowerLags": ("kafka_server_replicafetchermanager_maxlag", "20000x60", "12x60"),
    "KafkaFailedProduceRequests": (
        'kafka_server_brokertopicmetrics_failedproducerequests_total{instance="a", topic="t"}',
        "0+1x60",
        "9x60",
    ),
    "KafkaFailedFetchRequests": (
        'kafka_server_brokertopicmetrics_failedfetchrequests_total{instance="a", topic="t"}',
        "0+1x60",
        "9x60",
    ),
    "KafkaUnknownServerErrors": (
        'kafka_network_requestmetrics_errors_total{request="Fetch", error="KAFKA_STORAGE_ERROR"}',
        "0+5x60",
        "5x60",
    ),
    "KafkaBrokerBusy": ("kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent", "0.1x60", "0.7x60"),
    "KafkaProduceSlow": (
        'kafka_network_requestmetrics_totaltimems{request="Produce", quantile="0.99"}',
        "900x60",
        "4x60",
    ),
    "KafkaFlushSlow": ('kafka_log_logflushstats_logflushrateandtimems{quantile="0.99"}', "1500x60", "20x60"),
    "KafkaUncleanablePartitions": ("kafka_log_logcleanermanager_uncleanable_partitions_count", "1x60", "0x60"),
    "KafkaTransactionOpenForLong": ("barnabas_oldest_open_transaction_seconds", "3600+60x60", "0+1x60"),
    "KafkaLoginsFail": (
        'kafka_server_socket_server_metrics_failed_authentication_total{listener="SASL", mechanism="PLAIN"}',
        "0+120x60",
        "0+6x60",
    ),
    "KafkaClientsThrottled": ("barnabas_throttled_connections", "1x60", "0x60"),
}

#: The errors that a mistake of a client makes wake nobody.
SILENT = {
    "KafkaUnknownServerErrors": (
        'kafka_network_requestmetrics_errors_total{request="Fetch", error="UNKNOWN_TOPIC_OR_PARTITION"}',
        "0+5x60",
    ),
    "KafkaProduceSlow": ('kafka_network_requestmetrics_totaltimems{request="Fetch", quantile="0.99"}', "900x60"),
    "KafkaFlushSlow": ('kafka_log_logflushstats_logflushrateandtimems{quantile="0.5"}', "1500x60"),
    "KafkaBrokerDown": ('up{job="node-exporter", instance="a"}', "0x60"),
}


def case(alert: str, series: str, values: str, *, fires: bool) -> dict[str, object]:
    """One test of promtool: an hour of one series, and whether the alert fires at its end."""
    expected = [{"labels": "{}", "value": 1}] if fires else []
    return {
        "interval": "1m",
        "input_series": [{"series": series, "values": values}],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})',
                "eval_time": "50m",
                "exp_samples": expected,
            }
        ],
    }


def promtool(folder: Path, cases: list[dict[str, object]]) -> str:
    """Run the cases; return what promtool finds wrong."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    (folder / "rules.yml").write_text(RULES_TEXT)
    file = folder / "cases.yml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": cases}))
    done = subprocess.run([program, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_every_alert_has_a_case() -> None:
    assert CASES.keys() == RULES.keys()


def test_every_alert_fires_on_its_fault_and_is_silent_without_it(tmp_path: Path) -> None:
    faults = [case(alert, series, fault, fires=True) for alert, (series, fault, _) in CASES.items()]
    sound = [case(alert, series, well, fires=False) for alert, (series, _, well) in CASES.items()]
    others = [case(alert, series, values, fires=False) for alert, (series, values) in SILENT.items()]

    assert promtool(tmp_path, faults + sound + others) == ""


def test_a_fault_that_ends_within_its_time_alerts_nobody(tmp_path: Path) -> None:
    brief = [
        case(alert, CASES[alert][0], "0x49 1x11", fires=False)
        for alert in ("KafkaFencedBrokers", "KafkaClientsThrottled")
    ]

    assert promtool(tmp_path, brief) == ""
