import com.google.gson.JsonObject;

/** The first line of the input, and the keys and values in memory. */
record Config(
        String client,
        String host,
        int port,
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

    private static String text(JsonObject line, String field) {
        return !line.has(field) || line.get(field).isJsonNull() ? null : line.get(field).getAsString();
    }
}
