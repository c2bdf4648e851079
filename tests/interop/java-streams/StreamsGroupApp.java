import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * A member of a streams group (group.protocol=streams), exactly once, until standard input ends: words of PREFIX-lines
 * are counted, and each count is joined with the word's name in PREFIX-names, repartitioned before. A line on standard
 * input asks for what the members know of each other: StreamsGroupApp BOOTSTRAP PREFIX [SETTING=VALUE...]
 */
public class StreamsGroupApp {
    public static void main(String[] arguments) throws Exception {
        String prefix = arguments[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", prefix);
        settings.put("group.protocol", "streams");
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("num.stream.threads", "2");
        settings.put("commit.interval.ms", "100");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("default.dsl.store", "in_memory");
        for (int at = 2; at < arguments.length; at++) {
            String[] setting = arguments[at].split("=", 2);
            settings.put(setting[0], setting[1]);
        }

        StreamsBuilder builder = new StreamsBuilder();
        Grouped<String, String> strings = Grouped.with(Serdes.String(), Serdes.String());
        KStream<String, String> counts = builder
            .stream(prefix + "-lines", Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, strings)
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().mapValues(count -> Long.toString(count));
        counts.to(prefix + "-counts", Produced.with(Serdes.String(), Serdes.String()));
        KTable<String, String> names = builder.table(prefix + "-names");
        counts.repartition(Repartitioned.with(Serdes.String(), Serdes.String()).withName("again"))
            .leftJoin(names, (count, name) -> name + "=" + count)
            .to(prefix + "-joined", Produced.with(Serdes.String(), Serdes.String()));

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
        for (int read = System.in.read(); read >= 0; read = System.in.read()) {
            if (read == '\n') {
                StringBuilder told = new StringBuilder();
                streams.metadataForAllStreamsClients().forEach(client -> told.append(client.hostInfo())
                    .append(client.topicPartitions()).append(client.standbyTopicPartitions()).append(' '));
                System.out.println(told);
            }
        }
        streams.close(Duration.ofSeconds(30));
    }
}
