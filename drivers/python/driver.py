"""A driver of Python's Redis clients: see docs/driver-protocol.md.

Clients: redis-py, redis-py.hiredis, redis-py.recommended, redis-py.asyncio, redis-py.asyncio.hiredis, valkey-glide.
"""

import asyncio
import gc
import json
import os
import platform
import resource
import sys
import time

SLOT_BITS = 11


class Recorder:
    """Times of operations in the slots of the lab's histogram, and errors by kind."""

    def __init__(self):
        self.slots = {}
        self.errors = {}
        self.misses = 0
        # Times since calls began, and how late they began (open loop).
        self.service = {}
        self.lag = {}

    @staticmethod
    def add(slots, ns, count):
        shift = max(ns.bit_length() - SLOT_BITS, 0)
        slot = shift * 1024 + (ns >> shift)
        slots[slot] = slots.get(slot, 0) + count

    def fail(self, error, count):
        kind = kind_of(error)
        self.errors[kind] = self.errors.get(kind, 0) + count

    def check(self, replies, is_get, size):
        for reply in replies:
            if isinstance(reply, Exception):
                self.fail(reply, 1)
            elif is_get and reply is None:
                self.misses += 1
            elif is_get and len(reply) != size:
                self.fail("WRONGVALUE", 1)


def kind_of(error):
    if isinstance(error, str):
        return error
    words = str(error).split(" ", 1)
    return words[0] if words[0].isupper() else type(error).__name__


class Collections:
    """Time in the garbage collector."""

    def __init__(self):
        self.ns = 0
        self.begun = 0
        gc.callbacks.append(self.note)

    def note(self, phase, _):
        now = time.perf_counter_ns()
        if phase == "start":
            self.begun = now
        else:
            self.ns += now - self.begun


# Clients can log to standard output, also from native code: only the lines of the driver go there.
LINES = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(**line):
    LINES.write(json.dumps(line, separators=(",", ":")) + "\n")
    LINES.flush()


def keys_of(config):
    return [config["key_prefix"] + "%08d" % number for number in range(config["keys"])]


def choices(seed):
    """xorshift32, the same in all drivers."""
    state = seed & 0xFFFFFFFF or 1
    while True:
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        yield state


class Block:
    """One block of operations: its end, its times and its costs."""

    def __init__(self, config, words, collections):
        self.config = config
        duration, self.most, seed = (int(word) for word in words)
        self.recorder = Recorder()
        self.choice = choices(seed)
        self.collections = collections
        self.gc_before = collections.ns
        self.before = resource.getrusage(resource.RUSAGE_SELF)
        self.start = time.perf_counter_ns()
        self.end = self.start + duration if duration else None
        self.rate = config.get("rate", 0)
        self.begun = 0
        self.ops = 0

    def take(self, size):
        """The next call: when it is due, which is 0 in a closed loop. None at the end of the block."""
        if self.most and self.begun >= self.most:
            return None
        is_timed = self.end and self.begun
        if is_timed and time.perf_counter_ns() >= self.end:
            return None
        due = self.start + self.begun * 1_000_000_000 // self.rate if self.rate else 0
        if is_timed and due >= self.end:
            return None
        self.begun += size
        return due

    def calls(self, size):
        """Calls of `size` operations, each once it is due: its time, and how late its caller is who waited."""
        while (due := self.take(size)) is not None:
            wait = due - time.perf_counter_ns() if due else 0
            if wait > 0:
                time.sleep(wait / 1e9)
            yield due, max(time.perf_counter_ns() - due, 0) if wait > 0 else 0

    async def calls_of_task(self, size):
        while (due := self.take(size)) is not None:
            wait = due - time.perf_counter_ns() if due else 0
            if wait > 0:
                await asyncio.sleep(wait / 1e9)
            yield due, max(time.perf_counter_ns() - due, 0) if wait > 0 else 0

    def done(self, call, begun, replies, is_get):
        now = time.perf_counter_ns()
        due, lag = call
        recorder, count = self.recorder, len(replies)
        recorder.add(recorder.slots, now - (due or begun), count)
        if due:
            recorder.add(recorder.service, now - begun, count)
            recorder.add(recorder.lag, lag, count)
        recorder.check(replies, is_get, self.config["value_bytes"])
        self.ops += count

    def result(self):
        elapsed = time.perf_counter_ns() - self.start
        after = resource.getrusage(resource.RUSAGE_SELF)
        ns = lambda field: round(1e9 * (getattr(after, field) - getattr(self.before, field)))
        recorder = self.recorder
        open_loop = {
            "service_histogram": sorted(recorder.service.items()),
            "lag_histogram": sorted(recorder.lag.items()),
        }
        return {
            "ops": self.ops,
            "errors": self.recorder.errors,
            "misses": self.recorder.misses,
            "elapsed_ns": elapsed,
            "user_cpu_ns": ns("ru_utime"),
            "system_cpu_ns": ns("ru_stime"),
            "max_rss_bytes": after.ru_maxrss * 1024,
            "gc_ns": self.collections.ns - self.gc_before,
            "histogram": sorted(recorder.slots.items()),
            **(open_loop if self.rate else {}),
        }


