"""Only a failure of the very test that carries a mark counts as having seen that its function is broken."""

from __future__ import annotations

from collections import Counter

import pytest

from tools.checklist import verify
from tools.checklist.marks import Show
from tools.checklist.verify import Ended, Verdict, judge

SHOW = Show("S1.1", "test_x.py::test_one", ":".join(["barnabas.x", "f"]))


def ended(noted: str = "altered\n", **outcomes: list[str]) -> Ended:
    return Ended(outcomes, noted, Counter())


@pytest.mark.parametrize(
    ("run", "result"),
    [
        (ended(one=["failed in call"]), verify.CAUGHT),
        (ended(one=["failed in setup"]), verify.CAUGHT),
        (ended(one=["failed in call"], noted=""), verify.NOT_REACHED),
        (ended(one=["passed"]), verify.PASSES),
        (ended(one=["passed"], noted="called\n"), verify.UNALTERED),
        (ended(one=["timed out"]), verify.TIMED_OUT),
        (ended(one=["skipped"]), verify.NOT_RUN),
        (ended(other=["failed in call"]), verify.NOT_RUN),
        (ended(), verify.NOT_RUN),
    ],
)
def test_a_run_is_judged_by_how_the_marked_test_itself_ended(run: Ended, result: str) -> None:
    assert judge(run, ["one"]) == result


def test_of_a_parametrised_test_one_case_has_to_fail() -> None:
    assert judge(ended(a=["passed"], b=["failed in call"]), ["a", "b"]) == verify.CAUGHT


def test_where_a_wrong_answer_passes_doing_nothing_must_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers = {"raise": "failed in call", "wrong": "passed", "empty": "failed in call"}

    def run(tests: list[str], environment: dict[str, str], *, slow: bool) -> Ended:
        asked.append(environment["BARNABAS_BREAK_HOW"])
        return ended(**{SHOW.test: [answers[asked[-1]]]})

    monkeypatch.setattr(verify, "run", run)

    verdicts = verify.verify_target(SHOW.breaks, {SHOW: [SHOW.test]}, slow=False)
    answers["empty"] = "passed"
    weak = verify.verify_target(SHOW.breaks, {SHOW: [SHOW.test]}, slow=False)

    assert asked == ["raise", "wrong", "empty"] * 2
    assert [verdict.result for verdict in verdicts] == [verify.CAUGHT, verify.CAUGHT]
    assert [verdict.result for verdict in weak] == [verify.CAUGHT, verify.PASSES]


def test_a_complaint_names_line_test_function_and_way() -> None:
    found = list(verify.complaints([Verdict(SHOW, "wrong", verify.PASSES), Verdict(SHOW, "raise", verify.CAUGHT)]))

    assert found == [f"S1.1: test_x.py::test_one passes when {SHOW.breaks} answers wrongly"]
