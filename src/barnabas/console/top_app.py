"""The screen of `barnabas top`: tables, kept up to date, driven by keys. Needs Textual (the extra `top`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from barnabas.aio import AdminClient
from barnabas.clock import wall_clock_ms
from barnabas.console.commands import Commands
from barnabas.console.group_kinds import described_group
from barnabas.console.live import Hub
from barnabas.console.sampler import SHARE, Sample, Sampler
from barnabas.console.top_cells import cell, head, shown
from barnabas.console.top_keys import Keys
from barnabas.console.top_more import clients_of, more_of
from barnabas.console.top_offsets import MoveOffsets
from barnabas.console.top_view import COMMANDS, TABLES, Detail, More, Row, counted, details, health, table_rows
from barnabas.errors import KafkaError

LEAST_SECONDS = 1.0
#: Rows of a table inside; a broker may have a hundred thousand replicas.
MOST_ROWS = 2000
TAB_KEYS = {"t": "topics", "g": "groups", "b": "brokers", "x": "transactions", "c": "clients"}
_KEY_OF = {name: key for key, name in TAB_KEYS.items()}


class Inside(ModalScreen[None]):
    """What a row has: its partitions, its members."""

    CSS = (
        "Inside { align: center middle; } DataTable { height: auto; }"
        "#inside { width: 90%; height: 90%; background: $surface; border: round $primary; }"
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "dismiss", "Back"), ("question_mark", "app.keys", "Keys"), ("q", "dismiss", "Back"),
    ]  # fmt: skip

    def __init__(self, title: str, found: list[Detail]) -> None:
        super().__init__()
        self._title = title
        self._found = found

    def compose(self) -> ComposeResult:
        """Lay the tables out, one below the other."""
        with VerticalScroll(id="inside"):
            yield Static(Text(shown(self._title), style="bold"))
            for number, detail in enumerate(self._found):
                yield Static(Text(f"\n{detail.title}: {len(detail.rows)}", style="dim"))
                yield DataTable(id=f"inside-{number}", cursor_type="row")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Fill the tables."""
        for number, detail in enumerate(self._found):
            table: DataTable[Text] = self.query_one(f"#inside-{number}", DataTable)
            table.add_columns(*map(head, detail.columns))
            for row in detail.rows[:MOST_ROWS]:
                table.add_row(*(cell(row[column], column) for column in detail.columns))
        self.query_one("#inside-0", DataTable).focus()


