import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.RocksDbIndexedTimeOrderedWindowBytesStoreSupplier;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Does to one store what is asked (JSON, a case a line), in a processor of Kafka's TopologyTestDriver, record by record
 * without a commit: writes what each call gave, and what the changelog got.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public class StoreLives {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, KeyValueIterator> open = new HashMap<>();
    private ArrayNode answers;
    private StateStore store;

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(new StoreLives().run(JSON.readTree(line))));
        }
    }

    private ArrayNode run(JsonNode given) throws Exception {
        Topology topology = new Topology();
        topology.addSource("source", Serdes.String().deserializer(), Serdes.String().deserializer(), "in");
        topology.addProcessor("lives", Living::new, "source");
        topology.addStateStore(builderOf(given), "lives");
        Properties config = new Properties();
        config.put("application.id", "app");
        config.put("bootstrap.servers", "unused:9092");
        config.put("statestore.cache.max.bytes", given.get("max_bytes").asLong());
        ArrayNode told = JSON.createArrayNode();
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, config, Instant.ofEpochMilli(0))) {
            for (JsonNode record : given.get("records")) {
                ObjectNode of = told.addObject();
                answers = of.putArray("answers");
                pipe(driver, record.get("timestamp").asLong(), JSON.writeValueAsString(record.get("calls")));
                changelog(driver, of.putArray("changelog"));
            }
        }
        return told;
    }

    private static StoreBuilder builderOf(JsonNode given) {
        Duration retention = Duration.ofMillis(given.get("retention_ms").asLong());
        boolean persistent = given.get("persistent").asBoolean();
        StoreBuilder builder = given.get("time_ordered").asBoolean()
            ? Stores.timestampedWindowStoreBuilder(RocksDbIndexedTimeOrderedWindowBytesStoreSupplier.create("s", retention,
                Duration.ofMillis(10), false, given.get("indexed").asBoolean()), Serdes.String(), Serdes.String())
            : switch (given.get("type").asText()) {
            case "window" -> Stores.windowStoreBuilder(persistent
                ? Stores.persistentWindowStore("s", retention, Duration.ofMillis(10), given.get("duplicates").asBoolean())
                : Stores.inMemoryWindowStore("s", retention, Duration.ofMillis(10), given.get("duplicates").asBoolean()),
                Serdes.String(), Serdes.String());
            case "session" -> Stores.sessionStoreBuilder(persistent ? Stores.persistentSessionStore("s", retention)
                : Stores.inMemorySessionStore("s", retention), Serdes.String(), Serdes.String());
            default -> Stores.keyValueStoreBuilder(persistent ? Stores.persistentKeyValueStore("s")
                : Stores.inMemoryKeyValueStore("s"), Serdes.String(), Serdes.String());
        };
        return given.get("max_bytes").asLong() > 0 ? builder.withCachingEnabled() : builder;
    }

    /** Does what the driver's pipeRecord does, but for the commit. */
    private static void pipe(TopologyTestDriver driver, long timestamp, String value) throws Exception {
        Cases.pipeUncommitted(driver, "in", timestamp, null, new StringSerializer().serialize("in", value),
            new RecordHeaders());
        var capture = TopologyTestDriver.class.getDeclaredMethod("captureOutputsAndReEnqueueInternalResults");
        capture.setAccessible(true);
        capture.invoke(driver);
    }

    private static void changelog(TopologyTestDriver driver, ArrayNode told) {
        for (String topic : driver.producedTopicNames()) {
            TestOutputTopic<byte[], byte[]> read =
                driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            while (!read.isEmpty()) {
                TestRecord<byte[], byte[]> record = read.readRecord();
                byte[] value = record.value();
                told.addArray().add(HexFormat.of().formatHex(record.key()))
                    .add(value == null ? null : HexFormat.of().formatHex(value))
                    .add(record.timestamp());
            }
        }
    }

    private class Living extends ContextualProcessor<String, String, Void, Void> {
        @Override
        public void init(ProcessorContext<Void, Void> context) {
            store = context.getStateStore("s");
        }

        @Override
        public void process(Record<String, String> record) {
            try {
                for (JsonNode call : JSON.readTree(record.value())) {
                    take(call);
                }
            } catch (java.io.IOException problem) {
                throw new IllegalStateException(problem);
            }
        }
    }

    private void take(JsonNode call) {
        String name = call.get(1).asText();
        switch (call.get(0).asText()) {
            case "open" -> open.put(name, (KeyValueIterator) called(call, 2));
            case "close" -> close(name);
            case "next" -> next(name, call.get(2).asInt());
            default -> answers.add(shown(called(call, 1)));
        }
    }

    private void close(String name) {
        KeyValueIterator entries = open.remove(name);
        if (entries != null) {
            entries.close();
        }
    }

    private void next(String name, int most) {
        for (int count = 0; count < most; count++) {
            KeyValueIterator entries = open.get(name);
            if (entries == null || !entries.hasNext()) {
                answers.add("end");
                close(name);
                return;
            }
            KeyValue<Object, Object> entry = (KeyValue<Object, Object>) entries.next();
            answers.add(entry.key instanceof Windowed<?> windowed
                ? windowed.key() + "@" + windowed.window().start() + "-" + windowed.window().end() + "=" + shown(entry.value)
                : entry.key + "=" + shown(entry.value));
        }
    }

    private static String shown(Object value) {
        return String.valueOf(value instanceof ValueAndTimestamp<?> stamped ? stamped.value() : value);
    }

    private Object called(JsonNode call, int at) {
        String method = call.get(at).asText();
        String[] text = new String[4];
        long[] number = new long[4];
        int count = call.size() - at - 1;
        for (int index = 0; index < count; index++) {
            JsonNode argument = call.get(at + 1 + index);
            text[index] = argument.isNull() ? null : argument.asText();
            number[index] = argument.asLong();
        }
        if (store instanceof WindowStore windows) {
            return ofWindows(windows, method, count, text, number);
        }
        return store instanceof SessionStore sessions ? ofSessions(sessions, method, count, text, number)
            : ofKeys((KeyValueStore) store, method, text);
    }

    private static Object ofKeys(KeyValueStore keys, String method, String[] text) {
        switch (method) {
            case "put": keys.put(text[0], text[1]); return "put";
            case "get": return keys.get(text[0]);
            case "delete": return keys.delete(text[0]);
            case "put_if_absent": return keys.putIfAbsent(text[0], text[1]);
            case "range": return keys.range(text[0], text[1]);
            case "reverse_range": return keys.reverseRange(text[0], text[1]);
            case "all": return keys.all();
            case "reverse_all": return keys.reverseAll();
            default: return keys.prefixScan(text[0], new StringSerializer());
        }
    }

    private static Object ofWindows(WindowStore windows, String method, int count, String[] text, long[] number) {
        switch (method + count) {
            case "put3":
                boolean stamped = windows instanceof TimestampedWindowStore;
                windows.put(text[0], stamped ? ValueAndTimestamp.make(text[1], 7) : text[1], number[2]);
                return "put";
            case "fetch2": return windows.fetch(text[0], number[1]);
            case "fetch3": return windows.fetch(text[0], number[1], number[2]);
            case "backward_fetch3": return windows.backwardFetch(text[0], number[1], number[2]);
            case "fetch4": return windows.fetch(text[0], text[1], number[2], number[3]);
            case "backward_fetch4": return windows.backwardFetch(text[0], text[1], number[2], number[3]);
            case "fetch_all2": return windows.fetchAll(number[0], number[1]);
            case "backward_fetch_all2": return windows.backwardFetchAll(number[0], number[1]);
            case "all0": return windows.all();
            default: return windows.backwardAll();
        }
    }

    private static Object ofSessions(SessionStore sessions, String method, int count, String[] text, long[] number) {
        switch (method + count) {
            case "put4":
                sessions.put(new Windowed<>(text[0], new SessionWindow(number[1], number[2])), text[3]);
                return "put";
            case "remove3":
                sessions.remove(new Windowed<>(text[0], new SessionWindow(number[1], number[2])));
                return "removed";
            case "fetch_session3": return sessions.fetchSession(text[0], number[1], number[2]);
            case "find_sessions3": return sessions.findSessions(text[0], number[1], number[2]);
            case "backward_find_sessions3": return sessions.backwardFindSessions(text[0], number[1], number[2]);
            case "find_sessions4": return sessions.findSessions(text[0], text[1], number[2], number[3]);
            case "backward_find_sessions4": return sessions.backwardFindSessions(text[0], text[1], number[2], number[3]);
            case "fetch1": return sessions.fetch(text[0]);
            case "backward_fetch1": return sessions.backwardFetch(text[0]);
            case "fetch2": return sessions.fetch(text[0], text[1]);
            default: return sessions.backwardFetch(text[0], text[1]);
        }
    }
}
