"""Requests and responses as they travel."""

from __future__ import annotations

import pytest

from barnabas.errors import IllegalArgumentError, ProtocolError, UnsupportedVersionError
from barnabas.protocol.api_keys import MODULES, STABLE_VERSIONS, ApiKey
from barnabas.protocol.framing import (
    FrameReader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_request_parts,
    encode_response,
    is_supported,
    response_version,
)
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.heartbeat_response import HeartbeatResponse
from barnabas.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.stored_records import StoredRecords


def joined(parts: list[bytes | bytearray | memoryview]) -> bytes:
    return b"".join(parts)


class Elsewhere(StoredRecords):
    """Records in a file that is not read."""

    def __len__(self) -> int:
        return 70_000


def test_records_that_are_not_in_memory_are_a_part_of_their_own_and_count_in_the_size() -> None:
    def response(records: object) -> FetchResponse:
        data = PartitionData(partition_index=1, high_watermark=5, records=records)  # type: ignore[arg-type]  # stored
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    stored = Elsewhere()
    for version in (11, 12):
        parts = encode_response(response(stored), version, 7)
        places = [index for index, part in enumerate(parts) if part is stored]
        assert len(places) == 1
        parts[places[0]] = bytes(70_000)
        assert joined(parts) == joined(encode_response(response(bytes(70_000)), version, 7))


class TestRequests:
    def test_a_request_starts_with_its_size_and_header(self) -> None:
        frame = encode_request(HeartbeatRequest("g", 3, "m"), 0, 258, "me")

        header = "000c 0000 00000102 0002 6d65"
        body = "0001 67 00000003 0001 6d"
        assert frame == bytes.fromhex("00000016" + header + body)

    def test_a_flexible_request_has_header_version_2_whose_client_id_is_not_compact(self) -> None:
        frame = encode_request(HeartbeatRequest("g", 3, "m"), 4, 1, None)

        assert frame[4:15] == bytes.fromhex("000c 0004 00000001 ffff 00")

    def test_header_and_message_come_back(self) -> None:
        message = FetchRequest(max_wait_ms=100, rack_id="r")

        header, decoded = decode_request(encode_request(message, 17, 42, "me")[4:])

        assert (header.request_api_key, header.request_api_version) == (ApiKey.FETCH, 17)
        assert (header.correlation_id, header.client_id) == (42, "me")
        assert decoded == message

    def test_the_header_alone_tells_where_the_message_starts(self) -> None:
        message = HeartbeatRequest("g", 3, "m")
        frame = encode_request(message, 4, 1, "me")[4:]

        _, start = decode_request_header(frame)

        assert HeartbeatRequest.decode(frame[start:], 4) == message

    def test_large_records_of_a_request_are_a_part_of_their_own(self) -> None:
        batch = bytes(5000)
        message = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])])

        parts = encode_request_parts(message, 9, 1, "me")

        assert any(isinstance(part, bytes) or getattr(part, "obj", None) is batch for part in parts[1:])
        assert joined(parts) == encode_request(message, 9, 1, "me")

    @pytest.mark.parametrize(
        ("frame", "message"),
        [
            ("0001", "4 bytes are needed for key and version, 2 are left"),
            ("03e7 0000 00000001 ffff", "there is no API with the key 999"),
            ("0001 0011", "RequestHeader.correlation_id at byte 4: 4 bytes are needed, 0 are left"),
            ("0001 0063 00000001 ffff 00", "FetchRequest has no version 99; its versions are 4 to 18"),
            ("000c 0000 00000001 ffff 0005 67", "HeartbeatRequest.group_id at byte 12: 5 bytes are needed, 1 are left"),
        ],
    )
    def test_a_malformed_request_is_a_protocol_error(self, frame: str, message: str) -> None:
        with pytest.raises(ProtocolError, match=message):
            decode_request(bytes.fromhex(frame))


class TestResponses:
    def test_a_response_starts_with_its_size_and_correlation_id(self) -> None:
        assert joined(encode_response(HeartbeatResponse(5, 27), 1, 7)) == bytes.fromhex(
            "0000000a 00000007 00000005 001b"
        )

    def test_a_flexible_response_has_a_header_with_tagged_fields(self) -> None:
        assert joined(encode_response(HeartbeatResponse(), 4, 7))[4:9] == bytes.fromhex("00000007 00")

    def test_correlation_id_and_message_come_back(self) -> None:
        frame = joined(encode_response(HeartbeatResponse(5, 27), 4, 7))[4:]

        assert decode_response(ApiKey.HEARTBEAT, 4, frame) == (7, HeartbeatResponse(5, 27))

    def test_large_records_are_handed_on_without_a_copy_and_small_ones_are_copied(self) -> None:
        large, small = memoryview(bytes(4096)), b"small"
        partitions = [PartitionData(0, records=large), PartitionData(1, records=small), PartitionData(2, records=large)]
        response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])

        parts = encode_response(response, 12, 7)

        shared = [part for part in parts if isinstance(part, memoryview) and part.obj is large.obj]
        assert len(parts) == 5
        assert len(shared) == 2
        frame = joined(parts)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert decode_response(ApiKey.FETCH, 12, frame[4:]) == (7, response)

    def test_a_malformed_response_is_a_protocol_error(self) -> None:
        with pytest.raises(ProtocolError, match=r"HeartbeatResponse\.error_code at byte 8: 2 bytes are needed"):
            decode_response(ApiKey.HEARTBEAT, 1, bytes(8))
        with pytest.raises(ProtocolError, match=r"ResponseHeader\.correlation_id at byte 0"):
            decode_response(ApiKey.HEARTBEAT, 1, bytes(3))

    def test_asking_for_a_version_that_does_not_exist_is_not_the_other_sides_fault(self) -> None:
        with pytest.raises(UnsupportedVersionError):
            decode_response(ApiKey.HEARTBEAT, 99, bytes(8))


