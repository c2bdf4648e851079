import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/** The cases of benchmarks/streams_engine.py in Kafka's TopologyTestDriver: prints CPU nanoseconds a record of the last rounds. */
public class StreamsEngine {
    static final int KEYS = 1000;

    public static void main(String[] arguments) {
        String name = arguments[0];
        int count = Integer.parseInt(arguments[1]);
        int rounds = Integer.parseInt(arguments[2]);
        var figures = new java.util.ArrayList<Double>();
        for (int round = 0; round < rounds; round++) {
            figures.add(measure(name, count));
        }
        java.util.Collections.sort(figures);
        System.out.println(figures.get(figures.size() / 2));
    }

    static final JoinWindows WINDOWS = JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofSeconds(1));

    static KStream<String, Long> other(StreamsBuilder builder) {
        return builder.stream("other", Consumed.with(Serdes.String(), Serdes.Long()));
    }

    static StreamJoined<String, Long, Long> joined() {
        return StreamJoined.with(Serdes.String(), Serdes.Long(), Serdes.Long())
            .withThisStoreSupplier(kept("this")).withOtherStoreSupplier(kept("that"));
    }

    static WindowBytesStoreSupplier kept(String name) {
        return Stores.inMemoryWindowStore(name, Duration.ofSeconds(2), Duration.ofSeconds(2), true);
    }

    static double measure(String name, int count) {
        var config = new Properties();
        config.put("application.id", "bench");
        config.put("bootstrap.servers", "unused:9092");
        config.put("statestore.cache.max.bytes", 0L);
        config.put("default.key.serde", Serdes.StringSerde.class);
        config.put("default.value.serde", Serdes.LongSerde.class);
        var builder = new StreamsBuilder();
        KStream<String, Long> stream = builder.stream("in", Consumed.with(Serdes.String(), Serdes.Long()));
        switch (name) {
            case "filter-map-sink" -> stream.filter((key, value) -> value % 10 != 0)
                .map((key, value) -> KeyValue.pair(key, value * 2)).to("out");
            case "count" -> stream.groupByKey().count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
                .toStream().to("out");
            case "windowed-count" -> stream.groupByKey()
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(1)))
                .count(Materialized.as(Stores.inMemoryWindowStore("counts", Duration.ofHours(24), Duration.ofSeconds(1), false)))
                .toStream((key, value) -> key.key()).to("out");
            case "stream-table-join" -> {
                KTable<String, Long> table = builder.table("table", Materialized.as(Stores.inMemoryKeyValueStore("table")));
                stream.join(table, Long::sum).to("out");
            }
            case "session-count" -> stream.groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofSeconds(2)))
                .count(Materialized.as(Stores.inMemorySessionStore("counts", Duration.ofHours(24))))
                .toStream((key, value) -> key.key()).to("out");
            case "sliding-count" -> stream.groupByKey()
                .windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(Duration.ofSeconds(2)))
                .count(Materialized.as(Stores.inMemoryWindowStore("counts", Duration.ofHours(24), Duration.ofSeconds(2), false)))
                .toStream((key, value) -> key.key()).to("out");
            case "suppressed-count" -> stream.groupByKey()
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(5)))
                .count(Materialized.as(Stores.inMemoryWindowStore("counts", Duration.ofHours(24), Duration.ofSeconds(5), false)))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
                .toStream((key, value) -> key.key()).to("out");
            case "stream-stream-join" -> stream.join(other(builder), Long::sum, WINDOWS, joined()).to("out");
            case "stream-stream-outer-join" -> stream.outerJoin(other(builder),
                (left, right) -> (left == null ? 0 : left) + (right == null ? 0 : right), WINDOWS, joined()).to("out");
            case "foreign-key-join" -> {
                KTable<String, Long> table = builder.table("table", Materialized.as(Stores.inMemoryKeyValueStore("table")));
                stream.toTable(Materialized.as(Stores.inMemoryKeyValueStore("rows")))
                    .join(table, value -> "key-" + value % KEYS, Long::sum).toStream().to("out");
            }
            default -> throw new IllegalArgumentException(name);
        }
        try (var driver = new TopologyTestDriver(builder.build(config), config, Instant.ofEpochMilli(0))) {
            TestInputTopic<String, Long> input = driver.createInputTopic("in", new StringSerializer(), new LongSerializer());
            var inputs = new java.util.ArrayList<>(java.util.List.of(input));
            if (name.startsWith("stream-stream")) {
                inputs.add(driver.createInputTopic("other", new StringSerializer(), new LongSerializer()));
            }
            if (name.equals("stream-table-join") || name.equals("foreign-key-join")) {
                var table = driver.createInputTopic("table", new StringSerializer(), new LongSerializer());
                for (int number = 0; number < KEYS; number++) {
                    table.pipeInput("key-" + number, (long) number, 0L);
                }
            }
            var clock = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
            long start = clock.getProcessCpuTime();
            for (int number = 0; number < count; number++) {
                int at = number / inputs.size();
                inputs.get(number % inputs.size()).pipeInput("key-" + at % KEYS, (long) number, (long) at);
            }
            return (double) (clock.getProcessCpuTime() - start) / count;
        }
    }
}
