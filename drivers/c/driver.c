/* A driver of hiredis: see docs/driver-protocol.md. */

#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <time.h>

enum { LINE_BYTES = 1 << 16, KEY_BYTES = 512, SLOTS = 2048 + 31 * 1024, KINDS = 16, KIND_BYTES = 32 };

static struct {
    char host[256], user[256], password[1024], mode[32], operation[16], prefix[256];
    long port, database, resp, depth, keys, value_bytes, rate;
} config;

static redisContext *context;
static char **keys;
static size_t key_bytes;
static char *value;

/* What a block has counted. */
static uint64_t slots[SLOTS];
/* In an open loop, slots count from when calls were due, and these count from when they began, and how late that was. */
static uint64_t service[SLOTS], lag[SLOTS];
static struct {
    char kind[KIND_BYTES];
    uint64_t count;
} errors[KINDS];
static uint64_t ops, misses;

static void die(const char *what, const char *why) {
    fprintf(stderr, "hiredis: %s: %s\n", what, why);
    exit(1);
}

/* The value of a key in the one flat JSON object that the driver reads. Its strings have no other escapes than \" and \\. */
static bool field(const char *line, const char *name, char *out, size_t size) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *at = strstr(line, quoted);
    if (at == NULL)
        return false;
    at += strlen(quoted);
    at += strspn(at, " ");
    size_t length = 0;
    if (*at == '"') {
        for (at++; *at != '"' && *at != 0 && length + 1 < size; at++) {
            if (*at == '\\')
                at++;
            out[length++] = *at;
        }
    } else if (strncmp(at, "null", 4) != 0) {
        for (; *at != ',' && *at != '}' && *at != 0 && length + 1 < size; at++)
            out[length++] = *at;
    }
    out[length] = 0;
    return true;
}

static long number(const char *line, const char *name) {
    char text[32] = "";
    if (!field(line, name, text, sizeof text))
        die("the configuration lacks", name);
    return strtol(text, NULL, 10);
}

static void read_config(const char *line) {
    field(line, "host", config.host, sizeof config.host);
    field(line, "user", config.user, sizeof config.user);
    field(line, "password", config.password, sizeof config.password);
    field(line, "mode", config.mode, sizeof config.mode);
    field(line, "operation", config.operation, sizeof config.operation);
    field(line, "key_prefix", config.prefix, sizeof config.prefix);
    config.port = number(line, "port");
    config.database = number(line, "database");
    config.resp = number(line, "resp");
    config.depth = number(line, "depth");
    config.rate = number(line, "rate");
    config.keys = number(line, "keys");
    config.value_bytes = number(line, "value_bytes");
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void record(uint64_t *slots, uint64_t ns, uint64_t count) {
    int shift = ns < 2048 ? 0 : 53 - __builtin_clzll(ns);
    uint64_t slot = (uint64_t)shift * 1024 + (ns >> shift);
    slots[slot < SLOTS ? slot : SLOTS - 1] += count;
}

static void fail(const char *said, uint64_t count) {
    char kind[KIND_BYTES];
    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(said, " "), said);
    for (int i = 0; i < KINDS; i++) {
        if (errors[i].count == 0)
            memcpy(errors[i].kind, kind, sizeof kind);
        if (strcmp(errors[i].kind, kind) == 0 || i + 1 == KINDS) {
            errors[i].count += count;
            return;
        }
    }
}

static redisContext *connect_to(void) {
    redisContext *made = redisConnect(config.host, (int)config.port);
    if (made == NULL || made->err)
        die("cannot connect", made == NULL ? "no memory" : made->errstr);
    redisReply *reply = NULL;
    if (config.password[0] && config.user[0])
        reply = redisCommand(made, "AUTH %s %s", config.user, config.password);
    else if (config.password[0])
        reply = redisCommand(made, "AUTH %s", config.password);
    if (config.password[0] && (reply == NULL || reply->type == REDIS_REPLY_ERROR))
        die("cannot log in", reply == NULL ? made->errstr : reply->str);
    if (reply != NULL)
        freeReplyObject(reply);
    if (config.database != 0) {
        reply = redisCommand(made, "SELECT %ld", config.database);
        if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
            die("cannot select the database", reply == NULL ? made->errstr : reply->str);
        freeReplyObject(reply);
    }
    return made;
}

