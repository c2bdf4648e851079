import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.AppConfigurationEntry.LoginModuleControlFlag;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.security.oauthbearer.JwtRetriever;
import org.apache.kafka.common.security.oauthbearer.JwtValidator;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;

/**
 * Kafka's own retriever and validator of JWTs, for settings given as arguments, name=value; those that begin with
 * jaas: are options of the login module.
 *
 * Prints the token that the retriever named by sasl.oauthbearer.jwt.retriever.class fetches; or, with "validate" as
 * the first argument, for each line of the standard input what the validator says of that token: "refused", or
 * principal, expiry and start (milliseconds, or null).
 */
public class OAuth {
    static final String MECHANISM = "OAUTHBEARER";

    public static void main(String[] arguments) throws Exception {
        boolean validates = arguments.length > 0 && arguments[0].equals("validate");
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", "localhost:9"));
        Map<String, String> options = new HashMap<>();
        for (String argument : List.of(arguments).subList(validates ? 1 : 0, arguments.length)) {
            String name = argument.substring(0, argument.indexOf('='));
            String value = argument.substring(argument.indexOf('=') + 1);
            if (name.startsWith("jaas:")) {
                options.put(name.substring(5), value);
            } else {
                settings.put(name, value);
            }
            if (name.endsWith(".file")) {
                allow("files", value);
            } else if (name.endsWith(".url")) {
                allow("urls", value);
            }
        }
        AdminClientConfig config = new AdminClientConfig(settings);
        List<AppConfigurationEntry> jaas =
            List.of(new AppConfigurationEntry("OAuthBearerLoginModule", LoginModuleControlFlag.REQUIRED, options));
        if (validates) {
            JwtValidator validator = made(config, "sasl.oauthbearer.jwt.validator.class", JwtValidator.class);
            validator.configure(config.values(), MECHANISM, jaas);
            BufferedReader tokens = new BufferedReader(new InputStreamReader(System.in));
            for (String token; (token = tokens.readLine()) != null; ) {
                System.out.println(verdict(validator, token));
            }
        } else {
            JwtRetriever retriever = made(config, "sasl.oauthbearer.jwt.retriever.class", JwtRetriever.class);
            retriever.configure(config.values(), MECHANISM, jaas);
            System.out.print(retriever.retrieve());
            retriever.close();
        }
    }

    static String verdict(JwtValidator validator, String token) {
        try {
            OAuthBearerToken found = validator.validate(token);
            return found.principalName() + " " + found.lifetimeMs() + " " + found.startTimeMs();
        } catch (RuntimeException refusal) {
            return "refused";
        }
    }

    static <T> T made(AdminClientConfig config, String setting, Class<T> kind) throws Exception {
        return kind.cast(config.getClass(setting).getDeclaredConstructor().newInstance());
    }

    /** Java reads only what a system property allows. */
    static void allow(String kind, String value) {
        String property = "org.apache.kafka.sasl.oauthbearer.allowed." + kind;
        String others = System.getProperty(property);
        System.setProperty(property, others == null ? value : others + "," + value);
    }
}
