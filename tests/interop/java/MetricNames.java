import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Prints the metrics of Java's clients after some work, one a line: the client, the group, the names of the tags but
 * for the client's id (by commas), the name. MetricNames BOOTSTRAP TOPIC
 */
public class MetricNames {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            print("admin", admin.metrics());
        }
        Map<String, Object> transactional = Map.of("bootstrap.servers", bootstrap, "transactional.id", topic);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(transactional, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "value")).get();
            producer.commitTransaction();
            print("producer", producer.metrics());
        }
        consume(bootstrap, topic, "classic");
        consume(bootstrap, topic, "consumer");
        share(bootstrap, topic);
    }

    static void share(String bootstrap, String topic) throws Exception {
        String group = topic + "-share";
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        AlterConfigOp earliest =
                new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.incrementalAlterConfigs(Map.of(resource, List.of(earliest))).all().get();
        }
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", group);
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                continue;
            }
            consumer.commitSync();
            consumer.poll(Duration.ofMillis(100));
            print("share consumer", consumer.metrics());
        }
    }

    static void consume(String bootstrap, String topic, String protocol) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", topic + "-" + protocol);
        settings.put("group.protocol", protocol);
        settings.put("auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                continue;
            }
            consumer.commitSync();
            consumer.poll(Duration.ofMillis(100));
            print("consumer (" + protocol + ")", consumer.metrics());
        }
    }

    static void print(String client, Map<MetricName, ? extends Metric> metrics) {
        for (MetricName name : metrics.keySet()) {
            TreeSet<String> tags = new TreeSet<>(name.tags().keySet());
            tags.remove("client-id");
            System.out.println(client + "\t" + name.group() + "\t" + String.join(",", tags) + "\t" + name.name());
        }
    }
}
