// A driver of Node's Redis clients: see docs/driver-protocol.md. Clients: ioredis,
// ioredis.autopipelining, ioredis.recommended, node-redis, node-redis.recommended. Keys and values are strings, as users of these clients pass and read them.

import { createRequire } from "node:module";
import { PerformanceObserver } from "node:perf_hooks";
import readline from "node:readline";

const require = createRequire(import.meta.url);
const now = () => process.hrtime.bigint();

let gcNs = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) gcNs += entry.duration * 1e6;
}).observe({ entryTypes: ["gc"] });

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

const kindOf = (error) => {
  const word = String(error?.message ?? error).split(" ", 1)[0];
  return /^[A-Z]+$/.test(word) ? word : (error?.code ?? error?.name ?? "Error");
};

function record(slots, time, size) {
  const ns = Number(time);
  const bits = ns < 2048 ? 0 : Math.floor(Math.log2(ns)) - 10;
  const slot = bits * 1024 + Math.floor(ns / 2 ** bits);
  slots.set(slot, (slots.get(slot) ?? 0) + size);
}

/** Waits for the time of a call; returns how late that ended: 0 if it did not have to wait. */
async function wait(due) {
  if (due === true || now() >= due) return 0n;
  // The timer has steps of a millisecond; the remainder goes to other callers and sockets.
  const ms = Number(due - now()) / 1e6;
  if (ms > 2) await new Promise((resolve) => setTimeout(resolve, ms - 2));
  while (now() < due) await new Promise((resolve) => setImmediate(resolve));
  return now() - due;
}

/** One block of operations: which keys, when it ends, and what it has counted. */
class Block {
  constructor(config, duration, most, seed) {
    this.config = config;
    this.most = most;
    this.choice = seed >>> 0 || 1;
    this.slots = new Map();
    /** Times since calls began, and how late they began (open loop). */
    this.service = new Map();
    this.lag = new Map();
    this.errors = {};
    this.misses = 0;
    this.begun = 0;
    this.ops = 0;
    this.gcBefore = gcNs;
    this.cpu = process.cpuUsage();
    this.start = now();
    this.end = duration > 0n ? this.start + duration : null;
  }

  /** Whether another call of `size` operations begins; in an open loop, when it is due. */
  goesOn(size) {
    if (this.most > 0 && this.begun >= this.most) return false;
    const isTimed = this.end !== null && this.begun > 0;
    if (isTimed && now() >= this.end) return false;
    const rate = this.config.rate ?? 0;
    const due = rate > 0 ? this.start + BigInt(Math.floor((this.begun * 1e9) / rate)) : null;
    if (isTimed && due !== null && due >= this.end) return false;
    this.begun += size;
    return due ?? true;
  }

  /** xorshift32, the same in all drivers. */
  choose() {
    let state = this.choice;
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    this.choice = state >>> 0;
    return this.choice % this.config.keys;
  }

  /** Counts a call that has ended now. In an open loop its time is that since it was due. */
  done(due, begun, lag, size) {
    const end = now();
    if (due === true) record(this.slots, end - begun, size);
    else {
      record(this.slots, end - due, size);
      record(this.service, end - begun, size);
      record(this.lag, lag, size);
    }
    this.ops += size;
  }

  check(value) {
    if (this.config.operation !== "get") return;
    if (value === null) this.misses += 1;
    else if (value.length !== this.config.value_bytes) this.fail("WRONGVALUE", 1);
  }

  fail(error, count) {
    const kind = typeof error === "string" ? error : kindOf(error);
    this.errors[kind] = (this.errors[kind] ?? 0) + count;
  }

  result() {
    const elapsed = Number(now() - this.start);
    const cpu = process.cpuUsage(this.cpu);
    const pairs = (slots) => [...slots].sort((a, b) => a[0] - b[0]);
    const open = { service_histogram: pairs(this.service), lag_histogram: pairs(this.lag) };
    return {
      ops: this.ops,
      errors: this.errors,
      misses: this.misses,
      elapsed_ns: elapsed,
      user_cpu_ns: cpu.user * 1000,
      system_cpu_ns: cpu.system * 1000,
      max_rss_bytes: process.resourceUsage().maxRSS * 1024,
      gc_ns: Math.round(gcNs - this.gcBefore),
      histogram: pairs(this.slots),
      ...(this.config.rate > 0 ? open : {}),
    };
  }
}

/**
 * The settings in the examples of "Auto-reconnect" and "Reconnect on Error" in the README of ioredis, as far as they differ from
 * the defaults and are not for blocking commands: https://github.com/redis/ioredis#auto-reconnect
 */
const recommendedOfIoredis = {
  maxRetriesPerRequest: 1,
  reconnectOnError: (error) => error.message.includes("READONLY"),
};

class Ioredis {
  constructor(config) {
    const Redis = require("ioredis");
    const enableAutoPipelining = config.client === "ioredis.autopipelining";
    const isRecommended = config.client === "ioredis.recommended";
    const options = enableAutoPipelining ? ["autopipelining"] : isRecommended ? ["recommended"] : [];
    const settings = isRecommended ? recommendedOfIoredis : {};
    this.about = { client: "ioredis", version: require("ioredis/package.json").version, options };
    const login = { username: config.user ?? undefined, password: config.password ?? undefined };
    const here = { host: config.host, port: config.port };
    const { master, addresses } = config.sentinel ?? {};
    const place = config.sentinel ? { sentinels: addresses, name: master } : here;
    this.make = () => {
      const client = config.cluster
        ? new Redis.Cluster([here], { enableAutoPipelining, redisOptions: login })
        : new Redis({ ...place, ...login, ...settings, db: config.database, enableAutoPipelining });
      client.on("error", () => {});
      return client;
    };
  }

