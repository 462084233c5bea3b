//! The server itself, and messages through it.

use super::*;

commands! {
    /// How many keys the database holds.
    dbsize() -> u64 = "DBSIZE"(), READ_ONLY, Keys::None;
    /// The same bytes back.
    echo<T>(message: impl Arg) -> T = "ECHO"(message), READ_ONLY, Keys::None;
    /// Deletes all keys of the database.
    flushdb() -> () = "FLUSHDB"(), IDEMPOTENT, Keys::None;
    /// What the server says about itself, of one section (`"server"`, `"memory"`) or `"everything"`.
    info(section: impl Arg) -> String = "INFO"(section), READ_ONLY, Keys::None;
    /// Whether the server answers.
    ping() -> () = "PING"(), READ_ONLY, Keys::None;
    /// Sends a message to those who listen to a channel now; how many of them are on this server.
    publish(channel: impl Arg, message: impl Arg) -> u64 = "PUBLISH"(channel, message), NONE, Keys::None;
    /// The same on a channel of a shard of a cluster.
    spublish(channel: impl Arg, message: impl Arg) -> u64 = "SPUBLISH"(channel, message), NONE, Keys::First;
    /// The server's clock: seconds since 1970, and microseconds.
    time() -> (u64, u64) = "TIME"(), READ_ONLY, Keys::None;
    /// Watches keys: the next transaction on this connection is executed only if none of them changes. It
    /// needs a connection of its own.
    watch(keys: impl ToArgs) -> () = "WATCH"(keys), DEDICATED, Keys::All;
    /// Stops watching. It needs a connection of its own.
    unwatch() -> () = "UNWATCH"(), DEDICATED, Keys::None;
}

/// Waits, at most so long, until so many replicas have all writes of this connection; how many have. It
/// needs a connection of its own.
#[must_use]
pub fn wait(replicas: u64, timeout: Duration) -> Command<impl ToArgs, u64> {
    const META: Meta = Meta {
        name: "WAIT",
        flags: Flags::BLOCKS.with(Flags::DEDICATED),
        keys: Keys::None,
    };
    Command::new(META, (replicas, block_millis(timeout))).waiting(timeout)
}
