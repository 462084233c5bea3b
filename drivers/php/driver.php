<?php

declare(strict_types=1);

// A driver of PHP's Redis clients: see docs/driver-protocol.md. Clients: phpredis, predis.

const SLOT_BITS = 11;
const PAUSE_US = 5000;

function say(array $line): void
{
    fwrite(STDOUT, json_encode($line, JSON_THROW_ON_ERROR) . "\n");
}

/** The first word of an error reply; null for any other text. */
function codeOf(?string $text): ?string
{
    $word = explode(' ', (string) $text, 2)[0];
    return preg_match('/^[A-Z]+$/', $word) === 1 ? $word : null;
}

function kindOf(Throwable $error): string
{
    return codeOf($error->getMessage()) ?? (new ReflectionClass($error))->getShortName();
}

/** User and system time of this process in nanoseconds. */
function cpuTimes(): array
{
    $usage = getrusage();
    $time = fn (string $name): int => $usage["$name.tv_sec"] * 1_000_000_000 + $usage["$name.tv_usec"] * 1000;
    return [$time('ru_utime'), $time('ru_stime')];
}

function maxRss(): int
{
    preg_match('/^VmHWM:\s+(\d+)/m', file_get_contents('/proc/self/status'), $found);
    return (int) $found[1] * 1024;
}

/** One block of operations: its end, its times and its costs. */
final class Block
{
    private array $slots = [];
    /** Times since calls began, and how late they began (open loop). */
    private array $service = [];
    private array $lag = [];
    private int $rate;
    private ?int $due = null;
    private int $late = 0;
    private array $errors = [];
    private int $misses = 0;
    private int $ops = 0;
    private int $begun = 0;
    private int $state;
    private array $cpu;
    private int $start;
    private ?int $end;

    public function __construct(private array $config, int $duration, private int $most, int $seed)
    {
        $this->rate = $config['rate'] ?? 0;
        $this->state = max($seed & 0xFFFFFFFF, 1);
        $this->cpu = cpuTimes();
        $this->start = hrtime(true);
        $this->end = $duration > 0 ? $this->start + $duration : null;
    }

    /** Whether another call of `$size` operations begins, which an open loop waits for. */
    public function goesOn(int $size): bool
    {
        if ($this->most > 0 && $this->begun >= $this->most) {
            return false;
        }
        $isTimed = $this->end !== null && $this->begun > 0;
        if ($isTimed && hrtime(true) >= $this->end) {
            return false;
        }
        if ($this->rate > 0) {
            $this->due = $this->start + (int) ($this->begun * 1e9 / $this->rate);
            if ($isTimed && $this->due >= $this->end) {
                return false;
            }
            $this->late = $this->wait();
        }
        $this->begun += $size;
        return true;
    }

    /** Waits for the time of the next call; returns how late that ended: 0 if it did not have to wait. */
    private function wait(): int
    {
        $left = $this->due - hrtime(true);
        if ($left <= 0) {
            return 0;
        }
        time_nanosleep(intdiv($left, 1_000_000_000), $left % 1_000_000_000);
        return max(hrtime(true) - $this->due, 0);
    }

    /** The number of the next key: xorshift32, the same in all drivers. */
    public function choose(): int
    {
        $state = $this->state;
        $state ^= $state << 13 & 0xFFFFFFFF;
        $state ^= $state >> 17;
        $state ^= $state << 5 & 0xFFFFFFFF;
        $this->state = $state;
        return $state % $this->config['keys'];
    }

    /**
     * Counts a call of `$size` operations that began at `$begun` and has ended now. In an open loop its time is that since
     * it was due.
     */
    public function done(int $begun, int $size): void
    {
        $now = hrtime(true);
        self::record($this->slots, $now - ($this->due ?? $begun), $size);
        if ($this->due !== null) {
            self::record($this->service, $now - $begun, $size);
            self::record($this->lag, $this->late, $size);
        }
        $this->ops += $size;
    }

    private static function record(array &$slots, int $ns, int $size): void
    {
        $shift = 0;
        while ($ns >> $shift >= 1 << SLOT_BITS) {
            $shift++;
        }
        $slot = $shift * 1024 + ($ns >> $shift);
        $slots[$slot] = ($slots[$slot] ?? 0) + $size;
    }

    /** The slots with their counts. */
    private static function pairs(array $slots): array
    {
        ksort($slots);
        return array_map(null, array_keys($slots), array_values($slots));
    }

    /** Looks at what a read returned. */
    public function check(?string $value): void
    {
        if ($value === null) {
            $this->misses++;
        } elseif (strlen($value) !== $this->config['value_bytes']) {
            $this->fail('WRONGVALUE', 1);
        }
    }

    public function fail(string $kind, int $size): void
    {
        $this->errors[$kind] = ($this->errors[$kind] ?? 0) + $size;
    }

