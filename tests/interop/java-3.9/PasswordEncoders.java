import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Scanner;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.security.PasswordEncoder;

/** Kafka's PasswordEncoder on lines: "encode SECRET KEYFACTORY CIPHER BITS ITERATIONS TEXT", "decode SECRET ENCODED". */
public class PasswordEncoders {
    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }

    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            Password secret = new Password(text(words[1]));
            if (words[0].equals("encode")) {
                PasswordEncoder encoder = PasswordEncoder.encrypting(
                    secret, words[2], words[3], Integer.parseInt(words[4]), Integer.parseInt(words[5]));
                System.out.println(encoder.encode(new Password(words.length < 7 ? "" : text(words[6]))));
            } else {
                PasswordEncoder decoder = PasswordEncoder.encrypting(secret, null, "AES/CBC/PKCS5Padding", 128, 4096);
                if (words[2].contains("AES/GCM"))
                    decoder = PasswordEncoder.encrypting(secret, null, "AES/GCM/NoPadding", 128, 4096);
                String decoded = decoder.decode(words[2]).value();
                System.out.println(Base64.getEncoder().encodeToString(decoded.getBytes(StandardCharsets.UTF_8)));
            }
        }
    }
}
