import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SocketOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisStringCommands;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.protocol.CommandType;
import io.lettuce.core.protocol.ProtocolVersion;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** Lettuce: calls that share a connection, of which a thread of netty reads and writes. Keys and values are strings, as by default. */
final class Lettuce implements Client {
    private final Config config;
    private RedisClient client;
    /** Null for a cluster, which has only runs with faults. */
    private StatefulRedisConnection<String, String> connection;
    private final RedisStringCommands<String, String> commands;
    /** Begins calls of an open loop that are not due yet. */
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    private final List<StatefulRedisConnection<String, String>> held = new ArrayList<>();

    Lettuce(Config config) {
        this.config = config;
        RedisURI.Builder uri = RedisURI.builder().withDatabase(config.database());
        if (config.sentinels() == null) {
            uri.withHost(config.host()).withPort(config.port());
        } else {
            uri.withSentinelMasterId(config.sentinels().master());
            config.sentinels().places().forEach(place -> uri.withSentinel(place.host(), place.port()));
        }
        if (config.password() != null && config.user() != null) {
            uri.withAuthentication(config.user(), config.password().toCharArray());
        } else if (config.password() != null) {
            uri.withPassword(config.password().toCharArray());
        }
        ClientOptions.Builder options = config.isCluster() ? ClusterClientOptions.builder() : ClientOptions.builder();
        options.protocolVersion(config.resp() == 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2);
        if (config.isRecommended()) {
            recommend(uri, options);
        }
        if (options instanceof ClusterClientOptions.Builder ofCluster) {
            RedisClusterClient cluster = RedisClusterClient.create(uri.build());
            cluster.setOptions(ofCluster.build());
            commands = cluster.connect().sync();
        } else {
            client = RedisClient.create(uri.build());
            client.setOptions(options.build());
            connection = connect();
            commands = connection.sync();
        }
    }

    /**
     * Sets what the examples of "Production usage" in the documentation of Lettuce set, without TCP_USER_TIMEOUT, which needs another
     * transport: https://redis.io/docs/latest/develop/clients/lettuce/produsage/ The example of a filter has DECR.
     */
    private static void recommend(RedisURI.Builder uri, ClientOptions.Builder options) {
        uri.withTimeout(Duration.ofSeconds(30));
        SocketOptions.KeepAliveOptions keepAlive = SocketOptions.KeepAliveOptions.builder()
                .interval(Duration.ofSeconds(5))
                .idle(Duration.ofSeconds(5))
                .count(3)
                .enable()
                .build();
        options.socketOptions(SocketOptions.builder().keepAlive(keepAlive).build());
        options.replayFilter(command -> command.getType() == CommandType.INCR);
        if (options instanceof ClusterClientOptions.Builder ofCluster) {
            ofCluster.topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                    .enableAllAdaptiveRefreshTriggers()
                    .adaptiveRefreshTriggersTimeout(Duration.ofSeconds(30))
                    .build());
        }
    }

    private StatefulRedisConnection<String, String> connect() {
        return client.connect();
    }

    @Override
    public String version() {
        return Driver.versionOf("io.lettuce", "lettuce-core").replace(".RELEASE", "");
    }

    @Override
    public void oneByOne(Block block) {
        var commands = connection.sync();
        for (Block.Call call = block.next(1); call != null; call = block.next(1)) {
            String key = config.keys()[block.choose()];
            call.begin();
            try {
                if (config.isGet()) {
                    block.check(commands.get(key));
                } else {
                    commands.set(key, config.value());
                }
            } catch (RedisException error) {
                block.fail(error, 1);
            }
            block.done(call);
        }
    }

    @Override
    public void inPipelines(Block block, int depth) {
        var commands = connection.async();
        connection.setAutoFlushCommands(false);
        for (Block.Call call = block.next(depth); call != null; call = block.next(depth)) {
            String[] chosen = new String[depth];
            for (int i = 0; i < depth; i++) {
                chosen[i] = config.keys()[block.choose()];
            }
            call.begin();
            List<RedisFuture<?>> replies = new ArrayList<>(depth);
            for (String key : chosen) {
                replies.add(call(commands, key));
            }
            connection.flushCommands();
            for (RedisFuture<?> reply : replies) {
                try {
                    note(block, reply.get());
                } catch (ExecutionException error) {
                    block.fail(error.getCause(), 1);
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            }
            block.done(call);
        }
        connection.setAutoFlushCommands(true);
    }

    @Override
    public void multiplexed(Block block, int callers) throws InterruptedException {
        CountDownLatch running = new CountDownLatch(callers);
        for (int i = 0; i < callers; i++) {
            next(block, connection.async(), running);
        }
        running.await();
    }

    /** One caller: the end of a call begins the next, once it is due. */
    private void next(Block block, RedisAsyncCommands<String, String> commands, CountDownLatch running) {
        Block.Call call = block.take(1);
        if (call == null) {
            running.countDown();
            return;
        }
        long wait = call.untilDue();
        if (wait == 0) {
            begin(block, call, commands, running);
        } else {
            Runnable due = () -> begin(block, call.waited(), commands, running);
            timer.schedule(due, wait, TimeUnit.NANOSECONDS);
        }
    }

    private void begin(
            Block block, Block.Call call, RedisAsyncCommands<String, String> commands, CountDownLatch running) {
        String key = config.keys()[block.choose()];
        call.begin();
        call(commands, key).whenComplete((value, error) -> {
            if (error == null) {
                note(block, value);
            } else {
                block.fail(error, 1);
            }
            block.done(call);
            next(block, commands, running);
        });
    }

    private RedisFuture<?> call(RedisAsyncCommands<String, String> commands, String key) {
        return config.isGet() ? commands.get(key) : commands.set(key, config.value());
    }

    private void note(Block block, Object value) {
        if (config.isGet()) {
            block.check((String) value);
        }
    }

    @Override
    public void increment(String key) {
        commands.incr(key);
    }

    @Override
    public boolean isRefusal(RuntimeException error) {
        return error instanceof RedisCommandExecutionException;
    }

    @Override
    public void connectAnother() {
        held.add(connect());
    }
}