  async open() {
    this.client = await this.connect();
  }

  async connect() {
    const client = this.make();
    await client.ping();
    return client;
  }

  call(isGet, key, value) {
    return isGet ? this.client.get(key) : this.client.set(key, value);
  }

  async pipeline(block, isGet, keys, value) {
    const pipeline = this.client.pipeline();
    for (const key of keys) isGet ? pipeline.get(key) : pipeline.set(key, value);
    for (const [error, reply] of await pipeline.exec()) {
      error ? block.fail(error, 1) : block.check(reply);
    }
  }

  increment(key) {
    return this.client.incr(key);
  }

  isRefusal(error) {
    return error?.name === "ReplyError";
  }
}

/**
 * The settings in the examples of "Production usage" in the documentation of node-redis:
 * https://redis.io/docs/latest/develop/clients/nodejs/produsage/
 */
const recommendedOfNodeRedis = { socket: { connectTimeout: 10_000 }, disableOfflineQueue: true };

class NodeRedis {
  constructor(config) {
    this.redis = require("redis");
    const isRecommended = config.client === "node-redis.recommended";
    const options = isRecommended ? ["recommended"] : [];
    const settings = isRecommended ? recommendedOfNodeRedis : {};
    this.about = { client: "node-redis", version: require("redis/package.json").version, options };
    const common = {
      username: config.user ?? undefined,
      password: config.password ?? undefined,
      database: config.database,
      ...settings,
    };
    const here = { host: config.host, port: config.port, ...settings.socket };
    const { master, addresses } = config.sentinel ?? {};
    const { database, ...ofNode } = common;
    this.make = () => {
      const client = config.sentinel
        ? this.redis.createSentinel({
            name: master,
            sentinelRootNodes: addresses,
            nodeClientOptions: common,
            RESP: config.resp,
          })
        : config.cluster
          ? this.redis.createCluster({ rootNodes: [{ socket: here }], defaults: ofNode, RESP: config.resp })
          : this.redis.createClient({ ...common, RESP: config.resp, socket: here });
      client.on("error", () => {});
      return client;
    };
  }

  async open() {
    this.client = await this.connect();
  }

  async connect() {
    const client = this.make();
    await client.connect();
    // A cluster has no PING, and its connections have answered.
    await client.ping?.();
    return client;
  }

  call(isGet, key, value) {
    return isGet ? this.client.get(key) : this.client.set(key, value);
  }

  async pipeline(block, isGet, keys, value) {
    const calls = keys.map((key) => this.call(isGet, key, value));
    for (const done of await Promise.allSettled(calls)) {
      done.status === "rejected" ? block.fail(done.reason, 1) : block.check(done.value);
    }
  }

  increment(key) {
    return this.client.incr(key);
  }

  isRefusal(error) {
    return error instanceof this.redis.ErrorReply;
  }
}

async function task(client, config, keys, value, block) {
  const isGet = config.operation === "get";
  const depth = config.mode === "pipeline" ? config.depth : 1;
  for (let due = block.goesOn(depth); due !== false; due = block.goesOn(depth)) {
    const lag = await wait(due);
    const chosen = Array.from({ length: depth }, () => keys[block.choose()]);
    const begun = now();
    try {
      if (depth > 1) await client.pipeline(block, isGet, chosen, value);
      else block.check(await client.call(isGet, chosen[0], value));
    } catch (error) {
      block.fail(error, depth);
    }
    block.done(due, begun, lag, depth);
  }
}

/** INCR of a key of its own, one after the other, with a line for each. */
async function withFaults(client, config, block) {
  for (let sequence = 0; block.goesOn(1) !== false; sequence += 1) {
    const key = config.key_prefix + sequence;
    const begun = now();
    const op = { kind: "incr", key, sequence, outcome: "acknowledged" };
    try {
      await client.increment(key);
    } catch (error) {
      op.outcome = client.isRefusal(error) ? "failed" : "unknown";
      op.error = kindOf(error);
    }
    op.ns = Number(now() - begun);
    say({ op });
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

async function main() {
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const config = JSON.parse((await lines.next()).value);
  const clients = {
    ioredis: Ioredis,
    "ioredis.autopipelining": Ioredis,
    "ioredis.recommended": Ioredis,
    "node-redis": NodeRedis,
    "node-redis.recommended": NodeRedis,
  };
  if (!clients[config.client]) throw new Error(`unknown client \`${config.client}\``);
  const client = new clients[config.client](config);
  await client.open();
  const keys = Array.from({ length: config.keys }, (_, i) => config.key_prefix + String(i).padStart(8, "0"));
  const value = "x".repeat(config.value_bytes);
  say({ ready: { ...client.about, runtime: `Node ${process.versions.node}` } });
  const held = [];
  for await (const line of { [Symbol.asyncIterator]: () => lines }) {
    const [command, ...words] = line.split(" ");
    if (command === "open") {
      for (let i = 0; i < Number(words[0]); i += 1) held.push(await client.connect());
      say({ opened: Number(words[0]) });
      continue;
    }
    const block = new Block(config, BigInt(words[0]), Number(words[1]), Number(words[2]));
    if (config.mode === "faults") await withFaults(client, config, block);
    else {
      const tasks = Array.from({ length: config.concurrency }, () => task(client, config, keys, value, block));
      await Promise.all(tasks);
    }
    say({ result: block.result() });
  }
  process.exit(0);
}

main().catch((error) => {
  process.stderr.write(`${error?.message ?? error}\n`);
  process.exit(1);
});
