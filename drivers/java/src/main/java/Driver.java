import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.util.Properties;

/** A driver of Java's Redis clients, jedis and lettuce: see docs/driver-protocol.md. */
public final class Driver {
    static final Gson GSON = new Gson();

    private Driver() {}

    public static void main(String[] arguments) {
        int code = 0;
        try {
            serve();
        } catch (Throwable error) {
            System.err.println(error);
            code = 1;
        }
        // Threads of the clients keep the process alive otherwise.
        System.exit(code);
    }

    /** Answers the lines of the input until it ends. */
    private static void serve() throws IOException, InterruptedException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Config config = Config.read(JsonParser.parseString(lines.readLine()).getAsJsonObject());
        String name = config.client().replace(".recommended", "");
        Client client = switch (name) {
            case "jedis" -> new Jedis(config);
            case "lettuce" -> new Lettuce(config);
            default -> throw new IllegalArgumentException("unknown client `" + config.client() + "`");
        };
        JsonObject ready = new JsonObject();
        ready.addProperty("client", name);
        ready.addProperty("version", client.version());
        ready.addProperty("runtime", "Java " + System.getProperty("java.version"));
        JsonArray options = new JsonArray();
        if (config.isRecommended()) {
            options.add("recommended");
        }
        ready.add("options", options);
        say("ready", ready);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("open")) {
                int count = Integer.parseInt(words[1]);
                for (int i = 0; i < count; i++) {
                    client.connectAnother();
                }
                say("opened", count);
                continue;
            }
            Block block = new Block(config.value().length(), config.keys().length, config.rate(), words);
            switch (config.mode()) {
                case "sync" -> client.oneByOne(block);
                case "pipeline" -> client.inPipelines(block, config.depth());
                case "multiplexed" -> client.multiplexed(block, config.concurrency());
                case "faults" -> withFaults(client, config, block);
                default -> throw new IllegalArgumentException("unknown mode `" + config.mode() + "`");
            }
            say("result", block.result());
        }
    }

    /** INCR of a key of its own, one after the other, with a line for each. */
    private static void withFaults(Client client, Config config, Block block) throws InterruptedException {
        for (long sequence = 0; block.next(1) != null; sequence++) {
            JsonObject operation = new JsonObject();
            operation.addProperty("kind", "incr");
            operation.addProperty("key", config.prefix() + sequence);
            operation.addProperty("sequence", sequence);
            String outcome = "acknowledged";
            long begun = System.nanoTime();
            try {
                client.increment(config.prefix() + sequence);
            } catch (RuntimeException error) {
                outcome = client.isRefusal(error) ? "failed" : "unknown";
                operation.addProperty("error", Block.kindOf(error));
            } catch (StackOverflowError | OutOfMemoryError error) {
                // It reaches the caller of the client, like any other error.
                outcome = "unknown";
                operation.addProperty("error", error.getClass().getSimpleName());
            }
            operation.addProperty("ns", System.nanoTime() - begun);
            operation.addProperty("outcome", outcome);
            say("op", operation);
            Thread.sleep(5);
        }
    }

    /** The version of a client, from the properties that Maven puts into its jar. */
    static String versionOf(String group, String artifact) {
        String path = "/META-INF/maven/" + group + "/" + artifact + "/pom.properties";
        try (InputStream stream = Driver.class.getResourceAsStream(path)) {
            Properties properties = new Properties();
            properties.load(stream);
            return properties.getProperty("version");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static void say(String name, Object what) {
        JsonObject line = new JsonObject();
        line.add(name, GSON.toJsonTree(what));
        System.out.println(line);
        System.out.flush();
    }
}
