"""A program that a type checker must accept, and lines that it must refuse; see tests/unit/test_typing.py."""

from __future__ import annotations

from barnabas.streams import (
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Serdes,
    SessionWindows,
    StreamsBuilder,
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

wrong_value: KStream[str, int] = words.map_values(str.upper)  # refused
wrong_key: KStream[str, str] = words.select_key(lambda key, value: len(value))  # refused
words.filter(lambda key, value: value.nonsense)  # refused
counts.map_values(lambda count: count.upper())  # refused
words.merge(lengths)  # refused
words.to("out", value=Serdes.long())  # refused
