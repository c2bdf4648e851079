"""What `barnabas cluster` has of other commands."""

from __future__ import annotations

import pytest

from barnabas import Broker
from barnabas.cli.main import main


def test_log_directories_and_features_are_shown_as_their_own_commands_show_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Broker(in_process=True) as broker:

        def said(*words: str) -> str:
            capsys.readouterr()
            assert main([*words, "-b", broker.bootstrap_servers, "-o", "json"]) == 0
            return capsys.readouterr().out

        found = said("cluster", "features")
        assert found == said("feature", "list")
        assert "group.version" in found
        assert broker.data_dir in said("cluster", "log-dirs", "--broker", "1")
