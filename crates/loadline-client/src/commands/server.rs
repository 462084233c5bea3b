//! Commands about the server and its connections, and messages on channels.

use super::*;

commands! {
    /// Counts the keys of the database.
    ///
    /// Redis documentation: [`DBSIZE`](https://redis.io/docs/latest/commands/dbsize/).
    dbsize() -> u64 = "DBSIZE"(), READ_ONLY, Keys::None;
    /// Replies with the message.
    ///
    /// Redis documentation: [`ECHO`](https://redis.io/docs/latest/commands/echo/).
    echo<T>(message: impl Arg) -> T = "ECHO"(message), READ_ONLY, Keys::None;
    /// Deletes all keys of the database.
    ///
    /// Redis documentation: [`FLUSHDB`](https://redis.io/docs/latest/commands/flushdb/).
    flushdb() -> () = "FLUSHDB"(), IDEMPOTENT, Keys::None;
    /// Gets information about the server, of one section such as `"server"` or `"memory"`, or of `"everything"`.
    /// Replies with lines of `name:value`.
    ///
    /// Redis documentation: [`INFO`](https://redis.io/docs/latest/commands/info/).
    info(section: impl Arg) -> String = "INFO"(section), READ_ONLY, Keys::None;
    /// Checks whether the server answers.
    ///
    /// Redis documentation: [`PING`](https://redis.io/docs/latest/commands/ping/).
    ping() -> () = "PING"(), READ_ONLY, Keys::None;
    /// Publishes a message on a channel. Replies with the number of subscribers on this server that received it.
    ///
    /// Redis documentation: [`PUBLISH`](https://redis.io/docs/latest/commands/publish/).
    publish(channel: impl Arg, message: impl Arg) -> u64 = "PUBLISH"(channel, message), NONE, Keys::None;
    /// Publishes a message on a sharded channel of a cluster. Replies with the number of subscribers on this server
    /// that received it.
    ///
    /// Redis documentation: [`SPUBLISH`](https://redis.io/docs/latest/commands/spublish/).
    spublish(channel: impl Arg, message: impl Arg) -> u64 = "SPUBLISH"(channel, message), NONE, Keys::First;
    /// Gets the clock of the server. Replies with the seconds since 1970 and the microseconds of the current
    /// second.
    ///
    /// Redis documentation: [`TIME`](https://redis.io/docs/latest/commands/time/).
    time() -> (u64, u64) = "TIME"(), READ_ONLY, Keys::None;
    /// Watches keys: the next transaction on this connection is executed only if none of them changes. Needs a
    /// dedicated connection.
    ///
    /// Redis documentation: [`WATCH`](https://redis.io/docs/latest/commands/watch/).
    watch(keys: impl ToArgs) -> () = "WATCH"(keys), DEDICATED, Keys::All;
    /// Stops watching all keys. Needs a dedicated connection.
    ///
    /// Redis documentation: [`UNWATCH`](https://redis.io/docs/latest/commands/unwatch/).
    unwatch() -> () = "UNWATCH"(), DEDICATED, Keys::None;
}

/// Waits up to `timeout` until this number of replicas has received all writes of this connection. Replies with
/// the number of replicas that have. Needs a dedicated connection.
///
/// Redis documentation: [`WAIT`](https://redis.io/docs/latest/commands/wait/).
#[must_use]
pub fn wait(replicas: u64, timeout: Duration) -> Command<impl ToArgs, u64> {
    const META: Meta = Meta {
        name: "WAIT",
        flags: Flags::BLOCKS.with(Flags::DEDICATED),
        keys: Keys::None,
    };
    Command::new(META, (replicas, block_millis(timeout))).waiting(timeout)
}
