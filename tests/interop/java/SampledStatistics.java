import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Avg;
import org.apache.kafka.common.metrics.stats.Max;
import org.apache.kafka.common.metrics.stats.Meter;
import org.apache.kafka.common.metrics.stats.Min;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.WindowedCount;

/**
 * What Kafka's sampled statistics say of the values recorded with one sensor. A line of the standard input is a case,
 * numbers between spaces: how many samples, their length and when to ask (milliseconds), then pairs of time and value.
 * A line of the output has the names and numbers of the answer, NAME=NUMBER between spaces.
 */
public class SampledStatistics {
    public static void main(String[] arguments) throws Exception {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = cases.readLine()) != null; ) {
            System.out.println(measured(line.split(" ")));
        }
    }

    static String measured(String[] numbers) {
        MetricConfig config = new MetricConfig()
            .samples(Integer.parseInt(numbers[0]))
            .timeWindow(Long.parseLong(numbers[1]), TimeUnit.MILLISECONDS);
        long asked = Long.parseLong(numbers[2]);
        try (Metrics metrics = new Metrics(config)) {
            Sensor sensor = metrics.sensor("sensor");
            sensor.add(name(metrics, "avg"), new Avg());
            sensor.add(name(metrics, "max"), new Max());
            sensor.add(name(metrics, "min"), new Min());
            sensor.add(new Meter(name(metrics, "rate"), name(metrics, "total")));
            sensor.add(new Meter(new WindowedCount(), name(metrics, "count-rate"), name(metrics, "count")));
            sensor.add(name(metrics, "count-rate-per-hour"), new Rate(TimeUnit.HOURS, new WindowedCount()));
            for (int at = 3; at < numbers.length; at += 2) {
                sensor.record(Double.parseDouble(numbers[at + 1]), Long.parseLong(numbers[at]));
            }
            StringBuilder answer = new StringBuilder();
            for (String name : List.of("avg", "max", "min", "rate", "total", "count-rate", "count", "count-rate-per-hour")) {
                KafkaMetric metric = metrics.metric(name(metrics, name));
                answer.append(name).append('=').append(metric.measurable().measure(config, asked)).append(' ');
            }
            return answer.toString().trim();
        }
    }

    static MetricName name(Metrics metrics, String name) {
        return metrics.metricName(name, "group");
    }
}
