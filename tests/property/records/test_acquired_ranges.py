"""Records of ranges of offsets, as a share group acquires them: those of the whole that lie in the ranges."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.records import RecordBatchBuilder
from barnabas.records.decoder import RecordsDecoder, decode_records


def log_of(sizes: list[tuple[int, int]]) -> tuple[bytes, int]:
    """Batches of so many records, each so many offsets behind the one before; and the end."""
    data, base = b"", 0
    for gap, size in sizes:
        builder = RecordBatchBuilder(1 << 16)
        for number in range(size):
            builder.try_append(number, None, b"%d" % (base + gap + number), [])
        data += bytes(builder.close(base_offset=base + gap))
        base += gap + size
    return data, base


LOGS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(sizes=LOGS, draw=st.data())
def test_ranges_give_the_records_of_the_whole_that_lie_in_them(
    sizes: list[tuple[int, int]], draw: st.DataObject
) -> None:
    data, end = log_of(sizes)
    whole = decode_records(data, "t", 0)
    chosen = draw.draw(st.lists(st.booleans(), min_size=end, max_size=end))
    ranges: list[tuple[int, int]] = []
    for offset in (offset for offset in range(end) if chosen[offset]):
        if ranges and ranges[-1][1] + 1 == offset and draw.draw(st.booleans()):
            ranges[-1] = (ranges[-1][0], offset)
        else:
            ranges.append((offset, offset))
    is_encoded = draw.draw(st.booleans())
    most = draw.draw(st.sampled_from([1, 2, 1000]))

    decoder = RecordsDecoder(data, "t", 0)
    for count, (first, last) in enumerate(ranges, 1):
        found = []
        while first <= last:
            records = list(decoder.take_acquired(first, last, most, count, is_encoded))
            assert len(records) <= most
            found += records
            first = last + 1 if decoder.exhausted else max(first + 1, decoder.next_offset)
        expected = [record.offset for record in whole if ranges[count - 1][0] <= record.offset <= last]
        assert [record.offset for record in found] == expected
        assert [record.value for record in found] == [b"%d" % offset for offset in expected]
        assert {record.delivery_count for record in found} <= {count}
