//! Messages on channels, and who listens to them. [`pubsub`](crate::pubsub) has the subscribers.

use super::*;

commands! {
    /// Publishes a message on a channel. Replies with the number of subscribers on this server that received it.
    ///
    /// Redis documentation: [`PUBLISH`](https://redis.io/docs/latest/commands/publish/).
    publish(channel: impl Arg, message: impl Arg) -> u64 = "PUBLISH"(channel, message);
    /// Gets the channels with a subscriber that match a pattern; `()` is all.
    ///
    /// Redis documentation: [`PUBSUB CHANNELS`](https://redis.io/docs/latest/commands/pubsub-channels/).
    pubsub_channels(pattern: impl ToArgs) -> Vec<String> = "PUBSUB"("CHANNELS", pattern);
    /// Counts the patterns that clients subscribe to.
    ///
    /// Redis documentation: [`PUBSUB NUMPAT`](https://redis.io/docs/latest/commands/pubsub-numpat/).
    pubsub_num_pat() -> u64 = "PUBSUB"("NUMPAT");
    /// Counts the subscribers of each of these channels.
    ///
    /// Redis documentation: [`PUBSUB NUMSUB`](https://redis.io/docs/latest/commands/pubsub-numsub/).
    pubsub_num_sub(channels: impl ToArgs) -> Vec<(String, u64)> = "PUBSUB"("NUMSUB", channels);
    /// Gets the sharded channels with a subscriber that match a pattern; `()` is all.
    ///
    /// Redis documentation: [`PUBSUB SHARDCHANNELS`](https://redis.io/docs/latest/commands/pubsub-shardchannels/).
    pubsub_shard_channels(pattern: impl ToArgs) -> Vec<String>
        = "PUBSUB"("SHARDCHANNELS", pattern);
    /// Counts the subscribers of each of these sharded channels.
    ///
    /// Redis documentation: [`PUBSUB SHARDNUMSUB`](https://redis.io/docs/latest/commands/pubsub-shardnumsub/).
    pubsub_shard_num_sub(channels: impl ToArgs) -> Vec<(String, u64)>
        = "PUBSUB"("SHARDNUMSUB", channels);
    /// Publishes a message on a sharded channel of a cluster. Replies with the number of subscribers on this server
    /// that received it.
    ///
    /// Redis documentation: [`SPUBLISH`](https://redis.io/docs/latest/commands/spublish/).
    spublish(channel: impl Arg, message: impl Arg) -> u64 = "SPUBLISH"(channel, message);
}
