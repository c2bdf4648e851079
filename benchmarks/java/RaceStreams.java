// Kafka Streams' side of benchmarks/race_streams.py: java RaceStreams.java SERVERS JOB SOURCE TARGET ID FOLDER
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;

public class RaceStreams {
    private static final Grouped<String, String> TEXT = Grouped.with(Serdes.String(), Serdes.String());

    private static KTable<Windowed<String>, Long> counts(KStream<String, String> source) {
        return source.groupByKey(TEXT).windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1))).count();
    }

    private static String joined(String one, String other) {
        return one.substring(0, 8) + other.substring(0, 8);
    }

    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[4]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[5]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> source = builder.stream(args[2], Consumed.with(Serdes.String(), Serdes.String()));
        if (args[1].equals("map")) {
            source.filter((key, value) -> value.charAt(0) != '0')
                .mapValues(value -> value + "!")
                .to(args[3], Produced.with(Serdes.String(), Serdes.String()));
        } else if (args[1].equals("count")) {
            source.groupByKey(TEXT).count().toStream().to(args[3], Produced.with(Serdes.String(), Serdes.Long()));
        } else if (args[1].equals("group")) {
            source.groupBy((key, value) -> key, TEXT).count().toStream()
                .to(args[3], Produced.with(Serdes.String(), Serdes.Long()));
        } else if (args[1].equals("windows")) {
            counts(source).toStream((window, count) -> window.key())
                .to(args[3], Produced.with(Serdes.String(), Serdes.Long()));
        } else if (args[1].equals("suppress")) {
            counts(source).suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
                .toStream((window, count) -> window.key())
                .to(args[3], Produced.with(Serdes.String(), Serdes.Long()));
        } else if (args[1].equals("tables")) {
            KTable<String, String> right = builder.table(args[2] + "-right", Consumed.with(Serdes.String(), Serdes.String()));
            source.toTable(Materialized.with(Serdes.String(), Serdes.String())).join(right, RaceStreams::joined)
                .toStream().to(args[3], Produced.with(Serdes.String(), Serdes.String()));
        } else if (args[1].equals("streams")) {
            KStream<String, String> right = builder.stream(args[2] + "-right", Consumed.with(Serdes.String(), Serdes.String()));
            source.join(right, RaceStreams::joined, JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofSeconds(1)),
                    StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()))
                .to(args[3], Produced.with(Serdes.String(), Serdes.String()));
        } else {
            throw new IllegalArgumentException("no job is called " + args[1]);
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { streams.close(); ended.countDown(); }));
        streams.start();
        ended.await();
    }
}
