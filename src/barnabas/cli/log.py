"""`barnabas log`: reads the files of partitions, Apache Kafka's as ours, without a broker and without writing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import Subparsers, add_command, add_output
from barnabas.cli.output import error_line, note, print_json, print_table, printable, size_text
from barnabas.cli.printed_command import printed_command
from barnabas.errors import IllegalArgumentError, KafkaError

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.broker.log.os_filesystem import OsFileSystem
    from barnabas.cli.log_entries import Item

_EXAMPLES = """\
  barnabas log list barnabas-data
  barnabas log dump barnabas-data/flights-0 --records
  barnabas log dump barnabas-data/flights-0/00000000000000000000.timeindex
  barnabas log dump barnabas-data/flights-0 --verify
"""
_FILES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_NAMED_FILES = ("leader-epoch-checkpoint", "partition.metadata")


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    parser = add_command(subparsers, "log", "read a partition's files, without a broker", examples=_EXAMPLES)
    parts = parser.add_subparsers(metavar="ACTION", required=True)

    listing = add_command(parts, "list", "list the partitions in a data directory")
    listing.add_argument("directory", metavar="DIR")
    add_output(listing)
    listing.set_defaults(action=_list)

    dump = add_command(parts, "dump", "print batches, records, indexes and snapshots")
    dump.add_argument("paths", metavar="PATH", nargs="+", help="a partition's directory, or files of one")
    dump.add_argument("-r", "--records", action="store_true", help="also the records, not only the batches")
    dump.add_argument("--verify", action="store_true", help="print only what is wrong; 1 if anything is")
    add_output(dump)
    dump.set_defaults(action=_dump)


def _filesystem() -> OsFileSystem:
    from barnabas.broker.log.os_filesystem import OsFileSystem

    return OsFileSystem(read_only=True)


# The list.


def _list(args: Namespace) -> int:
    from barnabas.broker.log.checkpoint_files import META_PROPERTIES, read_meta_properties
    from barnabas.broker.log.log_file_utils import parse_directory_name

    filesystem = _filesystem()
    rows = []
    for name in sorted(os.listdir(args.directory)):
        partition = parse_directory_name(name)
        path = os.path.join(args.directory, name)
        if partition is not None and os.path.isdir(path):
            rows.append({"topic": partition.topic, "partition": partition.partition, **_summary(filesystem, path)})
    rows.sort(key=lambda row: (row["topic"], row["partition"]))
    owner = read_meta_properties(filesystem, os.path.join(args.directory, META_PROPERTIES))
    if args.output == "json":
        cluster = {"clusterId": owner.cluster_id, "nodeId": owner.node_id} if owner else {}
        print_json({**cluster, "partitions": rows})
        return 0
    if owner is not None:
        print(f"cluster {owner.cluster_id}, node {owner.node_id}\n")
    if not rows:
        note(f"there are no partitions in {args.directory}")
    shown = [{**row, "size": size_text(row["size"])} for row in rows]
    print_table(shown, ("topic", "partition", "firstOffset", "endOffset", "segments", "size"))
    return 0


def _summary(filesystem: OsFileSystem, path: str) -> dict[str, Any]:
    from barnabas.broker.log.log_file_utils import offset_from_file_name

    segments = sorted(name for name in os.listdir(path) if name.endswith(".log"))
    return {
        "firstOffset": offset_from_file_name(segments[0]) if segments else None,
        "endOffset": _end_offset(filesystem, os.path.join(path, segments[-1])) if segments else None,
        "segments": len(segments),
        "size": sum(os.path.getsize(os.path.join(path, name)) for name in segments),
        "directory": path,
    }


def _end_offset(filesystem: OsFileSystem, path: str) -> int | None:
    from barnabas.broker.log.file_records import FileRecords
    from barnabas.broker.log.log_file_utils import offset_from_file_name
    from barnabas.cli.log_entries import index_entries
    from barnabas.errors import CorruptRecordError

    end = offset_from_file_name(os.path.basename(path))
    records = FileRecords(filesystem, path, os.path.getsize(path))
    index = os.path.splitext(path)[0] + ".index"
    entries = list(index_entries(filesystem, index)) if os.path.exists(index) else []
    try:
        for header, _ in records.batches(entries[-1].fields["position"] if entries else 0, check=False):
            end = header.next_offset
    except CorruptRecordError as damage:
        note(str(damage))
    finally:
        records.close()
    return end


# The dump.


def _dump(args: Namespace) -> int:
    from barnabas.cli.log_entries import PROBLEM, read_file

    filesystem = _filesystem()
    if args.verify:
        return _verify(args, filesystem)
    code = 0
    for path in _files(args.paths):
        line = _json_lines(path) if args.output == "json" else _human_lines(path)
        if args.output == "human":
            print(f"Dumping {printable(path)}")
        try:
            for item in read_file(filesystem, path, records=args.records):
                if item.kind == PROBLEM:
                    code = 1
                    note(item.fields["reason"])
                else:
                    print(line(item))
        except KafkaError as damage:
            code = 1
            note(f"{path}: {error_line(damage)}")
    return code


def _verify(args: Namespace, filesystem: OsFileSystem) -> int:
    found = 0
    rows = []
    # An index is held against its segment, so verifying either verifies both.
    for path in dict.fromkeys(_segment_of(path) for path in _files(args.paths)):
        problems = list(_problems(filesystem, path))
        found += len(problems)
        rows.append({"file": path, "problems": problems})
        for problem in problems if args.output == "human" else ():
            print(printable(problem))
    if args.output == "json":
        print_json(rows)
    note(f"{len(rows)} files, {found} problems")
    return 1 if found else 0


def _segment_of(path: str) -> str:
    stem, suffix = os.path.splitext(path)
    return f"{stem}.log" if suffix in (".index", ".timeindex") else path


def _problems(filesystem: OsFileSystem, path: str) -> Iterator[str]:
    from barnabas.cli.log_entries import read_file
    from barnabas.cli.log_verify import verify_segment

    try:
        if path.endswith(".log"):
            yield from verify_segment(filesystem, path)
        else:
            # That it can be read is all that can be asked of it.
            for _ in read_file(filesystem, path, records=False):
                pass
    except KafkaError as damage:
        yield f"{path}: {damage}"
    except FileNotFoundError:
        yield f"{path} is missing"


def _files(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            if not path.endswith(_FILES) and os.path.basename(path) not in _NAMED_FILES:
                raise IllegalArgumentError(f"{path} is none of a partition's files: *{' *'.join(_FILES)}")
            found.append(path)
            continue
        names = [name for name in os.listdir(path) if name.endswith(_FILES) or name in _NAMED_FILES]
        if not names:
            listing = printed_command("log", "list", path)
            raise IllegalArgumentError(f"{path} is no partition's directory; `{listing}` shows those in it")
        found.extend(os.path.join(path, name) for name in sorted(names, key=lambda name: (name[:20], _rank(name))))
    return found


def _rank(name: str) -> int:
    return next((rank for rank, suffix in enumerate(_FILES) if name.endswith(suffix)), len(_FILES))


def _human_lines(path: str) -> Callable[[Item], str]:
    from barnabas.cli.log_contents import contents
    from barnabas.cli.log_entries import RECORD

    show = contents(path)

    def line(item: Item) -> str:
        fields = " ".join(f"{name}: {_shown(value)}" for name, value in item.fields.items() if value is not None)
        if item.kind != RECORD:
            return fields
        inside = show(item.content)
        headers = [header["key"] for header in inside.pop("headers")]
        texts = {"headerKeys": f"[{','.join(headers)}]", **inside}
        return f"| {fields} " + " ".join(f"{name}: {_shown(value)}" for name, value in texts.items())

    return line


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return printable(json.dumps(value, ensure_ascii=False))
    return "null" if value is None else printable(str(value))


def _json_lines(path: str) -> Callable[[Item], str]:
    from barnabas.cli.log_contents import contents
    from barnabas.cli.log_entries import RECORD

    show = contents(path)

    def line(item: Item) -> str:
        inside = show(item.content) if item.kind == RECORD else {}
        return json.dumps({"file": path, "kind": item.kind, **item.fields, **inside}, ensure_ascii=False)

    return line
