import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams, stateless (lines in capitals) and stateful (words counted), exactly once, until standard input ends:
 * WordCount BOOTSTRAP PREFIX [SETTING=VALUE...]
 */
public class WordCount {
    public static void main(String[] arguments) throws Exception {
        String prefix = arguments[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", prefix);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("num.stream.threads", "2");
        settings.put("commit.interval.ms", "100");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        for (int at = 2; at < arguments.length; at++) {
            settings.put(arguments[at].split("=")[0], arguments[at].split("=")[1]);
        }

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(prefix + "-lines");
        lines.mapValues(line -> line.toUpperCase()).to(prefix + "-capitals");
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().mapValues(count -> Long.toString(count))
            .to(prefix + "-counts", Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        CountDownLatch running = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
        });
        streams.start();
        running.await();
        System.out.println("running");
        while (System.in.read() >= 0) {
            // Only the end counts.
        }
        streams.close();
    }
}