static void open_client(void) {
    context = connect_to();
    keys = calloc((size_t)config.keys, sizeof *keys);
    value = malloc((size_t)config.value_bytes + 1);
    if (keys == NULL || value == NULL)
        die("keys", "no memory");
    memset(value, 'x', (size_t)config.value_bytes);
    for (long i = 0; i < config.keys; i++) {
        char key[KEY_BYTES];
        key_bytes = (size_t)snprintf(key, sizeof key, "%s%08ld", config.prefix, i);
        keys[i] = strdup(key);
    }
}

static void check(redisReply *reply, bool is_get) {
    if (reply == NULL)
        die("connection lost", context->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        fail(reply->str, 1);
    else if (is_get && reply->type == REDIS_REPLY_NIL)
        misses++;
    else if (is_get && reply->len != (size_t)config.value_bytes)
        fail("WRONGVALUE", 1);
    freeReplyObject(reply);
}

/* Waits for the time of a call, and returns how late that ended: 0 if it did not have to wait. */
static uint64_t wait_until(uint64_t due) {
    if (now_ns() >= due)
        return 0;
    struct timespec time = {.tv_sec = (time_t)(due / 1000000000), .tv_nsec = (long)(due % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        ;
    return now_ns() - due;
}

static void run_block(uint64_t duration, uint64_t most, uint32_t choice) {
    bool is_get = strcmp(config.operation, "get") == 0;
    long depth = strcmp(config.mode, "pipeline") == 0 ? config.depth : 1;
    uint64_t start = now_ns(), now = start;
    while ((most == 0 || ops < most) && (duration == 0 || ops == 0 || now - start < duration)) {
        uint64_t due = 0, late = 0;
        if (config.rate > 0) {
            due = start + (uint64_t)((unsigned __int128)ops * 1000000000 / (uint64_t)config.rate);
            if (duration > 0 && ops > 0 && due - start >= duration)
                break;
            late = wait_until(due);
        }
        uint64_t begun = now_ns();
        for (long i = 0; i < depth; i++) {
            choice ^= choice << 13;
            choice ^= choice >> 17;
            choice ^= choice << 5;
            const char *argv[3] = {is_get ? "GET" : "SET", keys[choice % (uint32_t)config.keys], value};
            size_t lengths[3] = {3, key_bytes, (size_t)config.value_bytes};
            if (redisAppendCommandArgv(context, is_get ? 2 : 3, argv, lengths) != REDIS_OK)
                die("cannot write", context->errstr);
        }
        for (long i = 0; i < depth; i++) {
            void *reply = NULL;
            redisGetReply(context, &reply);
            check(reply, is_get);
        }
        now = now_ns();
        record(slots, now - (config.rate > 0 ? due : begun), (uint64_t)depth);
        if (config.rate > 0) {
            record(service, now - begun, (uint64_t)depth);
            record(lag, late, (uint64_t)depth);
        }
        ops += (uint64_t)depth;
    }
}

/* INCR of a key of its own, one after the other, with a line for each. hiredis leaves it to its user to connect again. */
static void run_with_faults(uint64_t duration, uint64_t most) {
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < most && (duration == 0 || now_ns() - start < duration); i++) {
        uint64_t begun = now_ns();
        const char *outcome = "acknowledged", *error = "";
        redisReply *reply = context->err ? NULL : redisCommand(context, "INCR %s%" PRIu64, config.prefix, i);
        char kind[KIND_BYTES] = "";
        if (reply == NULL) {
            outcome = "unknown";
            snprintf(kind, sizeof kind, "errno-%d", context->err);
            error = kind;
        } else if (reply->type == REDIS_REPLY_ERROR) {
            outcome = "failed";
            snprintf(kind, sizeof kind, "%.*s", (int)strcspn(reply->str, " "), reply->str);
            error = kind;
        }
        uint64_t ns = now_ns() - begun;
        printf("{\"op\":{\"kind\":\"incr\",\"key\":\"%s%" PRIu64 "\",\"sequence\":%" PRIu64
               ",\"outcome\":\"%s\",\"error\":\"%s\",\"ns\":%" PRIu64 "}}\n",
               config.prefix, i, i, outcome, error, ns);
        fflush(stdout);
        if (reply == NULL)
            redisReconnect(context);
        else
            freeReplyObject(reply);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

static uint64_t time_ns(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
}

static void say_times(const char *name, const uint64_t *counts) {
    printf(",\"%s\":[", name);
    const char *comma = "";
    for (int slot = 0; slot < SLOTS; slot++) {
        if (counts[slot] > 0) {
            printf("%s[%d,%" PRIu64 "]", comma, slot, counts[slot]);
            comma = ",";
        }
    }
    printf("]");
}

static void say_result(uint64_t elapsed, const struct rusage *before) {
    struct rusage after;
    getrusage(RUSAGE_SELF, &after);
    printf("{\"result\":{\"ops\":%" PRIu64 ",\"misses\":%" PRIu64 ",\"elapsed_ns\":%" PRIu64, ops, misses, elapsed);
    printf(",\"user_cpu_ns\":%" PRIu64, time_ns(after.ru_utime) - time_ns(before->ru_utime));
    printf(",\"system_cpu_ns\":%" PRIu64, time_ns(after.ru_stime) - time_ns(before->ru_stime));
    printf(",\"max_rss_bytes\":%" PRIu64 ",\"errors\":{", (uint64_t)after.ru_maxrss * 1024);
    for (int i = 0; i < KINDS && errors[i].count > 0; i++)
        printf("%s\"%s\":%" PRIu64, i ? "," : "", errors[i].kind, errors[i].count);
    printf("}");
    say_times("histogram", slots);
    if (config.rate > 0) {
        say_times("service_histogram", service);
        say_times("lag_histogram", lag);
    }
    printf("}}\n");
    fflush(stdout);
}

int main(void) {
    static char line[LINE_BYTES];
    if (fgets(line, sizeof line, stdin) == NULL)
        die("the configuration", "is missing");
    read_config(line);
    if (config.resp != 2)
        die("this version", "has no RESP3");
    open_client();
    printf("{\"ready\":{\"client\":\"hiredis\",\"version\":\"%d.%d.%d\",\"runtime\":\"C, gcc %s\",\"options\":[]}}\n",
           HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH, __VERSION__);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        uint64_t duration, most, seed;
        long more;
        if (sscanf(line, "open %ld", &more) == 1) {
            for (long i = 0; i < more; i++) {
                redisReply *reply = redisCommand(connect_to(), "PING");
                if (reply == NULL)
                    die("cannot connect", "no reply to PING");
                freeReplyObject(reply);
            }
            printf("{\"opened\":%ld}\n", more);
            fflush(stdout);
            continue;
        }
        if (sscanf(line, "go %" SCNu64 " %" SCNu64 " %" SCNu64, &duration, &most, &seed) != 3)
            die("unknown line", line);
        memset(slots, 0, sizeof slots);
        memset(service, 0, sizeof service);
        memset(lag, 0, sizeof lag);
        memset(errors, 0, sizeof errors);
        ops = misses = 0;
        struct rusage before;
        getrusage(RUSAGE_SELF, &before);
        uint64_t start = now_ns();
        if (strcmp(config.mode, "faults") == 0)
            run_with_faults(duration, most);
        else
            run_block(duration, most, (uint32_t)seed ? (uint32_t)seed : 1);
        say_result(now_ns() - start, &before);
    }
    return 0;
}
