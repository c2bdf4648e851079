// Of kafka-tools-api, which Maven Central lacks, what Kafka's tools need to start.
package org.apache.kafka.tools.api;

import java.io.Closeable;
import java.io.InputStream;
import java.util.Iterator;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Configurable;

public interface RecordReader extends Closeable, Configurable {
    default void configure(Map<String, ?> configs) {
    }

    Iterator<ProducerRecord<byte[], byte[]>> readRecords(InputStream input);

    default void close() {
    }
}
