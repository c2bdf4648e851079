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
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.Stores;

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
            default -> throw new IllegalArgumentException(name);
        }
        try (var driver = new TopologyTestDriver(builder.build(config), config, Instant.ofEpochMilli(0))) {
            TestInputTopic<String, Long> input = driver.createInputTopic("in", new StringSerializer(), new LongSerializer());
            if (name.equals("stream-table-join")) {
                var table = driver.createInputTopic("table", new StringSerializer(), new LongSerializer());
                for (int number = 0; number < KEYS; number++) {
                    table.pipeInput("key-" + number, (long) number, 0L);
                }
            }
            var clock = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
            long start = clock.getProcessCpuTime();
            for (int number = 0; number < count; number++) {
                input.pipeInput("key-" + number % KEYS, (long) number, (long) number);
            }
            return (double) (clock.getProcessCpuTime() - start) / count;
        }
    }
}