class Top(App[None]):
    """Topics, groups, brokers, transactions and clients of a cluster, the busiest first."""

    TITLE = "barnabas top"
    CSS = (
        "#health { height: auto; max-height: 3; } TabbedContent, DataTable { height: 1fr; }"
        "#filter { display: none; height: 1; border: none; } #filter.shown { display: block; }"
    )
    #: All that the footer shows stands there in 80 columns; the keys of the tables are on their tabs.
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"show('{name}')", name, show=False) for key, name in TAB_KEYS.items()),
        ("s", "sort", "Sort"),
        ("slash", "filter", "Filter"),
        ("space", "freeze", "Freeze"),
        ("o", "offsets", "Offsets"),
        ("question_mark", "keys", "Keys"),
        ("q", "quit", "Quit"),
    ]

    def __init__(self, settings: Mapping[str, Any], *, read_only: bool = False, commands: Commands | None = None):
        super().__init__()
        self._settings = settings
        self._is_read_only = read_only
        self._commands = commands or Commands(("-b", str(settings["bootstrap.servers"])))
        self._columns = {name: table.busiest for name, table in TABLES.items()}
        self._text = ""
        self._is_frozen = False
        self._sample: Sample | None = None
        self._more = More()
        self._drawn: dict[str, list[Row]] = {}
        self._admin: AdminClient | None = None

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Static("looking at the cluster ...", id="health", markup=False)
        yield Input(placeholder="only names with this text; Escape ends", id="filter")
        with TabbedContent(initial="topics"):
            for name in TABLES:
                with TabPane(f"{_KEY_OF[name]} {name.capitalize()}", id=name):
                    yield DataTable(id=f"{name}-table", cursor_type="row", zebra_stripes=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to look at the cluster."""
        for name, table in TABLES.items():
            self._table(name).add_columns(*map(head, table.columns))
        self.run_worker(self._watch(), exclusive=True)
        self._table("topics").focus()

    async def _watch(self) -> None:
        import asyncio

        async with AdminClient(self._settings) as self._admin:
            admin = self._admin
            sampler = Sampler(admin, Hub(()), (wall_clock_ms, time.monotonic), {})
            while True:
                took = 0.0
                try:
                    sample = await sampler.sample()
                    took = sample.took
                    if not self._is_frozen:
                        # Only what is looked at: transactions take a request to each coordinator.
                        active = self.query_one(TabbedContent).active
                        self._more, self._sample = await more_of(admin, sample, [active]), sample
                        self._draw()
                except KafkaError as problem:
                    self._say(f"{type(problem).__name__}: {problem}")
                await asyncio.sleep(max(LEAST_SECONDS, took / SHARE) - took)

    def _draw(self) -> None:
        if self._sample is None:
            return
        frozen = "(frozen) " if self._is_frozen else ""
        only = f'(only "{self._text}") ' if self._text else ""
        self._say(f"{frozen}{only}{health(self._sample)}  {sum(self._sample.rates.values()):,.1f} records/s")
        for name, described in TABLES.items():
            table = self._table(name)
            at = table.cursor_row
            table.clear()
            rows = self._drawn[name] = table_rows(name, self._sample, self._columns[name], self._text, self._more)
            for row in rows:
                table.add_row(*(cell(row[column], column) for column in described.columns))
            table.move_cursor(row=at)

    def _say(self, text: str) -> None:
        self.query_one("#health", Static).update(Text(shown(text)))

    def _table(self, name: str) -> DataTable[Text]:
        found: DataTable[Text] = self.query_one(f"#{name}-table", DataTable)
        return found

    def action_show(self, name: str) -> None:
        """Show a table."""
        self.query_one(TabbedContent).active = name
        self._table(name).focus()
        self.run_worker(self._look_again(name), exclusive=True, group="tab")

    async def _look_again(self, name: str) -> None:
        """Ask for what the table shows, and no other one does."""
        if self._admin is None or self._sample is None or self._is_frozen:
            return
        try:
            self._more = await more_of(self._admin, self._sample, [name])
        except KafkaError as problem:
            self._say(f"{type(problem).__name__}: {problem}")
            return
        self._draw()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the row."""
        if len(self.screen_stack) == 1:
            self.run_worker(self._open(event.cursor_row), exclusive=True, group="inside")

    async def _open(self, number: int) -> None:
        name = self.query_one(TabbedContent).active
        rows = self._drawn.get(name, [])
        if self._sample is None or self._admin is None or number >= len(rows):
            return
        row, more = rows[number], self._more
        title = str(next(iter(row.values())))
        if name == "groups":
            more = more._replace(clients=await clients_of(self._admin, title))
        self.push_screen(Inside(f"{name.removesuffix('s')} {title}", details(name, row, self._sample, more)))

    def action_offsets(self) -> None:
        """Ask where the offsets of the group under the cursor are to go."""
        name, number = self.query_one(TabbedContent).active, self._table("groups").cursor_row
        rows = self._drawn.get("groups", [])
        if self._is_read_only:
            self.notify("nothing is moved: top was started with --read-only", severity="error")
        elif name != "groups" or self._admin is None or not 0 <= number < len(rows):
            self.notify("offsets are moved from the table of groups: press g, and choose one", severity="warning")
        else:
            self.run_worker(self._ask_where(str(rows[number]["group"]), self._admin), exclusive=True, group="inside")

    async def _ask_where(self, group: str, admin: AdminClient) -> None:
        try:
            members = (await described_group(admin, group)).members
        except KafkaError as problem:
            self.notify(shown(f"{type(problem).__name__}: {problem}"), severity="error", markup=False)
            return
        if members:
            text = (
                f"group {group} has {counted(len(members), 'member')}, who would not notice; they have to leave first"
            )
            self.notify(shown(text), severity="error", markup=False)
            return
        self.push_screen(MoveOffsets(group, admin, self._commands), self._moved)

    def _moved(self, count: int | None) -> None:
        if count:
            self.notify(f"moved {counted(count, 'offset')}")

    def action_keys(self) -> None:
        """Say what each key does, and which command tells what the table does."""
        if not isinstance(self.screen, Keys):
            line = self._commands.line(*COMMANDS[self.query_one(TabbedContent).active])
            self.push_screen(Keys(line))

    def action_sort(self) -> None:
        """Sort the table by its next column."""
        name = self.query_one(TabbedContent).active
        columns = TABLES[name].columns
        self._columns[name] = columns[(columns.index(self._columns[name]) + 1) % len(columns)]
        self.notify(f"by {head(self._columns[name])}", timeout=2)
        self._draw()

    def action_freeze(self) -> None:
        """Keep what is shown, or go on."""
        self._is_frozen = not self._is_frozen
        self._draw()

    def action_filter(self) -> None:
        """Ask for a text."""
        field = self.query_one("#filter", Input)
        field.add_class("shown")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show only what has the text."""
        self._text = event.value
        self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go back to the table."""
        self._leave_filter()

    def key_escape(self) -> None:
        """Show everything again."""
        self.query_one("#filter", Input).value = ""
        self._leave_filter()

    def _leave_filter(self) -> None:
        self.query_one("#filter", Input).remove_class("shown")
        self._table(self.query_one(TabbedContent).active).focus()
