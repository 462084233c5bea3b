/* hiredis under the same work as the other clients: `driver HOST PORT` reads lines of
 * `get|set|lent PIPELINE OPS` and answers each with the CPU time that it took, in nanoseconds; `lent` is
 * `get` whose values are read where they are in the reply.
 * It ends with its standard input. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEYS = 1000, VALUE_BYTES = 64 };

static char keys[KEYS][16];
static char value[VALUE_BYTES + 1];

static long long cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void fail(redisContext *c, const char *what) {
    fprintf(stderr, "hiredis: %s: %s\n", what, c ? c->errstr : "no memory");
    exit(1);
}

/* The value is copied out, as a caller that owns it has it, unless it is lent. */
static void take(redisContext *c, int is_set, int is_lent) {
    redisReply *reply = NULL;
    if (redisGetReply(c, (void **)&reply) != REDIS_OK || reply == NULL) fail(c, "no reply");
    if (!is_set) {
        if (reply->type != REDIS_REPLY_STRING || reply->len != VALUE_BYTES) fail(c, "another value");
    }
    if (!is_set && !is_lent) {
        char *owned = malloc(reply->len);
        if (owned == NULL) fail(NULL, "value");
        memcpy(owned, reply->str, reply->len);
        __asm__ volatile("" : : "r"(owned) : "memory");
        free(owned);
    }
    freeReplyObject(reply);
}

static void append(redisContext *c, int is_set, const char *key) {
    const char *argv[] = {is_set ? "SET" : "GET", key, value};
    const size_t lengths[] = {3, strlen(key), VALUE_BYTES};
    if (redisAppendCommandArgv(c, is_set ? 3 : 2, argv, lengths) != REDIS_OK) fail(c, "append");
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: driver HOST PORT\n");
        return 64;
    }
    redisContext *c = redisConnect(argv[1], atoi(argv[2]));
    if (c == NULL || c->err) fail(c, "connect");
    for (int i = 0; i < KEYS; i++) snprintf(keys[i], sizeof keys[i], "key:%04d", i);
    memset(value, 'x', VALUE_BYTES);
    char kind[8];
    int size;
    long long ops;
    while (scanf("%7s %d %lld", kind, &size, &ops) == 3) {
        if (size < 1 || size > KEYS) fail(NULL, "pipeline");
        int is_set = strcmp(kind, "set") == 0;
        int is_lent = strcmp(kind, "lent") == 0;
        long long before = cpu_ns();
        int at = 0;
        for (long long done = 0; done + size <= ops; done += size) {
            for (int i = 0; i < size; i++) {
                append(c, is_set, keys[size == 1 ? at : i]);
                at = (at + 1) % KEYS;
            }
            for (int i = 0; i < size; i++) take(c, is_set, is_lent);
        }
        printf("%lld\n", cpu_ns() - before);
        fflush(stdout);
    }
    redisFree(c);
    return 0;
}
