//! Commands about the server: its settings, memory, files, replicas and logs.

use super::*;

commands! {
    /// Counts the keys of the database.
    ///
    /// Redis documentation: [`DBSIZE`](https://redis.io/docs/latest/commands/dbsize/).
    dbsize() -> u64 = "DBSIZE"();
    /// Gets the clock of the server. Replies with the seconds since 1970 and the microseconds of the current
    /// second.
    ///
    /// Redis documentation: [`TIME`](https://redis.io/docs/latest/commands/time/).
    time() -> (u64, u64) = "TIME"();
    /// Watches keys: the next transaction on this connection is executed only if none of them changes. Needs a
    /// dedicated connection.
    ///
    /// Redis documentation: [`WATCH`](https://redis.io/docs/latest/commands/watch/).
    watch(keys: impl ToArgs) -> () = "WATCH"(keys);
    /// Stops watching all keys. Needs a dedicated connection.
    ///
    /// Redis documentation: [`UNWATCH`](https://redis.io/docs/latest/commands/unwatch/).
    unwatch() -> () = "UNWATCH"();
    /// Starts to write the append-only file anew, in the background. Replies with what the server does.
    ///
    /// Redis documentation: [`BGREWRITEAOF`](https://redis.io/docs/latest/commands/bgrewriteaof/).
    bg_rewrite_aof() -> String = "BGREWRITEAOF"();
    /// Starts to write a snapshot, in the background. Replies with what the server does.
    ///
    /// Redis documentation: [`BGSAVE`](https://redis.io/docs/latest/commands/bgsave/).
    bg_save() -> String = "BGSAVE"() + BgSaveOptions;
    /// Counts the commands that the server knows.
    ///
    /// Redis documentation: [`COMMAND COUNT`](https://redis.io/docs/latest/commands/command-count/).
    command_count() -> u64 = "COMMAND"("COUNT");
    /// Documents commands, or all of them for `()`. Replies with a map of maps.
    ///
    /// Redis documentation: [`COMMAND DOCS`](https://redis.io/docs/latest/commands/command-docs/).
    command_docs<T>(names: impl ToArgs) -> T = "COMMAND"("DOCS", names);
    /// Finds the keys of a command, given as a list of its words.
    ///
    /// Redis documentation: [`COMMAND GETKEYS`](https://redis.io/docs/latest/commands/command-getkeys/).
    command_get_keys<T>(command: impl ToArgs) -> Vec<T> = "COMMAND"("GETKEYS", command);
    /// Finds the keys of a command, given as a list of its words, and how it uses each.
    ///
    /// Redis documentation: [`COMMAND GETKEYSANDFLAGS`](https://redis.io/docs/latest/commands/command-getkeysandflags/).
    command_get_keys_and_flags<T>(command: impl ToArgs) -> Vec<T>
        = "COMMAND"("GETKEYSANDFLAGS", command);
    /// Describes commands, or all of them for `()`. Replies with a list for each, or with nil for an unknown one.
    ///
    /// Redis documentation: [`COMMAND INFO`](https://redis.io/docs/latest/commands/command-info/).
    command_info<T>(names: impl ToArgs) -> Vec<T> = "COMMAND"("INFO", names);
    /// Gets the names of the commands that the server knows.
    ///
    /// Redis documentation: [`COMMAND LIST`](https://redis.io/docs/latest/commands/command-list/).
    command_list() -> Vec<String> = "COMMAND"("LIST") + CommandListOptions;
    /// Gets settings of the server by name or pattern, as a map.
    ///
    /// Redis documentation: [`CONFIG GET`](https://redis.io/docs/latest/commands/config-get/).
    config_get<T>(parameters: impl ToArgs) -> T = "CONFIG" "GET"(parameters);
    /// Sets the counters of [`info`] to 0.
    ///
    /// Redis documentation: [`CONFIG RESETSTAT`](https://redis.io/docs/latest/commands/config-resetstat/).
    config_reset_stat() -> () = "CONFIG" "RESETSTAT"();
    /// Writes the settings to the configuration file of the server.
    ///
    /// Redis documentation: [`CONFIG REWRITE`](https://redis.io/docs/latest/commands/config-rewrite/).
    config_rewrite() -> () = "CONFIG" "REWRITE"();
    /// Changes settings of the server, given as pairs or a map.
    ///
    /// Redis documentation: [`CONFIG SET`](https://redis.io/docs/latest/commands/config-set/).
    config_set(settings: impl ToArgs) -> () = "CONFIG" "SET"(settings);
    /// Makes one of the replicas of this server the master, without loss of writes.
    ///
    /// Redis documentation: [`FAILOVER`](https://redis.io/docs/latest/commands/failover/).
    failover() -> () = "FAILOVER"() + FailoverOptions;
    /// Deletes all keys of all databases.
    ///
    /// Redis documentation: [`FLUSHALL`](https://redis.io/docs/latest/commands/flushall/).
    flushall() -> () = "FLUSHALL"() + FlushOptions;
    /// Deletes all keys of the database.
    ///
    /// Redis documentation: [`FLUSHDB`](https://redis.io/docs/latest/commands/flushdb/).
    flushdb() -> () = "FLUSHDB"() + FlushOptions;
    /// Gets information about the server, of sections such as `"server"` or `"memory"`, or of `"everything"`. Replies
    /// with lines of `name:value`.
    ///
    /// Redis documentation: [`INFO`](https://redis.io/docs/latest/commands/info/).
    info(sections: impl ToArgs) -> String = "INFO"(sections);
    /// Gets when the server last wrote a snapshot, in seconds since 1970.
    ///
    /// Redis documentation: [`LASTSAVE`](https://redis.io/docs/latest/commands/lastsave/).
    last_save() -> u64 = "LASTSAVE"();
    /// Explains the latency spikes of the server in English.
    ///
    /// Redis documentation: [`LATENCY DOCTOR`](https://redis.io/docs/latest/commands/latency-doctor/).
    latency_doctor() -> String = "LATENCY" "DOCTOR"();
    /// Draws the latency spikes of an event as text.
    ///
    /// Redis documentation: [`LATENCY GRAPH`](https://redis.io/docs/latest/commands/latency-graph/).
    latency_graph(event: impl Arg) -> String = "LATENCY" "GRAPH"(event);
    /// Gets the distribution of the execution times of commands, or of all of them for `()`. Replies with a map of
    /// maps.
    ///
    /// Redis documentation: [`LATENCY HISTOGRAM`](https://redis.io/docs/latest/commands/latency-histogram/).
    latency_histogram<T>(commands: impl ToArgs) -> T = "LATENCY" "HISTOGRAM"(commands);
    /// Gets the latency spikes of an event. Replies for each with its time in seconds since 1970 and its
    /// milliseconds.
    ///
    /// Redis documentation: [`LATENCY HISTORY`](https://redis.io/docs/latest/commands/latency-history/).
    latency_history(event: impl Arg) -> Vec<(u64, u64)> = "LATENCY" "HISTORY"(event);
    /// Gets the latest latency spike of each event. Replies for each with its name, its time in seconds since 1970,
    /// its milliseconds, and those of the longest spike.
    ///
    /// Redis documentation: [`LATENCY LATEST`](https://redis.io/docs/latest/commands/latency-latest/).
    latency_latest() -> Vec<(String, u64, u64, u64)> = "LATENCY" "LATEST"();
    /// Removes the latency spikes of events, or of all of them for `()`. Replies with the number of events.
    ///
    /// Redis documentation: [`LATENCY RESET`](https://redis.io/docs/latest/commands/latency-reset/).
    latency_reset(events: impl ToArgs) -> u64 = "LATENCY" "RESET"(events);
    /// Gets a picture made by the server, and its version.
    ///
    /// Redis documentation: [`LOLWUT`](https://redis.io/docs/latest/commands/lolwut/).
    lolwut() -> String = "LOLWUT"() + LolwutOptions;
    /// Explains the memory use of the server in English.
    ///
    /// Redis documentation: [`MEMORY DOCTOR`](https://redis.io/docs/latest/commands/memory-doctor/).
    memory_doctor() -> String = "MEMORY" "DOCTOR"();
    /// Gets the report of the allocator.
    ///
    /// Redis documentation: [`MEMORY MALLOC-STATS`](https://redis.io/docs/latest/commands/memory-malloc-stats/).
    memory_malloc_stats() -> String = "MEMORY" "MALLOC-STATS"();
    /// Returns unused memory to the operating system.
    ///
    /// Redis documentation: [`MEMORY PURGE`](https://redis.io/docs/latest/commands/memory-purge/).
    memory_purge() -> () = "MEMORY" "PURGE"();
    /// Describes the memory use of the server, by a map.
    ///
    /// Redis documentation: [`MEMORY STATS`](https://redis.io/docs/latest/commands/memory-stats/).
    memory_stats<T>() -> T = "MEMORY" "STATS"();
    /// Estimates the memory of a key and its value in bytes. Replies with nil if the key does not exist.
    ///
    /// Redis documentation: [`MEMORY USAGE`](https://redis.io/docs/latest/commands/memory-usage/).
    memory_usage(key: impl Arg) -> Option<u64> = "MEMORY" "USAGE"(key) + MemoryUsageOptions;
    /// Describes the loaded modules, each by a map.
    ///
    /// Redis documentation: [`MODULE LIST`](https://redis.io/docs/latest/commands/module-list/).
    module_list<T>() -> Vec<T> = "MODULE" "LIST"();
    /// Loads a module from a file of the server, with these arguments; `()` is none.
    ///
    /// Redis documentation: [`MODULE LOAD`](https://redis.io/docs/latest/commands/module-load/).
    module_load(path: impl Arg, args: impl ToArgs) -> () = "MODULE" "LOAD"(path, args);
    /// Loads a module from a file of the server, with settings and arguments as options.
    ///
    /// Redis documentation: [`MODULE LOADEX`](https://redis.io/docs/latest/commands/module-loadex/).
    module_load_ex(path: impl Arg) -> () = "MODULE" "LOADEX"(path) + ModuleLoadOptions;
    /// Unloads a module.
    ///
    /// Redis documentation: [`MODULE UNLOAD`](https://redis.io/docs/latest/commands/module-unload/).
    module_unload(name: impl Arg) -> () = "MODULE" "UNLOAD"(name);
    /// Makes this server a replica of another one.
    ///
    /// Redis documentation: [`REPLICAOF`](https://redis.io/docs/latest/commands/replicaof/).
    replica_of(host: impl Arg, port: u16) -> () = "REPLICAOF"(host, port);
    /// Makes this server a master.
    ///
    /// Redis documentation: [`REPLICAOF`](https://redis.io/docs/latest/commands/replicaof/).
    replica_of_no_one() -> () = "REPLICAOF"("NO", "ONE");
    /// Describes the replication of this server: `master`, the offset and the replicas, or `slave`, the master and
    /// the state.
    ///
    /// Redis documentation: [`ROLE`](https://redis.io/docs/latest/commands/role/).
    role<T>() -> T = "ROLE"();
    /// Writes a snapshot while all clients wait.
    ///
    /// Redis documentation: [`SAVE`](https://redis.io/docs/latest/commands/save/).
    save() -> () = "SAVE"();
    /// Ends the server. There is no reply if it ends: the request fails since the connection broke.
    ///
    /// Redis documentation: [`SHUTDOWN`](https://redis.io/docs/latest/commands/shutdown/).
    shutdown() -> () = "SHUTDOWN"() + ShutdownOptions;
    /// Gets up to `count` of the latest slow commands. Replies for each with a list: its id, its time in seconds
    /// since 1970, its microseconds, its words, the client and its name.
    ///
    /// Redis documentation: [`SLOWLOG GET`](https://redis.io/docs/latest/commands/slowlog-get/).
    slow_log_get<T>(count: i64) -> Vec<T> = "SLOWLOG" "GET"(count);
    /// Counts the entries of the log of slow commands.
    ///
    /// Redis documentation: [`SLOWLOG LEN`](https://redis.io/docs/latest/commands/slowlog-len/).
    slow_log_len() -> u64 = "SLOWLOG" "LEN"();
    /// Removes all entries of the log of slow commands.
    ///
    /// Redis documentation: [`SLOWLOG RESET`](https://redis.io/docs/latest/commands/slowlog-reset/).
    slow_log_reset() -> () = "SLOWLOG" "RESET"();
    /// Exchanges two databases, for all clients.
    ///
    /// Redis documentation: [`SWAPDB`](https://redis.io/docs/latest/commands/swapdb/).
    swap_db(a: u32, b: u32) -> () = "SWAPDB"(a, b);
    /// Waits up to `timeout` until this number of replicas has received all writes of this connection. Replies with
    /// the number of replicas that have. Needs a dedicated connection.
    ///
    /// Redis documentation: [`WAIT`](https://redis.io/docs/latest/commands/wait/).
    wait(replicas: u64, timeout: Duration) -> u64 = "WAIT"(replicas, block_millis(timeout)), waiting(timeout);
}

