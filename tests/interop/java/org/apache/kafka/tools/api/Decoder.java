// Of kafka-tools-api, which Maven Central lacks, what Kafka's tools need to start.
package org.apache.kafka.tools.api;

public interface Decoder<T> {
    T fromBytes(byte[] bytes);
}
