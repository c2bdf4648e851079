// Of kafka-tools-api, which Maven Central lacks, what Kafka's tools need to start.
package org.apache.kafka.tools.api;

public class StringDecoder implements Decoder<String> {
    public String fromBytes(byte[] bytes) {
        return new String(bytes, java.nio.charset.StandardCharsets.UTF_8);
    }
}
