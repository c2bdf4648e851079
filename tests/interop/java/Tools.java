import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after another in this JVM, as starting one for each takes a second.
 *
 * A line on the standard input is a command: what the tool reads, its class, its arguments, each in base64 between
 * spaces (an empty one is "-"). A line on the standard output is the answer: exit code, standard output and standard
 * error. A tool that takes longer than the seconds given as this program's argument has exit code 124.
 */
public class Tools {
    static final List<Runnable> HOOKS = new CopyOnWriteArrayList<>();
    static final InheritableThreadLocal<CompletableFuture<Integer>> ENDED = new InheritableThreadLocal<>();

    public static void main(String[] arguments) throws Exception {
        long limit = Long.parseLong(arguments[0]) * 1000;
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        for (String line; (line = commands.readLine()) != null; ) {
            List<String> command = new ArrayList<>();
            for (String part : line.split(" ")) {
                command.add(part.equals("-") ? "" : new String(Base64.getDecoder().decode(part)));
            }
            answers.println(run(command, limit));
        }
    }

    static String run(List<String> command, long limit) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setIn(new ByteArrayInputStream(command.get(0).getBytes()));
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
        CompletableFuture<Integer> ended = new CompletableFuture<>();
        ENDED.set(ended);
        String[] rest = command.subList(2, command.size()).toArray(new String[0]);
        Thread tool = new Thread(() -> call(command.get(1), rest));
        tool.setDaemon(true);
        tool.start();
        int code;
        try {
            code = ended.get(limit, TimeUnit.MILLISECONDS);
        } catch (TimeoutException late) {
            code = 124;
            for (StackTraceElement at : tool.getStackTrace()) {
                System.err.println("still at " + at);
            }
        }
        HOOKS.forEach(Runnable::run);
        HOOKS.clear();
        return code + " " + encode(out) + " " + encode(err);
    }

    /** What a tool takes for the end of the process: nothing of the thread runs after it. */
    static void end(int code) {
        ENDED.get().complete(code);
        LockSupport.park();
        throw new IllegalStateException("woken after exit");
    }

    static void call(String tool, String[] arguments) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            ENDED.get().complete(0);
        } catch (InvocationTargetException thrown) {
            thrown.getCause().printStackTrace();
            ENDED.get().complete(1);
        } catch (ReflectiveOperationException thrown) {
            thrown.printStackTrace();
            ENDED.get().complete(1);
        }
    }

    static String encode(ByteArrayOutputStream text) {
        return text.size() == 0 ? "-" : Base64.getEncoder().encodeToString(text.toByteArray());
    }
}
