"""Checks a parsed value against the `valid` text of Kafka's own documentation.

The forms are: `[low,...]`, `[low,...,high]`, the latter with `or -1`; `[a, b, c]`, also as `(case insensitive) [A, B]`;
`non-empty string`, `non-null string`, `non-empty list`; and two that belong to one setting each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[[Any], Any]
"""Takes the parsed value, returns it (in its canonical spelling), raises ValueError saying what is allowed."""


def check_for(valid: str) -> Check | None:
    """Return the check that a `valid` text describes; None when it allows everything."""
    if not valid:
        return None
    special = _SPECIAL.get(valid)
    if special is not None:
        return special
    if ",..." in valid:
        return _range_check(valid)
    return _choice_check(valid)


def _range_check(valid: str) -> Check:
    bounds, _, exception = valid.partition(" or ")
    low_text, _, high_text = bounds.strip("[]").partition(",...")
    low = float(low_text) if "." in low_text else int(low_text)
    high_text = high_text.strip(",")
    high = None if not high_text else (float(high_text) if "." in high_text else int(high_text))
    besides = int(exception) if exception else None
    allowed = f"must be at least {low}" if high is None else f"must lie in {low} to {high}"
    if besides is not None:
        allowed += f", or be {besides}"

    def check(value: Any) -> Any:
        if value is not None and value != besides and (not value >= low or (high is not None and value > high)):
            raise ValueError(allowed)
        return value

    return check


def _choice_check(valid: str) -> Check:
    folds = valid.startswith("(case insensitive)")
    choices = tuple(item.strip() for item in valid[valid.index("[") :].strip("[]").split(","))
    canonical = {choice.lower(): choice for choice in choices} if folds else {choice: choice for choice in choices}
    allowed = f"must be one of {', '.join(choices)}"

    def check_one(value: Any) -> Any:
        found = canonical.get(value.lower() if folds else value) if isinstance(value, str) else None
        if found is None and value is not None:
            raise ValueError(allowed)
        return found

    def check(value: Any) -> Any:
        return [check_one(item) for item in value] if isinstance(value, list) else check_one(value)

    return check


def _check_not_empty(value: Any) -> Any:
    if value == "":
        raise ValueError("must not be empty")
    return value


def _check_not_null(value: Any) -> Any:
    if value is None:
        raise ValueError("must have a value")
    return value


def _check_offset_reset(value: str) -> str:
    if value.startswith("by_duration:"):
        _check_duration(value[len("by_duration:") :])
    elif value not in ("latest", "earliest", "none"):
        raise ValueError("must be one of latest, earliest, none, by_duration:PnDTnHnMn.nS")
    return value


def _check_duration(text: str) -> None:
    import re

    if not re.fullmatch(r"P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?", text, re.IGNORECASE):
        raise ValueError("must hold an ISO-8601 duration that is not negative, such as by_duration:P1DT2H")


def _check_throttled_replicas(value: list[Any]) -> list[Any]:
    for item in value:
        if item != "*" and not all(part.isdigit() for part in str(item).split(":")):
            raise ValueError("must be * or [partitionId]:[brokerId],[partitionId]:[brokerId],...")
    return value


_SPECIAL: dict[str, Check] = {
    "non-empty string": _check_not_empty,
    "non-null string": _check_not_null,
    "[latest, earliest, none, by_duration:PnDTnHnMn.nS]": _check_offset_reset,
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...": _check_throttled_replicas,
    "[batch_optimized, record_limit]": _choice_check("(case insensitive) [batch_optimized, record_limit]"),
    # The two settings with this text name a controller quorum; an unset one is allowed when it is not used.
    "non-empty list": lambda value: value,
}
