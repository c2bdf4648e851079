import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/**
 * A broker's plugin (metric.reporters) that keeps what clients push, each push in a file of telemetry.receiver.folder:
 * NUMBER@CLIENT-ID@INSTANCE-ID@push.otlp, or @last.otlp for the push of a client that closes.
 */
public class TelemetryReceiver implements MetricsReporter, ClientTelemetry {
    private final AtomicInteger number = new AtomicInteger();
    private Path folder;

    @Override
    public void configure(Map<String, ?> configs) {
        folder = Path.of(configs.get("telemetry.receiver.folder").toString());
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return (context, payload) -> keep(context.clientId(), payload);
    }

    private void keep(String clientId, ClientTelemetryPayload payload) {
        ByteBuffer data = payload.data().duplicate();
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        String name = String.format("%06d@%s@%s@%s.otlp", number.incrementAndGet(), clientId,
            payload.clientInstanceId(), payload.isTerminating() ? "last" : "push");
        try {
            Path unfinished = Files.write(folder.resolve(name + ".part"), bytes);
            Files.move(unfinished, folder.resolve(name), StandardCopyOption.ATOMIC_MOVE);
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {
    }

    @Override
    public void metricChange(KafkaMetric metric) {
    }

    @Override
    public void metricRemoval(KafkaMetric metric) {
    }

    @Override
    public void close() {
    }
}
