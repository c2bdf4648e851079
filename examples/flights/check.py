"""The same figures, computed on the data frames, and the comparison with what came out of the stream."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd
from data import Tables

#: Figures that must agree to the last digit; all are counts, sums of whole minutes, or measurements passed through.
COUNTS = ["scheduled", "departures", "cancellations", "delay_minutes", "unknown_destinations", "with_weather"]
VALUES = ["airport", "worst_delay", "wind_speed", "precip", "visib", "airlines"]


class Outcome(NamedTuple):
    """What the comparison found; `differences` is empty when all is right."""

    windows: int
    totals: dict[str, int]
    differences: list[str]


def expected(tables: Tables) -> pd.DataFrame:
    """Every airport and hour with its figures, indexed by (origin, hour); `job.measures` does the same in Spark."""
    names = tables.airports[["faa", "name"]]
    flights = (
        tables.flights.merge(tables.airlines.rename(columns={"name": "airline"}), on="carrier", how="left")
        .merge(names.rename(columns={"faa": "origin", "name": "airport"}), on="origin", how="left")
        .merge(names.rename(columns={"faa": "dest", "name": "destination"}), on="dest", how="left")
        .merge(tables.weather, on=["origin", "hour"], how="left", suffixes=("", "_weather"), indicator="weather_known")
    )
    flights["departed"] = flights["dep_delay"].notna()
    flights["destination_unknown"] = flights["destination"].isna()
    flights["weather_there"] = flights["weather_known"] == "both"
    groups = flights.groupby(["origin", "hour"])
    found = pd.DataFrame(
        {
            "airport": groups["airport"].first(),
            "scheduled": groups.size(),
            "departures": groups["departed"].sum(),
            "delay_minutes": groups["dep_delay"].sum().astype("int64"),
            "worst_delay": groups["dep_delay"].max(),
            "unknown_destinations": groups["destination_unknown"].sum(),
            "with_weather": groups["weather_there"].sum(),
            "wind_speed": groups["wind_speed"].max(),
            "precip": groups["precip"].max(),
            "visib": groups["visib"].min(),
            "airlines": groups["airline"].unique().map(sorted),
        }
    )
    found["cancellations"] = found["scheduled"] - found["departures"]
    return found


def compare(rows: list[dict[str, Any]], tables: Tables) -> Outcome:
    """Hold the records read back from the topic of delays against the data frames, window by window."""
    want = expected(tables)
    got = pd.DataFrame(rows, columns=["origin", "hour", *COUNTS, *VALUES])
    got["hour"] = pd.to_datetime(got["hour"], utc=True)
    differences = []
    repeated = int(got.duplicated(["origin", "hour"]).sum())
    if repeated:
        differences.append(f"{repeated} windows came out more than once")
    got = got.drop_duplicates(["origin", "hour"]).set_index(["origin", "hour"])
    missing, surplus = want.index.difference(got.index), got.index.difference(want.index)
    differences += [f"{len(missing)} windows are missing, the first is {missing[0]}"] if len(missing) else []
    differences += [f"{len(surplus)} windows are not in the data, the first is {surplus[0]}"] if len(surplus) else []
    both = want.index.intersection(got.index)
    for name in [*COUNTS, *VALUES]:
        left, right = want.loc[both, name], got.loc[both, name]
        unequal = ~((left == right) | (left.isna() & right.isna()))
        if unequal.any():
            where = unequal.idxmax()
            differences.append(
                f"{name} differs in {int(unequal.sum())} windows: at {where} {right[where]!r}, not {left[where]!r}"
            )
    totals = {name: int(got[name].sum()) for name in COUNTS}
    return Outcome(len(got), totals, differences)
