"""What the codec does at the edges: versions that lack fields, nulls, tagged fields, values that do not fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.errors import IllegalArgumentError, IllegalTypeError, ProtocolError, UnsupportedVersionError
from barnabas.protocol import native
from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from barnabas.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData, SnapshotId
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.request_header import RequestHeader
from barnabas.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest


class TestVersions:
    def test_a_version_that_does_not_exist_is_refused_by_both_ways(self) -> None:
        with pytest.raises(UnsupportedVersionError, match="FetchRequest has the versions 4 to 18; 19 was asked for"):
            FetchRequest().encode(19)
        with pytest.raises(UnsupportedVersionError, match="3 was asked for"):
            FetchRequest.decode(b"", 3)

    def test_an_ignorable_field_is_dropped_by_a_version_that_lacks_it(self) -> None:
        request = FetchRequest(rack_id="rack-1")

        assert FetchRequest.decode(request.encode(10), 10).rack_id == ""
        assert FetchRequest.decode(request.encode(11), 11).rack_id == "rack-1"

    def test_a_field_that_may_not_be_dropped_is_refused_by_a_version_that_lacks_it(self) -> None:
        request = FetchRequest(replica_state=ReplicaState(replica_id=1))

        with pytest.raises(UnsupportedVersionError, match=r"FetchRequest\.replica_state: version 14 cannot carry it"):
            request.encode(14)

    def test_a_field_at_its_default_is_no_reason_to_refuse_a_version(self) -> None:
        assert FetchRequest(replica_state=ReplicaState()).encode(4)

    def test_the_path_names_the_element_that_a_version_cannot_carry(self) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="a"), MetadataRequestTopic(name=None)])

        with pytest.raises(IllegalArgumentError, match=r"MetadataRequest\.topics\[1\]\.name: it cannot be None"):
            request.encode(9)

    def test_fields_that_the_version_lacks_have_their_defaults_after_decoding(self) -> None:
        decoded = FetchRequest.decode(
            FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition()])]).encode(4), 4
        )

        assert decoded.session_epoch == -1
        assert decoded.replica_state == ReplicaState()
        assert decoded.topics[0].partitions[0].current_leader_epoch == -1
        assert decoded.topics[0].partitions[0].replica_directory_id == bytes(16)


class TestDefaults:
    def test_two_messages_never_share_a_list_or_struct(self) -> None:
        one, other = FetchRequest(), FetchRequest()
        data = one.encode(17)
        decoded, again = FetchRequest.decode(data, 17), FetchRequest.decode(data, 17)

        one.topics.append(FetchTopic())
        decoded.topics.append(FetchTopic())
        decoded.replica_state.replica_id = 7

        assert other.topics == []
        assert again.topics == []
        assert again.replica_state.replica_id == -1

    def test_null_is_kept_apart_from_empty(self) -> None:
        everything, nothing = MetadataRequest(topics=None), MetadataRequest(topics=[])

        assert MetadataRequest.decode(everything.encode(12), 12).topics is None
        assert MetadataRequest.decode(nothing.encode(12), 12).topics == []

    def test_a_misspelt_attribute_is_an_error(self) -> None:
        with pytest.raises(AttributeError):
            FetchRequest().max_wait = 5  # type: ignore[attr-defined]  # that is the point

    def test_positional_arguments_follow_the_schema(self) -> None:
        assert RequestHeader(1, 17, 5, "me") == RequestHeader(
            request_api_key=1, request_api_version=17, correlation_id=5, client_id="me"
        )


class TestTaggedFields:
    def test_unknown_tagged_fields_survive_a_round_trip_at_every_level(self) -> None:
        topic = FetchTopic(topic_id=bytes(range(16)))
        topic.unknown_tagged_fields = {100: b"inner"}
        request = FetchRequest(topics=[topic], cluster_id="c")
        request.unknown_tagged_fields = {77: b"", 5: b"outer"}

        decoded = FetchRequest.decode(request.encode(17), 17)

        assert decoded == request
        assert decoded.unknown_tagged_fields == {5: b"outer", 77: b""}
        assert decoded.topics[0].unknown_tagged_fields == {100: b"inner"}
        assert "unknown_tagged_fields={5: b'outer', 77: b''}" in repr(decoded)

    def test_tagged_fields_are_written_in_the_order_of_their_tags(self) -> None:
        response = ApiVersionsResponse(supported_features=[SupportedFeatureKey("f", 1, 2)], zk_migration_ready=True)
        response.unknown_tagged_fields = {2 << 7: b"x"}

        body = response.encode(3)

        error_code, no_api_keys, throttle_time_ms, three_tags = "0000", "01", "00000000", "03"
        features, migration, unknown = "00 08 02 0266 0001 0002 00", "03 01 01", "8002 01 78"
        assert body == bytes.fromhex(
            error_code + no_api_keys + throttle_time_ms + three_tags + features + migration + unknown
        )

    @pytest.mark.parametrize(
        ("unknown", "message"),
        [
            ({0: b"x"}, r"FetchRequest\.unknown_tagged_fields: the tag 0 is that of cluster_id"),
            ({-1: b"x"}, "the tag -1 does not fit into 32 bits"),
            ({1 << 32: b"x"}, "the tag 4294967296 does not fit into 32 bits"),
            ({"9": b"x"}, "{'9': b'x'} is not a number and bytes"),
            ({9: "x"}, "{9: 'x'} is not a number and bytes"),
            ([9], r"is not a number and bytes"),
        ],
    )
    def test_unknown_tagged_fields_that_cannot_be_written_are_refused(self, unknown: object, message: str) -> None:
        request = FetchRequest()
        request.unknown_tagged_fields = unknown  # type: ignore[assignment]  # that is the point

        with pytest.raises(IllegalArgumentError, match=message):
            request.encode(17)

    def test_a_tag_whose_size_does_not_fit_its_field_is_malformed(self) -> None:
        data = FetchResponse(
            responses=[FetchableTopicResponse(partitions=[PartitionData(snapshot_id=SnapshotId(1, 1))])]
        ).encode(17)
        broken = data.replace(b"\x01\x02\x0d", b"\x01\x02\x0c")

        with pytest.raises(ProtocolError, match=r"partitions\[0\]\.snapshot_id at byte \d+: the field has 13 bytes"):
            FetchResponse.decode(broken, 17)

    def test_a_nullable_tagged_struct_may_be_null_absent_or_set(self) -> None:
        for metadata in (None, ClassicMemberMetadata(), ClassicMemberMetadata(session_timeout_ms=5)):
            value = ConsumerGroupMemberMetadataValue(classic_member_metadata=metadata)

            assert ConsumerGroupMemberMetadataValue.decode(value.encode(0), 0) == value

    def test_a_tagged_struct_that_an_older_barnabas_wrote_as_null_is_read(self) -> None:
        value = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
        data = value.encode(0)
        assert data.endswith(b"\x01\x00\x01\x00")

        assert ConsumerGroupMemberMetadataValue.decode(data[:-1] + b"\xff", 0) == value


class TestRecordsAndBytes:
    def test_records_are_a_view_into_the_buffer_and_bytes_are_copied(self) -> None:
        produce = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"batch")])])
        data = bytearray(produce.encode(9))

        records = ProduceRequest.decode(data, 9).topic_data[0].partition_data[0].records
        auth = SaslAuthenticateRequest.decode(SaslAuthenticateRequest(b"token").encode(2), 2)

        assert isinstance(records, memoryview)
        assert records.obj is data
        assert records == b"batch"
        assert type(auth.auth_bytes) is bytes

    @pytest.mark.parametrize(
        "buffer", [b"batch", bytearray(b"batch"), memoryview(b"batch"), memoryview(b"xbatchx")[1:6]]
    )
    def test_any_buffer_can_be_written(self, buffer: bytes | bytearray | memoryview) -> None:
        partition = PartitionData(records=buffer)
        response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])

        assert FetchResponse.decode(response.encode(12), 12) == response

    def test_any_buffer_can_be_read(self) -> None:
        data = FetchRequest(max_wait_ms=9).encode(12)

        for buffer in (data, bytearray(data), memoryview(b"x" + data)[1:], memoryview(data).cast("b")):
            assert FetchRequest.decode(buffer, 12).max_wait_ms == 9


class TestValuesThatDoNotFit:
    @pytest.mark.parametrize(
        ("request_", "message"),
        [
            (FetchRequest(max_wait_ms=1 << 31), r"FetchRequest\.max_wait_ms: 2147483648 does not fit into int32"),
            (FetchRequest(max_wait_ms=1 << 70), r"max_wait_ms: 1180591620717411303424 is not a value for int32"),
            (FetchRequest(isolation_level=-129), r"isolation_level: -129 does not fit into int8"),
            (FetchRequest(rack_id="x" * 32768), r"rack_id: its 32768 bytes are more than the 32767"),
            (FetchRequest(rack_id="\ud800"), r"rack_id: .* is not a value for string"),
            (
                FetchRequest(topics=[FetchTopic(topic_id=b"short")]),
                r"topics\[0\]\.topic_id: a uuid has 16 bytes, not 5",
            ),
            (FetchRequest(rack_id=None), r"rack_id: it cannot be None in this version"),  # type: ignore[arg-type]  # ditto
        ],
    )
    def test_a_bad_value_is_a_value_error_that_names_the_field(self, request_: FetchRequest, message: str) -> None:
        with pytest.raises(IllegalArgumentError, match=message) as caught:
            request_.encode(17)
        assert isinstance(caught.value, ValueError)

    @pytest.mark.parametrize(
        ("field", "value", "message"),
        [
            ("max_wait_ms", "5", r"FetchRequest\.max_wait_ms: '5' is not a value for int32"),
            ("max_wait_ms", None, r"max_wait_ms: None is not a value for int32"),
            ("max_wait_ms", 1.5, r"max_wait_ms: 1.5 is not a value for int32"),
            ("rack_id", b"bytes", r"rack_id: b'bytes' is not a value for string"),
            ("topics", 5, r"topics: 5 is not a value for \[\]FetchTopic"),
            ("topics", [5], r"topics\[0\]: 5 is not a FetchTopic"),
            ("replica_state", None, r"replica_state: None is not a ReplicaState"),
        ],
    )
    def test_a_bad_type_is_a_type_error_that_names_the_field(self, field: str, value: object, message: str) -> None:
        request = FetchRequest()
        setattr(request, field, value)

        with pytest.raises(IllegalTypeError, match=message) as caught:
            request.encode(17)
        assert isinstance(caught.value, TypeError)


class TestMalformedBytes:
    @pytest.mark.parametrize(
        ("hexadecimal", "path", "offset", "reason"),
        [
            ("", "MetadataRequest.topics", 0, "4 bytes are needed, 0 are left"),
            (
                "7fffffff",
                "MetadataRequest.topics",
                0,
                "2147483647 elements of at least 2 bytes cannot fit into 0 bytes",
            ),
            ("fffffffe", "MetadataRequest.topics", 0, "the length is -2"),
            ("00000001 0005 61", "MetadataRequest.topics[0].name", 6, "5 bytes are needed, 1 are left"),
            ("00000001 ffff", "MetadataRequest.topics[0].name", 4, "the field is null, which it cannot be"),
            ("00000001 0002 61ff", "MetadataRequest.topics[0].name", 7, "the string is not UTF-8"),
            ("00000000 01 00", "MetadataRequest", 5, "1 bytes follow the end of the message"),
        ],
    )
    def test_the_error_has_path_offset_and_reason(self, hexadecimal: str, path: str, offset: int, reason: str) -> None:
        with pytest.raises(ProtocolError) as caught:
            MetadataRequest.decode(bytes.fromhex(hexadecimal), 4)

        assert caught.value.path == path
        assert caught.value.offset == offset
        assert str(caught.value).startswith(f"{path} at byte {offset}: {reason}")
        assert str(caught.value).endswith("(version 4)")

    @pytest.mark.parametrize("varint", ["ffffffffff01", "ffffffff1f", "8080808080808000"])
    def test_a_variable_length_integer_beyond_32_bits_is_malformed(self, varint: str) -> None:
        with pytest.raises(
            ProtocolError, match=r"topics at byte 0: a variable-length integer does not fit into 32 bits"
        ):
            MetadataRequest.decode(bytes.fromhex(varint), 12)

    def test_a_message_can_be_read_after_a_failed_one(self) -> None:
        with pytest.raises(ProtocolError):
            FetchRequest.decode(b"\x00", 17)

        assert FetchRequest.decode(FetchRequest().encode(17), 17) == FetchRequest()


class TestComparing:
    def test_messages_differ_by_type_field_and_unknown_tags(self) -> None:
        tagged = FetchTopic("t")
        tagged.unknown_tagged_fields = {9: b""}

        assert FetchTopic("t") == FetchTopic("t")
        assert FetchTopic("t") != FetchTopic("u")
        assert FetchTopic("t") != tagged
        assert FetchTopic("t") != "t"

    def test_messages_cannot_be_hashed_because_they_change(self) -> None:
        with pytest.raises(TypeError):
            hash(FetchTopic())


def test_the_c_and_the_python_side_of_native_have_the_same_functions() -> None:
    home = Path(native.__file__).parent
    declared = (home / "native.pxd").read_text(encoding="utf-8")
    in_c = set(re.findall(r"cdef inline [\w ]*[ *](\w+)\(", declared))
    in_c |= set(re.findall(r'^    [\w ]+ (\w+) "\w+"\(', declared, re.MULTILINE))
    in_python = {
        name for name, value in vars(native).items() if callable(value) and value.__module__ == native.__name__
    }

    assert in_c == in_python
