"""What people see of the demo: a table of the worst hours, and a picture of the year."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

LOCAL = "America/New_York"


def frame_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the windows with local times and mean delays."""
    frame = pd.DataFrame(rows)
    frame["local"] = pd.to_datetime(frame["hour"], utc=True).dt.tz_convert(LOCAL)
    frame["mean_delay"] = frame["delay_minutes"] / frame["departures"].where(frame["departures"] > 0)
    return frame


def worst_hours(frame: pd.DataFrame, console: Console, count: int = 10) -> None:
    """Print the hours with the longest mean delay among those with at least ten departures."""
    table = Table(title=f"The {count} worst hours: flights that flew and did not, delay, weather", title_justify="left")
    table.add_column("Airport", no_wrap=True)
    table.add_column("New York time", no_wrap=True)
    for name in ("flew", "not", "mean\nmin", "worst\nmin", "wind\nmph", "rain\nin", "sight\nmi"):
        table.add_column(name, no_wrap=True, justify="right")
    busy = frame[frame["departures"] >= 10].nlargest(count, "mean_delay")
    for row in busy.itertuples():
        figures = [(row.mean_delay, 0), (row.worst_delay, 0), (row.wind_speed, 0), (row.precip, 2), (row.visib, 1)]
        table.add_row(
            f"{row.origin} {row.airport}" if console.width >= 110 else row.origin,
            f"{row.local:%a %d %b %H:%M}",
            str(row.departures),
            str(row.cancellations),
            *("?" if pd.isna(value) else f"{value:.{digits}f}" for value, digits in figures),
        )
    console.print(table)


def draw_year(frame: pd.DataFrame, path: Path) -> None:
    """Save the year as a picture: a row for each hour of the day, a column for each day, colour for the mean delay."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    by_day = frame.assign(day=frame["local"].dt.dayofyear, clock=frame["local"].dt.hour)
    sums = by_day.groupby(["clock", "day"])[["delay_minutes", "departures"]].sum()
    mean = (sums["delay_minutes"] / sums["departures"].where(sums["departures"] > 0)).unstack("day")
    mean = mean.reindex(index=range(5, 24), columns=range(1, 366))
    cancelled = by_day.groupby("day")["cancellations"].sum().reindex(range(1, 366), fill_value=0)
    figure, (top, below) = plt.subplots(
        2, 1, figsize=(12, 5.6), height_ratios=(3, 1), sharex=True, layout="constrained"
    )
    image = top.imshow(
        mean, aspect="auto", origin="lower", cmap="inferno", vmin=0, vmax=90, extent=(0.5, 365.5, 4.5, 23.5)
    )
    top.set_yticks([6, 9, 12, 15, 18, 21], ["06:00", "09:00", "12:00", "15:00", "18:00", "21:00"])
    top.set_title("New York's airports in 2013: mean departure delay by day and hour", loc="left")
    figure.colorbar(image, ax=top, label="minutes", pad=0.01)
    below.bar(cancelled.index, cancelled, width=1.0, color="#7a1f5c")
    below.set_ylabel("cancelled\nper day")
    starts = pd.date_range("2013-01-01", periods=12, freq="MS")
    below.set_xticks(starts.dayofyear, starts.strftime("%b"))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
