"""`KStream.print` writes a line for each record, and opens its file where the task begins."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.streams import (
    Named,
    Printed,
    Serdes,
    StreamsBuilder,
    StreamsError,
    Topology,
    TopologyError,
    TopologyTestDriver,
)

TEXT = {"key": Serdes.string(), "value": Serdes.string()}


def printing(*arguments: Any, **keywords: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", name="flights", **TEXT).print(*arguments, **keywords)
    return builder.build()


def run(topology: Topology, *values: str) -> None:
    with TopologyTestDriver(topology, {"application.id": "a"}) as driver:
        source = driver.create_input_topic("in", Serdes.string(), Serdes.string())
        for value in values:
            source.pipe_input(value, "k")


def test_standard_output_has_the_name_of_the_step_before(capsys: pytest.CaptureFixture[str]) -> None:
    run(printing(), "v", "w")
    run(printing(Printed.to_sys_out().with_label("in")), "x")

    assert capsys.readouterr().out == "[flights]: k, v\n[flights]: k, w\n[in]: k, x\n"


def test_a_file_is_opened_by_the_task_and_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    topology = printing(Printed.to_file(path).with_key_value_mapper(lambda key, value: f"{value}<-{key}"), label="L")
    assert not path.exists()

    run(topology, "v")
    run(topology, "é")

    assert path.read_text(encoding="utf-8") == "[L]: v<-k\n[L]: é<-k\n"


def test_lines_are_in_the_file_while_the_task_runs(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with TopologyTestDriver(printing(Printed.to_file(path)), {"application.id": "a"}) as driver:
        driver.create_input_topic("in", Serdes.string(), Serdes.string()).pipe_input("v", "k")
        assert path.read_text(encoding="utf-8") == "[flights]: k, v\n"


def test_what_is_printed_travels_to_other_processes(tmp_path: Path) -> None:
    printed = pickle.loads(pickle.dumps(Printed.to_file(tmp_path / "out.txt").with_label("x")))

    assert (printed.path, printed.label) == (str(tmp_path / "out.txt"), "x")


def test_the_step_has_the_name_that_is_given() -> None:
    assert "Processor: shown" in str(printing(Printed.to_sys_out().with_name("shown")).describe())
    assert "Processor: KSTREAM-PRINTER-0000000001" in str(printing().describe())


def test_a_file_that_cannot_be_written_fails_the_task(tmp_path: Path) -> None:
    topology = printing(Printed.to_file(tmp_path / "none" / "out.txt"))

    with pytest.raises(StreamsError, match="failed to initialize processor KSTREAM-PRINTER-0000000001") as failed:
        TopologyTestDriver(topology, {"application.id": "a"})
    assert f"Unable to write stream to file at [{tmp_path}" in str(failed.value.__cause__)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Printed.to_file(" "), TopologyError, "filePath can't be an empty string"),
        (lambda: Printed.to_sys_out().with_label(None), TypeError, "label can't be null"),
        (lambda: Printed.to_sys_out().with_key_value_mapper(lambda value: value), TypeError, "takes other arguments"),
        (lambda: Printed.to_sys_out().with_name("a b"), TopologyError, "Name"),
        (lambda: printing(Printed.to_sys_out().with_label("a"), label="b"), TypeError, "label is given twice"),
        (lambda: printing(Named.as_("a")), TypeError, "print takes Printed"),
    ],
)
def test_mistakes(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