def recommended(has_cluster):
    """The settings in the examples of "Production usage" in the documentation of redis-py.

    https://redis.io/docs/latest/develop/clients/redis-py/produsage/
    """
    from redis.backoff import ExponentialBackoff
    from redis.exceptions import BusyLoadingError
    from redis.retry import Retry

    settings = {
        "retry": Retry(ExponentialBackoff(), 8),
        "health_check_interval": 3,
        "socket_connect_timeout": 15,
        "socket_timeout": 5,
    }
    # The page says that the errors of a cluster cannot be chosen.
    return settings if has_cluster else {**settings, "retry_on_error": [BusyLoadingError]}


class Blocking:
    """redis-py's blocking client."""

    modes = ("sync", "pipeline", "faults")

    def __init__(self, config, has_hiredis, is_recommended=False):
        if not has_hiredis:
            sys.modules["hiredis"] = None
        import redis

        self.redis = redis
        self.config = config
        self.options = ["hiredis"] if has_hiredis else []
        common = {
            "username": config.get("user"),
            "password": config.get("password"),
            "protocol": config["resp"],
            "decode_responses": config["decode"] == "string",
        }
        if is_recommended:
            self.options.append("recommended")
            common.update(recommended(config.get("cluster")))
        here = {"host": config["host"], "port": config["port"]}
        sentinel = config.get("sentinel")
        if sentinel:
            from redis.sentinel import Sentinel

            known = [(one["host"], one["port"]) for one in sentinel["addresses"]]
            self.make = lambda: Sentinel(known).master_for(sentinel["master"], db=config["database"], **common)
        elif config.get("cluster"):
            # A cluster has one database.
            self.make = lambda: redis.RedisCluster(**here, **common)
        else:
            self.make = lambda: redis.Redis(db=config["database"], **here, **common)
        self.held = []

    def open(self):
        self.client = self.make()
        self.client.ping()
        self.keys = keys_of(self.config)
        self.value = b"x" * self.config["value_bytes"]
        return {"client": "redis-py", "version": self.redis.__version__}

    def connections(self, count):
        for _ in range(count):
            client = self.make()
            client.ping()
            self.held.append(client)

    def block(self, block):
        is_get = self.config["operation"] == "get"
        keys, value, count = self.keys, self.value, len(self.keys)
        client, choice = self.client, block.choice
        depth = self.config["depth"]
        if self.config["mode"] == "sync":
            for call in block.calls(1):
                key = keys[next(choice) % count]
                begun = time.perf_counter_ns()
                try:
                    reply = client.get(key) if is_get else client.set(key, value)
                except self.redis.RedisError as error:
                    reply = error
                block.done(call, begun, (reply,), is_get)
            return
        for call in block.calls(depth):
            chosen = [keys[next(choice) % count] for _ in range(depth)]
            begun = time.perf_counter_ns()
            pipeline = client.pipeline(transaction=False)
            for key in chosen:
                if is_get:
                    pipeline.get(key)
                else:
                    pipeline.set(key, value)
            try:
                replies = pipeline.execute(raise_on_error=False)
            except self.redis.RedisError as error:
                replies = [error] * depth
            block.done(call, begun, replies, is_get)

    def increment(self, key):
        return self.client.incr(key)

    def is_refusal(self, error):
        return isinstance(error, self.redis.ResponseError)


class Tasks:
    """redis-py's asyncio client, which is a pool: one connection for each task that waits."""

    modes = ("sync", "pipeline", "pool")

    def __init__(self, config, has_hiredis):
        if not has_hiredis:
            sys.modules["hiredis"] = None
        import redis
        import redis.asyncio

        self.redis = redis
        self.config = config
        self.options = ["asyncio"] + (["hiredis"] if has_hiredis else [])
        self.loop = asyncio.new_event_loop()

    def open(self):
        config = self.config
        self.client = self.redis.asyncio.Redis(
            host=config["host"],
            port=config["port"],
            db=config["database"],
            username=config.get("user"),
            password=config.get("password"),
            protocol=config["resp"],
            decode_responses=config["decode"] == "string",
        )
        self.loop.run_until_complete(self.client.ping())
        self.keys = keys_of(config)
        self.value = b"x" * config["value_bytes"]
        return {"client": "redis-py", "version": self.redis.__version__}

    def block(self, block):
        tasks = [self.task(block) for _ in range(self.config["concurrency"])]
        self.loop.run_until_complete(self.all(tasks))

    async def all(self, tasks):
        await asyncio.gather(*tasks)

    async def task(self, block):
        is_get = self.config["operation"] == "get"
        depth = self.config["depth"] if self.config["mode"] == "pipeline" else 1
        keys, value, count, choice = self.keys, self.value, len(self.keys), block.choice
        async for call in block.calls_of_task(depth):
            chosen = [keys[next(choice) % count] for _ in range(depth)]
            begun = time.perf_counter_ns()
            try:
                if depth == 1:
                    reply = self.client.get(chosen[0]) if is_get else self.client.set(chosen[0], value)
                    replies = [await reply]
                else:
                    pipeline = self.client.pipeline(transaction=False)
                    for key in chosen:
                        pipeline.get(key) if is_get else pipeline.set(key, value)
                    replies = await pipeline.execute(raise_on_error=False)
            except self.redis.RedisError as error:
                replies = [error] * depth
            block.done(call, begun, replies, is_get)


