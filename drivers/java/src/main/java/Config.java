import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;

/** The first line of the input, and the keys and values in memory. */
record Config(
        String client,
        String host,
        int port,
        boolean isCluster,
        Sentinels sentinels,
        String user,
        String password,
        int database,
        int resp,
        String mode,
        int depth,
        int concurrency,
        long rate,
        boolean isGet,
        String prefix,
        String[] keys,
        String value) {
    /** The name of the server, and the sentinels that know it. */
    record Sentinels(String master, List<Place> places) {}

    record Place(String host, int port) {}

    /** Whether the client has the settings that its documentation recommends, and not its defaults. */
    boolean isRecommended() {
        return client.endsWith(".recommended");
    }

    static Config read(JsonObject line) {
        String prefix = line.get("key_prefix").getAsString();
        String[] keys = new String[line.get("keys").getAsInt()];
        for (int number = 0; number < keys.length; number++) {
            keys[number] = prefix + String.format("%08d", number);
        }
        return new Config(
                line.get("client").getAsString(),
                line.get("host").getAsString(),
                line.get("port").getAsInt(),
                line.has("cluster") && line.get("cluster").getAsBoolean(),
                sentinels(line),
                text(line, "user"),
                text(line, "password"),
                line.get("database").getAsInt(),
                line.get("resp").getAsInt(),
                line.get("mode").getAsString(),
                line.get("depth").getAsInt(),
                line.get("concurrency").getAsInt(),
                line.get("rate").getAsLong(),
                line.get("operation").getAsString().equals("get"),
                prefix,
                keys,
                "x".repeat(line.get("value_bytes").getAsInt()));
    }

    /** Null without sentinels. */
    private static Sentinels sentinels(JsonObject line) {
        if (!line.has("sentinel") || line.get("sentinel").isJsonNull()) {
            return null;
        }
        JsonObject sentinel = line.getAsJsonObject("sentinel");
        List<Place> places = new ArrayList<>();
        for (JsonElement one : sentinel.getAsJsonArray("addresses")) {
            JsonObject place = one.getAsJsonObject();
            places.add(new Place(place.get("host").getAsString(), place.get("port").getAsInt()));
        }
        return new Sentinels(sentinel.get("master").getAsString(), places);
    }

    private static String text(JsonObject line, String field) {
        return !line.has(field) || line.get(field).isJsonNull() ? null : line.get(field).getAsString();
    }
}
