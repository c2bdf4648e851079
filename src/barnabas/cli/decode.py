"""`barnabas decode`: shows the bytes of any Kafka message as JSON."""

from __future__ import annotations

import json
import sys

from barnabas.errors import KafkaError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace, _SubParsersAction
    from typing import Any

    from barnabas.protocol.message import Message

_EXAMPLES = """
examples:
  barnabas decode --api Fetch --version 17 --response 00000000...
  barnabas decode --api OffsetCommitValue --version 3 --message -      (the hex digits come from standard input)
  barnabas decode --framed --request 0000002a0001...                  (API and version are in the header)
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    from argparse import RawDescriptionHelpFormatter

    parser = subparsers.add_parser(
        "decode",
        help="show the bytes of a Kafka message as JSON",
        epilog=_EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--api", metavar="NAME", help="an API (Fetch, or its key 1) or a message (OffsetCommitValue)")
    parser.add_argument("--version", type=int, metavar="N", help="the version of the API or message")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--request", metavar="HEX", help="the bytes of a request")
    what.add_argument("--response", metavar="HEX", help="the bytes of a response")
    what.add_argument("--message", metavar="HEX", help="the bytes of the message that --api names in full")
    parser.add_argument("--framed", action="store_true", help="the bytes begin with the frame's size and header")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Decode, and print JSON on stdout; 1 when the bytes are malformed, 2 when the arguments do not fit together."""
    problem = _usage_problem(args)
    if problem:
        print(f"barnabas decode: {problem}", file=sys.stderr)
        return 2
    try:
        data = _hex(args.request or args.response or args.message)
        shown = _framed(args, data) if args.framed else _bare(args, data)
    except KafkaError as error:
        print(f"barnabas decode: {error}", file=sys.stderr)
        return 1
    print(json.dumps(shown, indent=2, ensure_ascii=False))
    return 0


def _usage_problem(args: Namespace) -> str | None:
    if args.framed and args.message is not None:
        return "--framed is for --request and --response; other messages have no header"
    if args.framed and args.request is not None:
        return None
    if args.api is None or args.version is None:
        return "--api and --version are needed (only a framed request says itself what it is)"
    return None


def _hex(written: str) -> bytes:
    from barnabas.errors import IllegalArgumentError

    text = sys.stdin.read() if written == "-" else written
    try:
        return bytes.fromhex(text.strip().removeprefix("0x"))
    except ValueError as error:
        raise IllegalArgumentError(f"The bytes are not hexadecimal digits: {error}") from None


def _bare(args: Namespace, data: bytes) -> dict[str, Any]:
    from barnabas.protocol import json_view

    return json_view.from_message(_class(args).decode(data, args.version), args.version)


def _framed(args: Namespace, data: bytes) -> dict[str, Any]:
    from barnabas.protocol import framing, json_view

    reader = framing.FrameReader(len(data))
    reader.feed(data)
    frame = reader.next_frame()
    if frame is None or reader.pending:
        from barnabas.errors import ProtocolError

        raise ProtocolError(f"The size in front of the frame does not fit the {len(data)} bytes given")
    if args.request is not None:
        header, message = framing.decode_request(frame)
        version = framing.response_version(header)
        shown_header = {
            "requestApiKey": header.request_api_key,
            "requestApiVersion": header.request_api_version,
            "correlationId": header.correlation_id,
            "clientId": header.client_id,
        }
        return {"header": shown_header, "message": json_view.from_message(message, version)}
    correlation_id, message = framing.decode_response(_class(args).API_KEY, args.version, frame)
    return {"header": {"correlationId": correlation_id}, "message": json_view.from_message(message, args.version)}


def _class(args: Namespace) -> type[Message]:
    from barnabas.protocol.api import message_class, request_class, response_class

    if args.message is not None:
        return message_class(args.api)
    if args.api.isdecimal():
        return request_class(int(args.api)) if args.request is not None else response_class(int(args.api))
    kind = "Request" if args.request is not None else "Response"
    return message_class(args.api.removesuffix(kind) + kind)