    public function result(): array
    {
        $elapsed = hrtime(true) - $this->start;
        $cpu = cpuTimes();
        $open = [
            'service_histogram' => self::pairs($this->service),
            'lag_histogram' => self::pairs($this->lag),
        ];
        return [
            'ops' => $this->ops,
            'errors' => (object) $this->errors,
            'misses' => $this->misses,
            'elapsed_ns' => $elapsed,
            'user_cpu_ns' => $cpu[0] - $this->cpu[0],
            'system_cpu_ns' => $cpu[1] - $this->cpu[1],
            'max_rss_bytes' => maxRss(),
            'histogram' => self::pairs($this->slots),
        ] + ($this->rate > 0 ? $open : []);
    }
}

/** A client at work. A call that fails throws; a read without a value is null. */
interface Client
{
    public function about(): array;
    public function get(string $key): ?string;
    public function set(string $key, string $value): void;
    public function pipeline(Block $block, bool $isGet, array $keys, string $value): void;
    public function increment(string $key): void;
    public function isRefusal(Throwable $error): bool;
    public function connectAnother(): void;
}

/** phpredis, an extension written in C. Its reads are false for a missing value and for most error replies. */
final class PhpRedis implements Client
{
    private Redis|RedisCluster $redis;
    private bool $isLost = false;
    private array $held = [];

    public function __construct(private array $config)
    {
        $this->redis = $this->connect();
    }

    private function connect(): Redis|RedisCluster
    {
        if ($this->config['cluster'] ?? false) {
            return $this->cluster();
        }
        $redis = new Redis();
        $redis->connect(...$this->server());
        if ($this->config['password'] !== null) {
            $user = $this->config['user'];
            $redis->auth($user === null ? $this->config['password'] : [$user, $this->config['password']]);
        }
        if ($this->config['database'] !== 0) {
            $redis->select($this->config['database']);
        }
        $redis->ping();
        return $redis;
    }

    /** The cluster of the server, with the defaults of phpredis for its times. */
    private function cluster(): RedisCluster
    {
        $seeds = ["{$this->config['host']}:{$this->config['port']}"];
        return new RedisCluster(null, $seeds, 0, 0, false, $this->config['password']);
    }

    /** The host and the port of the server: those that the first sentinel that answers names, if there are any. */
    private function server(): array
    {
        foreach ($this->config['sentinel']['addresses'] ?? [] as $one) {
            try {
                $sentinel = version_compare(phpversion('redis'), '6.0', '<')
                    ? new RedisSentinel($one['host'], $one['port'])
                    : new RedisSentinel($one);
                $named = $sentinel->getMasterAddrByName($this->config['sentinel']['master']);
            } catch (RedisException) {
                continue;
            }
            if ($named) {
                return [$named[0], (int) $named[1]];
            }
        }
        return [$this->config['host'], $this->config['port']];
    }

    public function about(): array
    {
        return ['client' => 'phpredis', 'version' => phpversion('redis')];
    }

    /** What an error reply without an exception left behind. */
    private function refuse(): void
    {
        $error = $this->redis->getLastError();
        if ($error !== null) {
            $this->redis->clearLastError();
            throw new RedisException($error);
        }
    }

    public function get(string $key): ?string
    {
        $value = $this->redis->get($key);
        if ($value === false) {
            $this->refuse();
            return null;
        }
        return $value;
    }

    public function set(string $key, string $value): void
    {
        if ($this->redis->set($key, $value) === false) {
            $this->refuse();
        }
    }

    /** Keeps the last error reply of a pipeline only, so a pipeline with one has no misses. */
    public function pipeline(Block $block, bool $isGet, array $keys, string $value): void
    {
        $pipeline = $this->redis->pipeline();
        foreach ($keys as $key) {
            $isGet ? $pipeline->get($key) : $pipeline->set($key, $value);
        }
        $replies = $pipeline->exec();
        $error = $this->redis->getLastError();
        $this->redis->clearLastError();
        foreach ($replies as $reply) {
            if ($reply === false && $error !== null) {
                $block->fail(codeOf($error) ?? 'ERR', 1);
            } elseif ($isGet) {
                $block->check($reply === false ? null : $reply);
            }
        }
    }

    public function increment(string $key): void
    {
        // It leaves it to its user to ask the sentinels again.
        if ($this->isLost) {
            $this->redis = $this->connect();
            $this->isLost = false;
        }
        try {
            if ($this->redis->incr($key) === false) {
                $this->refuse();
                throw new RedisException('no reply');
            }
        } catch (RedisException | RedisClusterException $error) {
            $this->isLost = ($this->config['sentinel'] ?? null) !== null;
            throw $error;
        }
    }

    public function isRefusal(Throwable $error): bool
    {
        return codeOf($error->getMessage()) !== null;
    }

    public function connectAnother(): void
    {
        $this->held[] = $this->connect();
    }
}

/** Predis, written in PHP. */
final class Predis implements Client
{
    private Predis\Client $client;
    private array $held = [];

    public function __construct(private array $config)
    {
        require 'Predis/autoload.php';
        $this->client = $this->connect();
    }