class Glide:
    """valkey-glide: tasks on one connection that a core in Rust multiplexes."""

    modes = ("sync", "pipeline", "multiplexed")

    def __init__(self, config):
        import glide

        self.glide = glide
        self.config = config
        self.options = []
        self.loop = asyncio.new_event_loop()

    def open(self):
        import importlib.metadata

        glide, config = self.glide, self.config
        login = None
        if config.get("password"):
            login = glide.ServerCredentials(config["password"], config.get("user"))
        protocol = glide.ProtocolVersion.RESP3 if config["resp"] == 3 else glide.ProtocolVersion.RESP2
        options = glide.GlideClientConfiguration(
            [glide.NodeAddress(config["host"], config["port"])],
            credentials=login,
            database_id=config["database"],
            protocol=protocol,
        )
        self.client = self.loop.run_until_complete(glide.GlideClient.create(options))
        self.keys = keys_of(config)
        self.value = b"x" * config["value_bytes"]
        return {"client": "valkey-glide", "version": importlib.metadata.version("valkey-glide")}

    def block(self, block):
        tasks = [self.task(block) for _ in range(self.config["concurrency"])]
        self.loop.run_until_complete(self.all(tasks))

    async def all(self, tasks):
        await asyncio.gather(*tasks)

    async def task(self, block):
        is_get = self.config["operation"] == "get"
        depth = self.config["depth"] if self.config["mode"] == "pipeline" else 1
        keys, value, count, choice = self.keys, self.value, len(self.keys), block.choice
        async for call in block.calls_of_task(depth):
            chosen = [keys[next(choice) % count] for _ in range(depth)]
            begun = time.perf_counter_ns()
            try:
                if depth == 1:
                    reply = self.client.get(chosen[0]) if is_get else self.client.set(chosen[0], value)
                    replies = [await reply]
                else:
                    batch = self.glide.Batch(is_atomic=False)
                    for key in chosen:
                        batch.get(key) if is_get else batch.set(key, value)
                    replies = await self.client.exec(batch, raise_on_error=False)
            except self.glide.GlideError as error:
                replies = [error] * depth
            block.done(call, begun, replies, is_get)


def client_of(config):
    name = config["client"]
    has_hiredis = name.endswith(".hiredis")
    if name in ("redis-py", "redis-py.hiredis"):
        return Blocking(config, has_hiredis)
    if name == "redis-py.recommended":
        return Blocking(config, False, is_recommended=True)
    if name in ("redis-py.asyncio", "redis-py.asyncio.hiredis"):
        return Tasks(config, has_hiredis)
    if name == "valkey-glide":
        return Glide(config)
    raise SystemExit("unknown client `%s`" % name)


def with_faults(client, config, words):
    """INCR of a key of its own, one after the other, with a line for each."""
    duration, most, _ = (int(word) for word in words)
    start = time.perf_counter()
    number = 0
    while number < most and (not duration or time.perf_counter() - start < duration / 1e9):
        key = config["key_prefix"] + str(number)
        begun = time.perf_counter_ns()
        line = {"kind": "incr", "key": key, "sequence": number, "outcome": "acknowledged"}
        try:
            client.increment(key)
        except Exception as error:
            line["outcome"] = "failed" if client.is_refusal(error) else "unknown"
            line["error"] = kind_of(error)
        line["ns"] = time.perf_counter_ns() - begun
        say(op=line)
        number += 1
        time.sleep(0.005)


def main():
    config = json.loads(sys.stdin.readline())
    client = client_of(config)
    if config["mode"] not in client.modes:
        raise SystemExit("%s has no mode `%s`" % (config["client"], config["mode"]))
    about = client.open()
    about["runtime"] = "%s %s" % (platform.python_implementation(), platform.python_version())
    about["options"] = client.options
    collections = Collections()
    say(ready=about)
    for line in sys.stdin:
        command, *words = line.split()
        if command == "open":
            if not hasattr(client, "connections"):
                raise SystemExit("%s does not open further connections" % config["client"])
            client.connections(int(words[0]))
            say(opened=int(words[0]))
            continue
        block = Block(config, words, collections)
        if config["mode"] == "faults":
            with_faults(client, config, words)
        else:
            client.block(block)
        say(result=block.result())
    # Pending tasks of a client's own have no part in the result.
    os._exit(0)


main()
