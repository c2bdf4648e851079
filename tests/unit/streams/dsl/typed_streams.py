"""A program that a type checker must accept, and lines that it must refuse; see tests/unit/test_typing.py."""

from __future__ import annotations

from barnabas.streams import (
    BufferConfig,
    GlobalKTable,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Windowed,
)

builder = StreamsBuilder()
words: KStream[str, str] = builder.stream("words", key=Serdes.string(), value=Serdes.string())
lengths: KStream[str, int] = words.map_values(len)
keyed: KStream[int, str] = words.select_key(lambda key, value: len(value))
pairs: KStream[str, float] = words.map(lambda key, value: (value, 1.5))
many: KStream[str, str] = words.flat_map_values(lambda value: value.split())
counts: KTable[str, int] = words.group_by(lambda key, value: value).count(store="counts")
named: KTable[str, int] = words.group_by_key().count(Materialized.as_("named"))
windows: KTable[Windowed[str], int] = words.group_by_key().windowed_by(TimeWindows.of_size(minutes=5)).count()
sessions: KTable[Windowed[str], str] = (
    words.group_by_key().windowed_by(SessionWindows.of_inactivity_gap(5)).reduce(lambda first, second: first + second)
)
totals: KTable[str, float] = lengths.group_by_key().aggregate(float, lambda key, value, total: total + value)
joined: KStream[str, str] = words.join(counts, lambda word, count: f"{word}{count}")
windowed: KStream[str, str] = words.join(lengths, lambda word, size: word, JoinWindows.of_time_difference(5))
both: KTable[str, str] = counts.join(totals, lambda count, total: f"{count}/{total}")
back: KStream[str, int] = counts.to_stream()
rekeyed: KStream[str, int] = windows.to_stream(lambda window, count: window.key)
upper: KTable[str, int] = counts.map_values(lambda count: count + 1)
kept: KTable[str, int] = counts.filter(lambda word, count: count > 1).filter_not(lambda word, count: count > 9)
by_count: KTable[int, int] = counts.group_by(lambda word, count: (count, 1)).count()
foreign: KTable[str, str] = counts.join(totals, lambda word, count: word, lambda count, total: f"{count}{total}")
left: KTable[str, str] = counts.left_join(totals, lambda count, total: f"{count}{total or 0.0}")
outer: KTable[str, str] = counts.outer_join(totals, lambda count, total: f"{count or 0}{total or 0.0}")
closed: KTable[Windowed[str], int] = windows.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
everywhere: GlobalKTable[str, int] = builder.global_table("sizes", key=Serdes.string(), value=Serdes.long())
looked_up: KStream[str, str] = words.join(everywhere, lambda key, word: word, lambda word, size: f"{word}{size}")
left_looked_up: KStream[str, str] = words.left_join(everywhere, lambda key, word: word, lambda word, size: word)
left_stream: KStream[str, str] = words.left_join(lengths, lambda word, size: word, JoinWindows.of_time_difference(5))
outer_stream: KStream[str, int] = words.outer_join(lengths, lambda word, n: 1, JoinWindows.of_time_difference(5))
flat: KStream[int, str] = words.flat_map(lambda key, word: [(len(word), word)])
some: KStream[str, str] = words.filter_not(lambda key, word: not word).peek(lambda key, word: None).repartition()
merged: KStream[str, str] = words.merge(many)
as_table: KTable[str, str] = words.to_table(store="as-table")
branches: dict[str, KStream[str, str]] = words.split().branch(lambda key, word: bool(word)).default_branch()
reduced: KTable[str, str] = words.group_by_key().reduce(lambda first, second: first + second)
sliding: KTable[Windowed[str], int] = (
    words.group_by_key()
    .windowed_by(SlidingWindows.of_time_difference(5))
    .aggregate(int, lambda key, word, total: total)
)
grouped_twice: KTable[str, int] = (
    words.group_by_key()
    .cogroup(lambda key, word, total: total + len(word))
    .cogroup(lengths.group_by_key(), lambda key, size, total: total + size)
    .aggregate(int)
)

wrong_value: KStream[str, int] = words.map_values(str.upper)  # refused
wrong_key: KStream[str, str] = words.select_key(lambda key, value: len(value))  # refused
words.filter(lambda key, value: value.nonsense)  # refused
counts.map_values(lambda count: count.upper())  # refused
words.merge(lengths)  # refused
counts.filter(lambda word, count: count.nonsense)  # refused
counts.suppress("soon")  # refused
wrong_table: KTable[str, str] = words.group_by_key().count()  # refused
wrong_join: KStream[str, int] = words.join(counts, lambda word, count: f"{word}{count}")  # refused
wrong_reduce: KTable[str, int] = words.group_by_key().reduce(lambda first, second: len(first))  # refused
wrong_flat: KStream[str, str] = words.flat_map(lambda key, word: [(len(word), word)])  # refused
words.to("out", value=Serdes.long())  # refused