    private function connect(): Predis\Client
    {
        if ($this->config['user'] !== null) {
            throw new InvalidArgumentException('this version logs in without a user');
        }
        $login = array_filter([
            'database' => $this->config['database'],
            'password' => $this->config['password'],
        ], fn (mixed $value): bool => $value !== null);
        $here = ['host' => $this->config['host'], 'port' => $this->config['port']];
        $sentinel = $this->config['sentinel'] ?? null;
        if ($this->config['cluster'] ?? false) {
            // It connects with the first call, since a cluster has no PING.
            return new Predis\Client([$here], ['cluster' => 'redis', 'parameters' => $login]);
        }
        $client = $sentinel === null
            ? new Predis\Client($here + $login)
            : new Predis\Client($sentinel['addresses'], [
                'replication' => 'sentinel',
                'service' => $sentinel['master'],
                'parameters' => $login,
            ]);
        $client->ping();
        return $client;
    }

    public function about(): array
    {
        return ['client' => 'predis', 'version' => Predis\Client::VERSION];
    }

    public function get(string $key): ?string
    {
        return $this->client->get($key);
    }

    public function set(string $key, string $value): void
    {
        $this->client->set($key, $value);
    }

    /** A pipeline throws its first error, and returns no reply then. */
    public function pipeline(Block $block, bool $isGet, array $keys, string $value): void
    {
        $replies = $this->client->pipeline(function ($pipeline) use ($isGet, $keys, $value): void {
            foreach ($keys as $key) {
                $isGet ? $pipeline->get($key) : $pipeline->set($key, $value);
            }
        });
        if ($isGet) {
            foreach ($replies as $reply) {
                $block->check($reply);
            }
        }
    }

    public function increment(string $key): void
    {
        $this->client->incr($key);
    }

    public function isRefusal(Throwable $error): bool
    {
        return $error instanceof Predis\Response\ServerException;
    }

    public function connectAnother(): void
    {
        $this->held[] = $this->connect();
    }
}

function run(Client $client, array $config, Block $block, array $keys, string $value): void
{
    $isGet = $config['operation'] === 'get';
    $depth = $config['mode'] === 'pipeline' ? $config['depth'] : 1;
    while ($block->goesOn($depth)) {
        $chosen = [];
        for ($i = 0; $i < $depth; $i++) {
            $chosen[] = $keys[$block->choose()];
        }
        $begun = hrtime(true);
        try {
            if ($depth > 1) {
                $client->pipeline($block, $isGet, $chosen, $value);
            } elseif ($isGet) {
                $block->check($client->get($chosen[0]));
            } else {
                $client->set($chosen[0], $value);
            }
        } catch (RedisException | Predis\PredisException $error) {
            $block->fail(kindOf($error), $depth);
        }
        $block->done($begun, $depth);
    }
}

/** INCR of a key of its own, one after the other, with a line for each. */
function withFaults(Client $client, array $config, Block $block): void
{
    for ($sequence = 0; $block->goesOn(1); $sequence++) {
        $op = ['kind' => 'incr', 'key' => $config['key_prefix'] . $sequence, 'sequence' => $sequence];
        $begun = hrtime(true);
        try {
            $client->increment($op['key']);
            $op['outcome'] = 'acknowledged';
        } catch (Throwable $error) {
            $op['outcome'] = $client->isRefusal($error) ? 'failed' : 'unknown';
            $op['error'] = kindOf($error);
        }
        $op['ns'] = hrtime(true) - $begun;
        say(['op' => $op]);
        usleep(PAUSE_US);
    }
}

function main(): void
{
    ini_set('memory_limit', '-1');
    $config = json_decode(fgets(STDIN), true, flags: JSON_THROW_ON_ERROR);
    $client = match ($config['client']) {
        'phpredis' => new PhpRedis($config),
        'predis' => new Predis($config),
        default => throw new InvalidArgumentException("unknown client `{$config['client']}`"),
    };
    $keys = [];
    for ($number = 0; $number < $config['keys']; $number++) {
        $keys[] = sprintf('%s%08d', $config['key_prefix'], $number);
    }
    $value = str_repeat('x', $config['value_bytes']);
    say(['ready' => $client->about() + ['runtime' => 'PHP ' . PHP_VERSION, 'options' => []]]);
    while (($line = fgets(STDIN)) !== false) {
        $words = explode(' ', trim($line));
        if ($words[0] === 'open') {
            for ($i = 0; $i < (int) $words[1]; $i++) {
                $client->connectAnother();
            }
            say(['opened' => (int) $words[1]]);
            continue;
        }
        $block = new Block($config, (int) $words[1], (int) $words[2], (int) $words[3]);
        if ($config['mode'] === 'faults') {
            withFaults($client, $config, $block);
        } else {
            run($client, $config, $block, $keys, $value);
        }
        say(['result' => $block->result()]);
    }
}

try {
    main();
} catch (Throwable $error) {
    fwrite(STDERR, $error->getMessage() . "\n");
    exit(1);
}
