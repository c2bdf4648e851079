import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.InternalFixedKeyRecordFactory;
import org.apache.kafka.streams.processor.api.ProcessingContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.StreamTask;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.test.TestRecord;

/** Runs random topologies (JSON, one a line, in the form of tests/vectors/streams) through Kafka's TopologyTestDriver. */
@SuppressWarnings({"unchecked", "rawtypes"})
public class Cases {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final StreamsBuilder builder = new StreamsBuilder();
    private final Map<String, Object> made = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        if (arguments.length > 0) {
            new Cases().serve(JSON.readTree(lines.readLine()), arguments[0], lines);
            return;
        }
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(new Cases().run(JSON.readTree(line))));
        }
    }

    /** Runs a topology as an application on a cluster, until there is no more input; one line says that it runs. */
    private void serve(JsonNode given, String servers, BufferedReader lines) throws Exception {
        Properties config = configOf(given);
        config.put("bootstrap.servers", servers);
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("replication.factor", 1);
        config.put("state.dir", System.getProperty("java.io.tmpdir"));
        Topology topology = topologyOf(given, config);
        try (KafkaStreams streams = new KafkaStreams(topology, config)) {
            streams.setUncaughtExceptionHandler(problem -> {
                System.out.println("failed: " + problem);
                return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            System.out.println("running");
            while (lines.readLine() != null) {
            }
        }
    }

    private Properties configOf(JsonNode given) {
        Properties config = new Properties();
        config.put("application.id", "app");
        config.put("bootstrap.servers", "unused:9092");
        config.put("statestore.cache.max.bytes", 0L);
        config.put("default.key.serde", Serdes.StringSerde.class);
        config.put("default.value.serde", Serdes.StringSerde.class);
        given.path("config").fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    private Topology topologyOf(JsonNode given, Properties config) {
        for (JsonNode step : given.get("steps")) {
            Object result = take(step);
            if (step.has("id")) {
                made.put(step.get("id").asText(), result);
            }
        }
        return builder.build(config);
    }

    private ObjectNode run(JsonNode given) throws Exception {
        ObjectNode expected = JSON.createObjectNode();
        Properties config = configOf(given);
        Topology topology;
        try {
            topology = topologyOf(given, config);
        } catch (RuntimeException problem) {
            expected.put("refused", problem.toString());
            return expected;
        }
        expected.put("describe", topology.describe().toString());
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, config, Instant.ofEpochMilli(0))) {
            ArrayNode outputs = expected.putArray("outputs");
            for (JsonNode input : given.get("inputs")) {
                if (input.has("advance_wall_clock_ms")) {
                    driver.advanceWallClockTime(ms(input, "advance_wall_clock_ms"));
                    outputs.add(output(driver, given.get("topics")));
                    continue;
                }
                if (input.has("uncommitted")) {
                    pipeUncommitted(driver, input);
                    outputs.addObject().putArray("records");
                    continue;
                }
                driver.createInputTopic(input.get("topic").asText(), new ByteArraySerializer(), new ByteArraySerializer())
                    .pipeInput(new TestRecord<>(bytes(input.get("key")), bytes(input.get("value")), headersOf(input),
                        Instant.ofEpochMilli(input.get("timestamp").asLong())));
                outputs.add(output(driver, given.get("topics")));
            }
            double dropped = driver.metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals("dropped-records-total"))
                .mapToDouble(metric -> (double) metric.getValue().metricValue()).sum();
            expected.put("dropped_records", (long) dropped);
            if (given.path("metrics").asBoolean()) {
                ArrayNode metrics = expected.putArray("metrics");
                driver.metrics().forEach((name, metric) -> show(metrics.addObject(), name, metric.metricValue()));
            }
        }
        return expected;
    }

    private static void show(ObjectNode shown, MetricName name, Object value) {
        shown.put("group", name.group()).put("name", name.name()).set("tags", JSON.valueToTree(name.tags()));
        if (value instanceof Number number && Double.isFinite(number.doubleValue())) {
            shown.put("value", number.doubleValue());
        }
    }

    private ObjectNode output(TopologyTestDriver driver, JsonNode topics) {
        ObjectNode output = JSON.createObjectNode();
        ArrayNode records = output.putArray("records");
        ArrayNode internal = JSON.createArrayNode();
        for (String topic : new TreeSet<>(driver.producedTopicNames())) {
            TestOutputTopic<byte[], byte[]> read =
                driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            while (!read.isEmpty()) {
                TestRecord<byte[], byte[]> record = read.readRecord();
                ObjectNode shown = topics.has(topic) ? records.addObject() : internal.addObject();
                shown.put("topic", topic);
                if (topics.has(topic)) {
                    show(shown, topic, record, topics.get(topic));
                } else {
                    shown.put("key_hex", hex(record.key()));
                    shown.put("value_hex", hex(record.value()));
                }
                Instant time = record.getRecordTime();
                shown.put("timestamp", time == null ? null : time.toEpochMilli());
                headers(shown, record);
            }
        }
        if (!internal.isEmpty()) {
            output.set("internal", internal);
        }
        return output;
    }

    private static void pipeUncommitted(TopologyTestDriver driver, JsonNode input) throws Exception {
        pipeUncommitted(driver, input.get("topic").asText(), input.get("timestamp").asLong(), bytes(input.get("key")),
            bytes(input.get("value")), headersOf(input));
    }

    /** Does what the driver's pipeRecord does, but for the commit: caches are not flushed, and nothing is captured. */
    static void pipeUncommitted(TopologyTestDriver driver, String topic, long timestamp, byte[] key, byte[] value,
            Headers headers) throws Exception {
        var find = TopologyTestDriver.class.getDeclaredMethod("getInputTopicOrPatternPartition", String.class);
        find.setAccessible(true);
        var partition = (TopicPartition) find.invoke(driver, topic);
        var enqueue = TopologyTestDriver.class.getDeclaredMethod("enqueueTaskRecord", String.class, TopicPartition.class,
            long.class, byte[].class, byte[].class, Headers.class);
        enqueue.setAccessible(true);
        enqueue.invoke(driver, topic, partition, timestamp, key, value, headers);
        var field = TopologyTestDriver.class.getDeclaredField("task");
        field.setAccessible(true);
        var task = (StreamTask) field.get(driver);
        task.resumePollingForPartitionsWithAvailableSpace();
        task.updateLags();
        while (task.hasRecordsQueued() && task.isProcessable(0)) {
            task.process(0);
            task.maybePunctuateStreamTime();
        }
    }

    private static Headers headersOf(JsonNode input) {
        Headers headers = new RecordHeaders();
        for (JsonNode header : input.path("headers")) {
            headers.add(header.get(0).asText(), header.get(1).asText().getBytes(StandardCharsets.UTF_8));
        }
        return headers;
    }

    private static void headers(ObjectNode shown, TestRecord<byte[], byte[]> record) {
        if (record.headers() == null || !record.headers().iterator().hasNext()) {
            return;
        }
        ArrayNode headers = shown.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(new String(header.value(), StandardCharsets.UTF_8));
        }
    }

    private static void show(ObjectNode shown, String topic, TestRecord<byte[], byte[]> record, JsonNode serdes) {
        Object key = serde(serdes.get("key")).deserializer().deserialize(topic, record.key());
        if (key instanceof Windowed<?> windowed) {
            shown.putObject("key").put("key", (String) windowed.key())
                .put("start", windowed.window().start()).put("end", windowed.window().end());
            shown.put("key_hex", hex(record.key()));
        } else {
            shown.set("key", JSON.valueToTree(key));
        }
        shown.set("value", JSON.valueToTree(serde(serdes.get("value")).deserializer().deserialize(topic, record.value())));
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    // --- steps

    private Object take(JsonNode step) {
        String op = step.get("op").asText();
        switch (op) {
            case "stream": return step.has("pattern")
                ? builder.stream(java.util.regex.Pattern.compile(step.get("pattern").asText()), consumed(step))
                : builder.stream(step.get("topics").get(0).asText(), consumed(step));
            case "table": return step.has("materialized")
                ? builder.table(step.get("topic").asText(), consumed(step), materialized(step))
                : builder.table(step.get("topic").asText(), consumed(step));
            case "global_table": return step.has("materialized")
                ? builder.globalTable(step.get("topic").asText(), consumed(step), materialized(step))
                : builder.globalTable(step.get("topic").asText(), consumed(step));
            case "add_state_store": return builder.addStateStore(store(step.get("store")));
            default:
        }
        Object from = made.get(step.get("from").asText());
        if (from instanceof KStream stream) {
            return ofStream(op, stream, step);
        }
        if (from instanceof KTable table) {
            return ofTable(op, table, step);
        }
        return ofGroup(op, from, step);
    }

    private Object ofStream(String op, KStream stream, JsonNode step) {
        JsonNode body = step.has("mapper") ? step.get("mapper") : step.get("predicate");
        KeyValueMapper mapper = (key, value) -> call(body, key, value, null, null, null);
        ValueMapperWithKey values = (key, value) -> call(body, key, value, null, null, null);
        Predicate predicate = (key, value) -> Boolean.TRUE.equals(call(body, key, value, null, null, null));
        switch (op) {
            case "filter": return stream.filter(predicate);
            case "filter_not": return stream.filterNot(predicate);
            case "map": return stream.map(mapper);
            case "select_key": return stream.selectKey(mapper);
            case "map_values": return stream.mapValues(values);
            case "flat_map_values": return stream.flatMapValues(values);
            case "merge": return stream.merge((KStream) made.get(step.get("other").asText()));
            case "repartition": return stream.repartition(Repartitioned.with(text(), text()));
            case "to_table": return stream.toTable(materialized(step));
            case "split": return split(stream, step);
            case "process":
                return stream.process(() -> new OfCase(step.get("processor")), stores(step));
            case "process_values":
                return stream.processValues(() -> new FixedOfCase(step.get("processor")), stores(step));
            case "group_by_key": return stream.groupByKey(Grouped.with(text(), text()));
            case "group_by": return stream.groupBy(mapper, Grouped.with(text(), text()));
            case "to":
                stream.to(step.get("topic").asText(),
                    Produced.with(serde(step.get("produced").get("key")), serde(step.get("produced").get("value"))));
                return null;
            default:
        }
        Object other = made.get(step.get("other").asText());
        ValueJoinerWithKey joiner = (key, left, right) -> call(step.get("joiner"), key, null, null, left, right);
        if (other instanceof GlobalKTable table) {
            KeyValueMapper key = (left, right) -> call(step.get("key_mapper"), left, right, null, null, null);
            return op.equals("join") ? stream.join(table, key, joiner) : stream.leftJoin(table, key, joiner);
        }
        if (other instanceof KTable table) {
            Joined joined = Joined.with(text(), text(), text());
            if (step.path("joined").has("grace_ms")) {
                joined = joined.withGracePeriod(ms(step.get("joined"), "grace_ms"));
            }
            return op.equals("join") ? stream.join(table, joiner, joined) : stream.leftJoin(table, joiner, joined);
        }
        JsonNode spec = step.get("windows");
        JoinWindows windows = spec.has("grace_ms")
            ? JoinWindows.ofTimeDifferenceAndGrace(ms(spec, "difference_ms"), ms(spec, "grace_ms"))
            : JoinWindows.ofTimeDifferenceWithNoGrace(ms(spec, "difference_ms"));
        StreamJoined joined = StreamJoined.with(text(), text(), text());
        KStream second = (KStream) other;
        return switch (op) {
            case "join" -> stream.join(second, joiner, windows, joined);
            case "left_join" -> stream.leftJoin(second, joiner, windows, joined);
            default -> stream.outerJoin(second, joiner, windows, joined);
        };
    }

    private Object ofTable(String op, KTable table, JsonNode step) {
        Predicate predicate = (key, value) ->
            Boolean.TRUE.equals(call(step.get("predicate"), key, value, null, null, null));
        ValueMapperWithKey values = (key, value) -> call(step.get("mapper"), key, value, null, null, null);
        boolean kept = step.has("materialized");
        switch (op) {
            case "filter": return kept ? table.filter(predicate, materialized(step)) : table.filter(predicate);
            case "filter_not": return kept ? table.filterNot(predicate, materialized(step)) : table.filterNot(predicate);
            case "map_values": return kept ? table.mapValues(values, materialized(step)) : table.mapValues(values);
            case "to_stream": return table.toStream();
            case "suppress": return table.suppress(suppressed(step.get("suppressed")));
            case "group_by": return table.groupBy(
                (key, value) -> call(step.get("mapper"), key, value, null, null, null), Grouped.with(text(), text()));
            default:
        }
        KTable other = (KTable) made.get(step.get("other").asText());
        ValueJoiner joiner = (left, right) -> call(step.get("joiner"), null, null, null, left, right);
        java.util.function.BiFunction foreign = (key, value) -> call(step.get("foreign_key"), key, value, null, null, null);
        return switch (op) {
            case "join" -> kept ? table.join(other, joiner, materialized(step)) : table.join(other, joiner);
            case "left_join" -> kept ? table.leftJoin(other, joiner, materialized(step)) : table.leftJoin(other, joiner);
            case "outer_join" -> kept ? table.outerJoin(other, joiner, materialized(step)) : table.outerJoin(other, joiner);
            case "foreign_key_join" -> table.join(other, foreign, joiner, materialized(step));
            case "foreign_key_left_join" -> table.leftJoin(other, foreign, joiner, materialized(step));
            default -> throw new IllegalStateException(op);
        };
    }

    private Object split(KStream stream, JsonNode step) {
        BranchedKStream split = step.has("named") ? stream.split(Named.as(step.get("named").asText())) : stream.split();
        for (JsonNode branch : step.get("branches")) {
            Predicate predicate = (key, value) ->
                Boolean.TRUE.equals(call(branch.get("predicate"), key, value, null, null, null));
            split = branch.has("name") ? split.branch(predicate, Branched.as(branch.get("name").asText()))
                : split.branch(predicate);
        }
        Map<String, KStream> branches = step.has("default") ? split.defaultBranch() : split.noDefaultBranch();
        for (JsonNode wanted : step.get("ids")) {
            branches.forEach((name, branch) -> {
                if (name.endsWith(wanted.get("branch").asText())) {
                    made.put(wanted.get("id").asText(), branch);
                }
            });
        }
        return null;
    }

    private static String[] stores(JsonNode step) {
        List<String> names = new ArrayList<>();
        step.path("stores").forEach(name -> names.add(name.asText()));
        return names.toArray(new String[0]);
    }

    private static StoreBuilder store(JsonNode given) {
        String name = given.get("name").asText();
        if (given.get("type").asText().equals("versioned")) {
            return Stores.versionedKeyValueStoreBuilder(
                Stores.persistentVersionedKeyValueStore(name, ms(given, "history_retention_ms")), text(), text());
        }
        if (given.get("type").asText().equals("window")) {
            Duration retention = ms(given, "retention_ms");
            Duration size = ms(given, "window_size_ms");
            boolean duplicates = given.get("retain_duplicates").asBoolean();
            return Stores.windowStoreBuilder(given.get("persistent").asBoolean()
                ? Stores.persistentWindowStore(name, retention, size, duplicates)
                : Stores.inMemoryWindowStore(name, retention, size, duplicates), text(), text());
        }
        return Stores.keyValueStoreBuilder(given.get("persistent").asBoolean()
            ? Stores.persistentKeyValueStore(name) : Stores.inMemoryKeyValueStore(name),
            serde(given.get("key")), serde(given.get("value")));
    }

    /** What a processor of a kind forwards: nothing, or a record with another value and headers. */
    private static FixedKeyRecord answer(JsonNode given, FixedKeyRecord record, ProcessingContext context) {
        if (given.get("kind").asText().equals("add_header")) {
            Object text = call(given.get("value"), record.key(), record.value(), null, null, null);
            RecordHeaders headers = new RecordHeaders(record.headers());
            headers.add(given.get("name").asText(), String.valueOf(text).getBytes(StandardCharsets.UTF_8));
            return record.withHeaders(headers);
        }
        if (given.get("kind").asText().equals("heartbeat") || record.key() == null) {
            return null;
        }
        switch (given.get("kind").asText()) {
            case "window_collect": return record.withValue(windows(given, record, context));
            case "version_lookup": return record.withValue(versions(given, record, context));
            default:
        }
        KeyValueStore store = context.getStateStore(given.get("store").asText());
        if (given.get("kind").asText().equals("buffer")) {
            store.put(record.key(), record.value());
            return null;
        }
        Object before = store.get(record.key());
        if (given.get("kind").asText().equals("count")) {
            long count = before == null ? 1 : (Long) before + 1;
            store.put(record.key(), count);
            return record.withValue(count);
        }
        if (java.util.Objects.equals(before, record.value())) {
            return null;
        }
        store.put(record.key(), record.value());
        return record;
    }

    private static String windows(JsonNode given, FixedKeyRecord record, ProcessingContext context) {
        WindowStore store = context.getStateStore(given.get("store").asText());
        long span = given.get("span_ms").asLong();
        store.put(record.key(), record.value(), record.timestamp());
        StringBuilder all = new StringBuilder();
        try (WindowStoreIterator found = store.fetch(record.key(), Math.max(0, record.timestamp() - span),
                record.timestamp() + span)) {
            while (found.hasNext()) {
                KeyValue next = (KeyValue) found.next();
                all.append(next.key).append("=").append(next.value).append(";");
            }
        }
        return all.toString();
    }

    private static String versions(JsonNode given, FixedKeyRecord record, ProcessingContext context) {
        VersionedKeyValueStore store = context.getStateStore(given.get("store").asText());
        long until = store.put(record.key(), record.value(), record.timestamp());
        VersionedRecord now = store.get(record.key());
        VersionedRecord then = store.get(record.key(), Math.max(0, record.timestamp() - given.get("back_ms").asLong()));
        return "until=" + until + ",now=" + shown(now) + ",then=" + shown(then);
    }

    private static String shown(VersionedRecord found) {
        return found == null ? "none" : found.value() + "@" + found.timestamp();
    }

    private static class OfCase extends ContextualProcessor {
        private final JsonNode given;

        private Cancellable punctuation;
        private int calls;

        OfCase(JsonNode given) {
            this.given = given;
        }

        @Override
        public void init(ProcessorContext context) {
            super.init(context);
            if (given.has("punctuate")) {
                JsonNode asked = given.get("punctuate");
                PunctuationType type = PunctuationType.valueOf(asked.get("type").asText().toUpperCase());
                boolean buffers = given.get("kind").asText().equals("buffer");
                punctuation = context.schedule(ms(asked, "interval_ms"), type, buffers ? this::flush : this::beat);
            }
        }

        private void flush(long time) {
            KeyValueStore store = context().getStateStore(given.get("store").asText());
            List<KeyValue> held = new ArrayList<>();
            try (KeyValueIterator all = store.all()) {
                all.forEachRemaining(entry -> held.add((KeyValue) entry));
            }
            for (KeyValue entry : held) {
                context().forward(new Record(entry.key, entry.value, time));
                store.delete(entry.key);
            }
        }

        private void beat(long time) {
            calls++;
            if (given.has("cancel_after") && calls == given.get("cancel_after").asInt()) {
                punctuation.cancel();
            }
            context().forward(new Record("tick", "t=" + time + ",stream=" + context().currentStreamTimeMs() + ",wall="
                + context().currentSystemTimeMs(), time));
        }

        @Override
        public void process(Record record) {
            FixedKeyRecord answer = answer(given, InternalFixedKeyRecordFactory.create(record), context());
            if (answer != null) {
                context().forward(record.withValue(answer.value()).withHeaders(answer.headers()));
            }
        }
    }

    private static class FixedOfCase extends ContextualFixedKeyProcessor {
        private final JsonNode given;

        FixedOfCase(JsonNode given) {
            this.given = given;
        }

        @Override
        public void process(FixedKeyRecord record) {
            FixedKeyRecord answer = answer(given, record, context());
            if (answer != null) {
                context().forward(answer);
            }
        }
    }

    private Object ofGroup(String op, Object group, JsonNode step) {
        if (op.equals("cogroup")) {
            Aggregator aggregator = (key, value, agg) -> call(step.get("aggregator"), key, value, agg, null, null);
            return group instanceof CogroupedKStream cogrouped
                ? cogrouped.cogroup((KGroupedStream) made.get(step.get("grouped").asText()), aggregator)
                : ((KGroupedStream) group).cogroup(aggregator);
        }
        if (op.equals("windowed_by")) {
            return windowed(group, step.get("windows"));
        }
        if (op.equals("emit_strategy")) {
            return ((TimeWindowedKStream) group).emitStrategy(EmitStrategy.onWindowClose());
        }
        Materialized materialized = materialized(step);
        Initializer begin = () -> call(step.get("initializer"), null, null, null, null, null);
        Aggregator add = (key, value, agg) -> call(
            step.has("adder") ? step.get("adder") : step.get("aggregator"), key, value, agg, null, null);
        Aggregator remove = (key, value, agg) -> call(step.get("subtractor"), key, value, agg, null, null);
        Merger merge = (key, left, right) -> call(step.get("merger"), key, null, null, left, right);
        Reducer reduce = (agg, value) -> call(
            step.has("adder") ? step.get("adder") : step.get("reducer"), null, value, agg, null, null);
        Reducer unreduce = (agg, value) -> call(step.get("subtractor"), null, value, agg, null, null);
        if (group instanceof KGroupedStream grouped) {
            return switch (op) {
                case "count" -> grouped.count(materialized);
                case "reduce" -> grouped.reduce(reduce, materialized);
                default -> grouped.aggregate(begin, add, materialized);
            };
        }
        if (group instanceof KGroupedTable grouped) {
            return switch (op) {
                case "count" -> grouped.count(materialized);
                case "reduce" -> grouped.reduce(reduce, unreduce, materialized);
                default -> grouped.aggregate(begin, add, remove, materialized);
            };
        }
        if (group instanceof SessionWindowedKStream sessions) {
            return switch (op) {
                case "count" -> sessions.count(materialized);
                case "reduce" -> sessions.reduce(reduce, materialized);
                default -> sessions.aggregate(begin, add, merge, materialized);
            };
        }
        if (group instanceof CogroupedKStream cogrouped) {
            return cogrouped.aggregate(begin, materialized);
        }
        if (group instanceof TimeWindowedCogroupedKStream windows) {
            return windows.aggregate(begin, materialized);
        }
        if (group instanceof SessionWindowedCogroupedKStream sessions) {
            return sessions.aggregate(begin, merge, materialized);
        }
        TimeWindowedKStream windows = (TimeWindowedKStream) group;
        return switch (op) {
            case "count" -> windows.count(materialized);
            case "reduce" -> windows.reduce(reduce, materialized);
            default -> windows.aggregate(begin, add, materialized);
        };
    }

    private static Object windowed(Object group, JsonNode spec) {
        Duration grace = spec.has("grace_ms") ? ms(spec, "grace_ms") : Duration.ZERO;
        switch (spec.get("type").asText()) {
            case "session":
                SessionWindows sessions = SessionWindows.ofInactivityGapAndGrace(ms(spec, "gap_ms"), grace);
                return group instanceof CogroupedKStream cogrouped ? cogrouped.windowedBy(sessions)
                    : ((KGroupedStream) group).windowedBy(sessions);
            case "sliding":
                SlidingWindows sliding = SlidingWindows.ofTimeDifferenceAndGrace(ms(spec, "difference_ms"), grace);
                return group instanceof CogroupedKStream cogrouped ? cogrouped.windowedBy(sliding)
                    : ((KGroupedStream) group).windowedBy(sliding);
            default:
                TimeWindows whole = TimeWindows.ofSizeAndGrace(ms(spec, "size_ms"), grace);
                TimeWindows windows = spec.has("advance_ms") ? whole.advanceBy(ms(spec, "advance_ms")) : whole;
                return group instanceof CogroupedKStream cogrouped ? cogrouped.windowedBy(windows)
                    : ((KGroupedStream) group).windowedBy(windows);
        }
    }

    private static Suppressed suppressed(JsonNode spec) {
        return spec.get("until").asText().equals("window_closes")
            ? Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())
            : Suppressed.untilTimeLimit(ms(spec, "time_limit_ms"), Suppressed.BufferConfig.unbounded());
    }

    private static Duration ms(JsonNode spec, String name) {
        return Duration.ofMillis(spec.get(name).asLong());
    }

    private static Consumed consumed(JsonNode step) {
        JsonNode given = step.get("consumed");
        return Consumed.with(serde(given.get("key")), serde(given.get("value")));
    }

    private static Materialized materialized(JsonNode step) {
        JsonNode given = step.get("materialized");
        if (given.path("store").asText().equals("versioned")) {
            Materialized versioned = Materialized.as(Stores.persistentVersionedKeyValueStore(
                given.get("name").asText(), ms(given, "history_retention_ms")));
            return versioned.withKeySerde(serde(given.get("key"))).withValueSerde(serde(given.get("value")));
        }
        Materialized made = given.has("name") ? Materialized.as(given.get("name").asText()) : Materialized.with(null, null);
        made.withKeySerde(serde(given.get("key"))).withValueSerde(serde(given.get("value")));
        return given.path("store").asText().equals("in_memory") ? made.withStoreType(Materialized.StoreType.IN_MEMORY) : made;
    }

    private static Serde text() {
        return Serdes.String();
    }

    private static Serde serde(JsonNode spec) {
        if (spec.has("time_windowed")) {
            return WindowedSerdes.timeWindowedSerdeFrom(String.class, spec.get("size_ms").asLong());
        }
        if (spec.has("session_windowed")) {
            return WindowedSerdes.sessionWindowedSerdeFrom(String.class);
        }
        return spec.asText().equals("long") ? Serdes.Long() : Serdes.String();
    }

    // --- expressions

    private static Object call(JsonNode given, Object key, Object value, Object agg, Object left, Object right) {
        if (!given.isArray()) {
            return given.isNull() ? null : given.isNumber() ? (Object) given.asLong() : given.asText();
        }
        String name = given.get(0).asText();
        switch (name) {
            case "key": return key;
            case "value": return value;
            case "agg": return agg;
            case "left": return left;
            case "right": return right;
            default:
        }
        List<Object> parts = new ArrayList<>();
        for (int at = 1; at < given.size(); at++) {
            parts.add(call(given.get(at), key, value, agg, left, right));
        }
        Object first = parts.isEmpty() ? null : parts.get(0);
        switch (name) {
            case "if": return Boolean.TRUE.equals(first) ? parts.get(1) : parts.get(2);
            case "not": return !Boolean.TRUE.equals(first);
            case "is_null": return first == null;
            case "eq": return java.util.Objects.equals(first, parts.get(1));
            case "concat":
                StringBuilder all = new StringBuilder();
                parts.forEach(all::append);
                return all.toString();
            case "upper": return first == null ? null : first.toString().toUpperCase();
            case "prefix": return first == null ? null
                : first.toString().substring(0, (int) Math.min(first.toString().length(), (Long) parts.get(1)));
            case "suffix": return first == null ? null
                : first.toString().substring((int) Math.max(0, first.toString().length() - (Long) parts.get(1)));
            case "len": return number(first);
            case "add": return number(first) + number(parts.get(1));
            case "sub": return number(first) - number(parts.get(1));
            case "mod": return Math.floorMod(number(first), number(parts.get(1)));
            case "contains": return first != null && first.toString().contains(parts.get(1).toString());
            case "pair": return KeyValue.pair(first, parts.get(1));
            case "chars":
                List<String> chars = new ArrayList<>();
                if (first != null) {
                    first.toString().chars().forEach(one -> chars.add(String.valueOf((char) one)));
                }
                return chars;
            default: throw new IllegalStateException(name);
        }
    }

    private static long number(Object value) {
        return value == null ? 0 : value instanceof String text ? text.length() : (Long) value;
    }
}
