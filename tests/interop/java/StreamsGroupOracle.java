import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.StreamsGroupMemberMetadataValue;
import org.apache.kafka.coordinator.group.streams.MemberState;
import org.apache.kafka.coordinator.group.streams.StreamsCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.TasksTuple;
import org.apache.kafka.coordinator.group.streams.TasksTupleWithEpochs;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What Apache Kafka's own classes make of streams groups: a question is a line of JSON, and so is the answer.
 * "assign" asks the sticky assignor, "configure" counts the partitions of internal topics, "records" writes records.
 */
public class StreamsGroupOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final Logger LOG = LoggerFactory.getLogger(StreamsGroupOracle.class);

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode question = JSON.readTree(line);
            Object answer;
            try {
                answer = switch (question.get("kind").asText()) {
                    case "assign" -> assign(question);
                    case "configure" -> configure(question);
                    default -> records(question);
                };
            } catch (RuntimeException failure) {
                answer = Map.of("failure", failure.getClass().getSimpleName(), "message", String.valueOf(failure.getMessage()));
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    private static Object assign(JsonNode question) {
        Map<String, AssignmentMemberSpec> members = new LinkedHashMap<>();
        question.get("members").properties().forEach(entry -> {
            JsonNode member = entry.getValue();
            members.put(entry.getKey(), new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(member.get("active")), tasks(member.get("standby")),
                Map.of(), member.get("process").asText(), Map.of(), Map.of(), Map.of()));
        });
        JsonNode parts = question.get("subtopologies");
        TopologyDescriber describer = new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                List<String> names = new ArrayList<>();
                parts.fieldNames().forEachRemaining(names::add);
                return names;
            }

            @Override
            public int maxNumInputPartitions(String id) {
                return parts.get(id).get(0).asInt();
            }

            @Override
            public boolean isStateful(String id) {
                return parts.get(id).get(1).asBoolean();
            }
        };
        Map<String, String> configs = Map.of("num.standby.replicas", question.get("replicas").asText());
        Map<String, Object> found = new TreeMap<>();
        new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), describer).members().forEach(
            (id, assignment) -> found.put(id, List.of(sorted(assignment.activeTasks()), sorted(assignment.standbyTasks()))));
        return found;
    }

    private static Object configure(JsonNode question) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        question.get("topics").properties().forEach(entry -> {
            Uuid id = Uuid.randomUuid();
            delta.replay(new TopicRecord().setName(entry.getKey()).setTopicId(id));
            for (int number = 0; number < entry.getValue().asInt(); number++) {
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(number)
                    .setReplicas(List.of(1)).setIsr(List.of(1)).setLeader(1));
            }
        });
        MetadataImage image = delta.apply(MetadataProvenance.EMPTY);
        ConfiguredTopology configured = InternalTopicManager.configureTopics(LOG, "g", "m", 0,
            StreamsTopology.fromHeartbeatRequest(topology(question)), new KRaftCoordinatorMetadataImage(image), Time.SYSTEM);
        ObjectNode found = JSON.createObjectNode();
        configured.topicConfigurationException().ifPresent(problem -> found.put("status", problem.status().code()));
        ObjectNode tasks = found.putObject("tasks");
        configured.subtopologies().ifPresent(parts -> parts.forEach((id, part) -> tasks.put(id, part.numberOfTasks())));
        ObjectNode missing = found.putObject("missing");
        configured.internalTopicsToBeCreated().forEach((name, topic) -> missing.put(name, topic.numPartitions()));
        return found;
    }

    private static StreamsGroupHeartbeatRequestData.Topology topology(JsonNode question) {
        ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(question.get("request").asText()));
        return new StreamsGroupHeartbeatRequestData(new ByteBufferAccessor(bytes), (short) 0).topology();
    }

    private static Object records(JsonNode question) {
        JsonNode said = question.get("member");
        StreamsGroupMember member = StreamsGroupMember.Builder.withDefaults(said.get("id").asText())
            .setRackId(text(said.get("rack"))).setClientId(said.get("client").asText())
            .setClientHost(said.get("host").asText()).setProcessId(said.get("process").asText())
            .setRebalanceTimeoutMs(said.get("timeout").asInt()).setTopologyEpoch(said.get("topologyEpoch").asInt())
            .setClientTags(strings(said.get("tags"))).setUserEndpoint(endpoint(said.get("endpoint")))
            .setMemberEpoch(said.get("epoch").asInt()).setPreviousMemberEpoch(said.get("previous").asInt())
            .setState(MemberState.fromValue((byte) said.get("state").asInt()))
            .setAssignedTasks(assigned(said.get("assigned"))).setTasksPendingRevocation(assigned(said.get("pending")))
            .build();
        JsonNode target = question.get("target");
        TasksTuple tasks = new TasksTuple(tasks(target.get(0)), tasks(target.get(1)), tasks(target.get(2)));
        String group = question.get("group").asText();
        String id = member.memberId();
        List<CoordinatorRecord> records = List.of(
            StreamsCoordinatorRecordHelpers.newStreamsGroupMemberRecord(group, member),
            StreamsCoordinatorRecordHelpers.newStreamsGroupTopologyRecord(group,
                StreamsCoordinatorRecordHelpers.convertToStreamsGroupTopologyRecord(topology(question))),
            StreamsCoordinatorRecordHelpers.newStreamsGroupMetadataRecord(group, question.get("epoch").asInt(),
                question.get("hash").asLong(), question.get("validated").asInt(), strings(question.get("configs"))),
            StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentRecord(group, id, tasks),
            StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentMetadataRecord(group,
                question.get("epoch").asInt(), question.get("hash").asLong()),
            StreamsCoordinatorRecordHelpers.newStreamsGroupCurrentAssignmentRecord(group, member),
            StreamsCoordinatorRecordHelpers.newStreamsGroupCurrentAssignmentTombstoneRecord(group, id),
            StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentTombstoneRecord(group, id),
            StreamsCoordinatorRecordHelpers.newStreamsGroupMemberTombstoneRecord(group, id),
            StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentMetadataTombstoneRecord(group),
            StreamsCoordinatorRecordHelpers.newStreamsGroupEpochTombstoneRecord(group),
            StreamsCoordinatorRecordHelpers.newStreamsGroupTopologyRecordTombstone(group));
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        List<List<String>> found = new ArrayList<>();
        for (CoordinatorRecord record : records) {
            byte[] value = serde.serializeValue(record);
            found.add(List.of(HEX.formatHex(serde.serializeKey(record)), value == null ? "" : HEX.formatHex(value)));
        }
        return found;
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    private static StreamsGroupMemberMetadataValue.Endpoint endpoint(JsonNode node) {
        return node.isNull() ? null
            : new StreamsGroupMemberMetadataValue.Endpoint().setHost(node.get(0).asText()).setPort(node.get(1).asInt());
    }

    private static Map<String, String> strings(JsonNode node) {
        Map<String, String> found = new TreeMap<>();
        node.properties().forEach(entry -> found.put(entry.getKey(), entry.getValue().asText()));
        return found;
    }

    private static TasksTupleWithEpochs assigned(JsonNode node) {
        Map<String, Map<Integer, Integer>> active = new HashMap<>();
        node.get(0).properties().forEach(entry -> {
            Map<Integer, Integer> epochs = new HashMap<>();
            entry.getValue().forEach(pair -> epochs.put(pair.get(0).asInt(), pair.get(1).asInt()));
            active.put(entry.getKey(), epochs);
        });
        return new TasksTupleWithEpochs(active, tasks(node.get(1)), tasks(node.get(2)));
    }

    private static Map<String, Set<Integer>> tasks(JsonNode node) {
        Map<String, Set<Integer>> found = new HashMap<>();
        node.properties().forEach(entry -> {
            Set<Integer> numbers = new HashSet<>();
            entry.getValue().forEach(number -> numbers.add(number.asInt()));
            found.put(entry.getKey(), numbers);
        });
        return found;
    }

    private static Map<String, Set<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> found = new TreeMap<>();
        tasks.forEach((id, numbers) -> found.put(id, new TreeSet<>(numbers)));
        return found;
    }
}
