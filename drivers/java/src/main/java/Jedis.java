import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.JedisSentineled;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;

/** Jedis: a pool, of which one connection is in use. Keys and values are strings. */
final class Jedis implements Client {
    private final Config config;
    private final UnifiedJedis jedis;
    private final List<UnifiedJedis> held = new ArrayList<>();

    Jedis(Config config) {
        this.config = config;
        jedis = connect();
    }

    private UnifiedJedis connect() {
        DefaultJedisClientConfig.Builder builder = DefaultJedisClientConfig.builder()
                .user(config.user())
                .password(config.password())
                .database(config.database())
                .protocol(config.resp() == 3 ? RedisProtocol.RESP3 : RedisProtocol.RESP2);
        ConnectionPoolConfig pool = new ConnectionPoolConfig();
        if (config.isRecommended()) {
            recommend(builder, pool);
        }
        UnifiedJedis connected = connect(builder.build(), pool);
        connected.ping();
        return connected;
    }

    private UnifiedJedis connect(JedisClientConfig settings, ConnectionPoolConfig pool) {
        HostAndPort server = new HostAndPort(config.host(), config.port());
        if (config.isCluster()) {
            return new JedisCluster(Set.of(server), settings, pool);
        }
        if (config.sentinels() == null) {
            return new JedisPooled(server, settings, pool);
        }
        Set<HostAndPort> sentinels = config.sentinels().places().stream()
                .map(place -> new HostAndPort(place.host(), place.port()))
                .collect(Collectors.toSet());
        JedisClientConfig ofSentinels = DefaultJedisClientConfig.builder().build();
        return new JedisSentineled(config.sentinels().master(), settings, pool, sentinels, ofSentinels);
    }

    /**
     * Sets what the examples of "Production usage" and of "Connect with a connection pool" in the documentation of Jedis set:
     * https://redis.io/docs/latest/develop/clients/jedis/produsage/ and
     * https://redis.io/docs/latest/develop/clients/jedis/connect/
     */
    private static void recommend(DefaultJedisClientConfig.Builder builder, ConnectionPoolConfig pool) {
        builder.socketTimeoutMillis(5000).connectionTimeoutMillis(5000);
        pool.setMaxTotal(8);
        pool.setMaxIdle(8);
        pool.setMinIdle(0);
        pool.setBlockWhenExhausted(true);
        pool.setMaxWait(Duration.ofSeconds(1));
        pool.setTestWhileIdle(true);
        pool.setTimeBetweenEvictionRuns(Duration.ofSeconds(1));
    }

    @Override
    public String version() {
        return Driver.versionOf("redis.clients", "jedis");
    }

    @Override
    public void oneByOne(Block block) {
        for (Block.Call call = block.next(1); call != null; call = block.next(1)) {
            String key = config.keys()[block.choose()];
            call.begin();
            try {
                if (config.isGet()) {
                    block.check(jedis.get(key));
                } else {
                    jedis.set(key, config.value());
                }
            } catch (JedisException error) {
                block.fail(error, 1);
            }
            block.done(call);
        }
    }

    @Override
    public void inPipelines(Block block, int depth) {
        for (Block.Call call = block.next(depth); call != null; call = block.next(depth)) {
            String[] chosen = new String[depth];
            for (int i = 0; i < depth; i++) {
                chosen[i] = config.keys()[block.choose()];
            }
            call.begin();
            List<Response<?>> replies = new ArrayList<>(depth);
            try (AbstractPipeline pipeline = jedis.pipelined()) {
                for (String key : chosen) {
                    replies.add(config.isGet() ? pipeline.get(key) : pipeline.set(key, config.value()));
                }
                pipeline.sync();
                replies.forEach(reply -> note(block, reply));
            } catch (JedisException error) {
                block.fail(error, depth);
            }
            block.done(call);
        }
    }

    private void note(Block block, Response<?> reply) {
        try {
            Object value = reply.get();
            if (config.isGet()) {
                block.check((String) value);
            }
        } catch (JedisDataException error) {
            block.fail(error, 1);
        }
    }

    @Override
    public void increment(String key) {
        jedis.incr(key);
    }

    @Override
    public boolean isRefusal(RuntimeException error) {
        return error instanceof JedisDataException;
    }

    @Override
    public void connectAnother() {
        held.add(connect());
    }
}
