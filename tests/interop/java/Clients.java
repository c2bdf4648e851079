import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A group of Java consumers whose members come and go copies a topic in transactions, exactly once:
 * Clients BOOTSTRAP PREFIX RECORDS CONSUMER-SETTING=VALUE...
 */
public class Clients {
    static final int PARTITIONS = 5;
    final String bootstrap;
    final String source;
    final String target;
    final String group;
    final Map<String, Object> settings = new HashMap<>();
    final ConcurrentLinkedQueue<Throwable> failures = new ConcurrentLinkedQueue<>();

    Clients(String[] arguments) {
        bootstrap = arguments[0];
        source = arguments[1] + "-source";
        target = arguments[1] + "-target";
        group = arguments[1] + "-group";
        for (int at = 3; at < arguments.length; at++) {
            settings.put(arguments[at].split("=")[0], arguments[at].split("=")[1]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        new Clients(arguments).run(Integer.parseInt(arguments[2]));
    }

    /** One of the group: copies until it is told to stop, then leaves. */
    class Member extends Thread {
        final AtomicInteger copied = new AtomicInteger();
        volatile boolean stopped;

        Member(int number) {
            super(group + "-" + number);
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            try (KafkaConsumer<String, String> consumer = consumer(group);
                    KafkaProducer<String, String> producer = producer(getName())) {
                producer.initTransactions();
                consumer.subscribe(List.of(source));
                while (!stopped) {
                    copy(consumer, producer);
                }
            } catch (Throwable failure) {
                failures.add(failure);
            }
        }

        void copy(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer) {
            Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
            producer.beginTransaction();
            int count = 0;
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                producer.send(new ProducerRecord<>(target, record.key(), record.value()));
                next.put(new TopicPartition(source, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                count++;
            }
            try {
                producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                producer.commitTransaction();
                copied.addAndGet(count);
            } catch (CommitFailedException overtaken) {
                // The group went on to its next generation after the records were taken.
                producer.abortTransaction();
                Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
                committed.forEach((partition, at) -> consumer.seek(partition, at == null ? 0 : at.offset()));
            }
        }
    }

    void run(int count) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(source, PARTITIONS, (short) -1), new NewTopic(target, 3, (short) -1)))
                .all().get();
        }
        List<Member> members = new ArrayList<>();
        int sent = 0;
        try (KafkaProducer<String, String> producer = producer(null)) {
            for (int step = 0; step < 4; step++) {
                if (step < 2) {
                    members.add(new Member(step));
                } else {
                    members.get(step - 2).stopped = true;
                    members.remove(members.get(step - 2));
                    members.add(step == 2 ? 0 : members.size(), new Member(step));
                }
                sent = sendUntilEveryoneWorks(producer, members, sent, count / 4);
            }
        }
        check(sent);
        for (Member member : members) {
            member.stopped = true;
            member.join();
        }
        raiseFailures();
        System.out.println("copied " + sent + " records");
    }

    int sendUntilEveryoneWorks(KafkaProducer<String, String> producer, List<Member> members, int sent, int least)
            throws Exception {
        Map<Member, Integer> before = new HashMap<>();
        members.forEach(member -> before.put(member, member.copied.get()));
        int first = sent;
        long end = System.currentTimeMillis() + 40_000;
        while (sent - first < least || members.stream().anyMatch(m -> m.copied.get() == before.get(m))) {
            for (int at = 0; at < 100; at++, sent++) {
                producer.send(new ProducerRecord<>(source, "key " + sent % 97, Integer.toString(sent)));
            }
            producer.flush();
            Thread.sleep(10);
            raiseFailures();
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("a member got nothing in 40 s, " + sent + " records were sent");
            }
        }
        return sent;
    }

    /** Every record stands in the target once, and in the order of its key. */
    void check(int sent) {
        Map<String, Integer> last = new TreeMap<>();
        int found = 0;
        long end = System.currentTimeMillis() + 40_000;
        try (KafkaConsumer<String, String> consumer = consumer(null)) {
            List<TopicPartition> all = new ArrayList<>();
            consumer.partitionsFor(target).forEach(p -> all.add(new TopicPartition(target, p.partition())));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            while (found < sent && System.currentTimeMillis() < end) {
                raiseFailures();
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    int value = Integer.parseInt(record.value());
                    int expected = last.containsKey(record.key()) ? last.get(record.key()) + 97 : value % 97;
                    if (value != expected) {
                        throw new IllegalStateException(record.key() + " has " + value + " where " + expected + " is next");
                    }
                    last.put(record.key(), value);
                    found++;
                }
            }
        }
        if (found != sent) {
            throw new IllegalStateException(sent + " records were sent, the target holds " + found);
        }
    }

    void raiseFailures() {
        if (!failures.isEmpty()) {
            throw new IllegalStateException("a member failed", failures.peek());
        }
    }

    KafkaProducer<String, String> producer(String transactionalId) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        if (transactionalId != null) {
            all.put("transactional.id", transactionalId);
        }
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(String groupId) {
        Map<String, Object> all = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "isolation.level", "read_committed",
            "enable.auto.commit", "false", "fetch.max.wait.ms", "100"));
        if (groupId != null) {
            all.put("group.id", groupId);
            all.putAll(settings);
        }
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }
}