class TestApiVersions:
    """KIP-511: how two sides meet that do not know each other's versions."""

    def request_of_the_future(self) -> bytes:
        frame = bytearray(encode_request(ApiVersionsRequest("client", "1"), 4, 3, "me")[4:])
        frame[2:4] = (99).to_bytes(2, "big")
        return bytes(frame) + b"fields of the future"

    def test_a_request_of_an_unknown_version_is_read_as_an_empty_one(self) -> None:
        header, message = decode_request(self.request_of_the_future())

        assert header.correlation_id == 3
        assert header.client_id == "me"
        assert message == ApiVersionsRequest()
        assert not is_supported(header)

    def test_it_is_answered_in_version_0_and_the_client_understands(self) -> None:
        header, _ = decode_request(self.request_of_the_future())
        answer = ApiVersionsResponse(error_code=UnsupportedVersionError.code, api_keys=[ApiVersion(18, 0, 4)])

        frame = joined(encode_response(answer, response_version(header), header.correlation_id))[4:]

        assert frame == bytes.fromhex("00000003 0023 00000001 0012 0000 0004")
        assert decode_response(ApiKey.API_VERSIONS, 4, frame) == (3, answer)

    def test_a_known_version_is_answered_in_itself(self) -> None:
        header, _ = decode_request(encode_request(ApiVersionsRequest("c", "1"), 3, 1, None)[4:])

        assert response_version(header) == 3

    def test_its_response_has_no_tagged_fields_in_the_header(self) -> None:
        frame = joined(encode_response(ApiVersionsResponse(), 4, 3))[4:]

        assert frame[:6] == bytes.fromhex("00000003 0000")

    def test_a_malformed_response_is_still_an_error(self) -> None:
        with pytest.raises(ProtocolError):
            decode_response(ApiKey.API_VERSIONS, 4, bytes.fromhex("00000003 0000 7f"))
        with pytest.raises(ProtocolError):
            decode_response(ApiKey.API_VERSIONS, 4, bytes.fromhex("00000003 0023 0000"))


class TestFrameReader:
    FRAMES = (b"one", b"", b"x" * 100_000, b"four", b"y" * 70_000)

    def stream(self) -> bytes:
        return b"".join(len(frame).to_bytes(4, "big") + frame for frame in self.FRAMES)

    @pytest.mark.parametrize("step", [1000, 65_536, 99_999, 1_000_000])
    def test_frames_come_out_however_the_stream_was_cut_and_stay_valid(self, step: int) -> None:
        reader, stream, frames = FrameReader(100_000), self.stream(), []

        for start in range(0, len(stream), step):
            reader.feed(stream[start : start + step])
            while (frame := reader.next_frame()) is not None:
                frames.append(frame)

        assert [bytes(frame) for frame in frames] == list(self.FRAMES)
        assert reader.pending == 0

    def test_single_bytes_make_a_frame_too(self) -> None:
        reader = FrameReader(10)

        for byte in b"\x00\x00\x00\x02h":
            reader.feed(bytes([byte]))
            assert reader.next_frame() is None
        reader.feed(b"i\x00")

        assert reader.next_frame() == b"hi"
        assert reader.pending == 1

    @pytest.mark.parametrize(("size", "shown"), [("0000000b", "11"), ("ffffffff", "-1"), ("7fffffff", "2147483647")])
    def test_a_size_beyond_the_limit_is_refused_before_any_byte_of_it_has_come(self, size: str, shown: str) -> None:
        reader = FrameReader(10)
        reader.feed(bytes.fromhex(size))

        with pytest.raises(ProtocolError, match=f"A frame announces {shown} bytes; 0 to 10 are allowed"):
            reader.next_frame()

    def test_a_negative_limit_makes_no_sense(self) -> None:
        with pytest.raises(IllegalArgumentError):
            FrameReader(-1)


def test_every_api_has_a_name_and_versions() -> None:
    assert set(MODULES) == set(STABLE_VERSIONS) == set(ApiKey)