options! {
    /// The options of [`bg_save`].
    BgSaveOptions {
        /// Starts later if another process of the server is writing a file.
        schedule() -> R = ("SCHEDULE");
    }
    /// The options of [`command_list`], of which one can be used.
    CommandListOptions {
        /// Commands of this module.
        of_module(name: impl Arg) -> R = ("FILTERBY", "MODULE", name);
        /// Commands of this category of the access control list.
        of_category(name: impl Arg) -> R = ("FILTERBY", "ACLCAT", name);
        /// Commands whose names match this pattern.
        matching(pattern: impl Arg) -> R = ("FILTERBY", "PATTERN", pattern);
    }
    /// The options of [`failover`].
    FailoverOptions {
        /// Chooses this replica.
        to(host: impl Arg, port: u16) -> R = ("TO", host, port);
        /// After [`to`](Command::to): takes the replica after the timeout although it has not all writes.
        force() -> R = ("FORCE");
        /// Ends a failover that is going on.
        abort() -> R = ("ABORT");
        /// Gives up after this time.
        timeout(time: Duration) -> R = ("TIMEOUT", millis(time));
    }
    /// The options of [`flushall`], [`flushdb`], [`script_flush`] and [`function_flush`].
    FlushOptions {
        /// Frees the memory in the background.
        in_background() -> R = ("ASYNC");
        /// Frees the memory before the reply, under any setting of the server.
        sync() -> R = ("SYNC");
    }
    /// The options of [`lolwut`].
    LolwutOptions {
        /// Gets the picture of this version of Redis.
        version(version: u32) -> R = ("VERSION", version);
    }
    /// The options of [`memory_usage`].
    MemoryUsageOptions {
        /// Looks at this number of elements to estimate the rest; 0 is all. The default is 5.
        samples(count: u64) -> R = ("SAMPLES", count);
    }
    /// The options of [`module_load_ex`].
    ModuleLoadOptions {
        /// A setting of the module. It can be used several times, before the arguments.
        config(name: impl Arg, value: impl Arg) -> R = ("CONFIG", name, value);
        /// The arguments of the module.
        args(args: impl ToArgs) -> R = ("ARGS", args);
    }
    /// The options of [`shutdown`].
    ShutdownOptions {
        /// Writes no snapshot.
        no_save() -> R = ("NOSAVE");
        /// Writes a snapshot, under any settings of the server.
        save() -> R = ("SAVE");
        /// Does not wait for replicas.
        now() -> R = ("NOW");
        /// Ignores errors that would keep the server running.
        force() -> R = ("FORCE");
        /// Ends a shutdown that is going on.
        abort() -> R = ("ABORT");
    }
}
