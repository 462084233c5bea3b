//! Connections of the server, this one and those of others.

use super::*;

words! {
    /// A kind of connection.
    ClientKind {
        /// Any that is none of the others.
        Normal = "NORMAL",
        /// The connection to the master.
        Master = "MASTER",
        /// The connections of replicas.
        Replica = "REPLICA",
        /// Connections with subscriptions.
        PubSub = "PUBSUB",
    }
}

fn on_or_off(on: bool) -> &'static str {
    if on { "ON" } else { "OFF" }
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "YES" } else { "NO" }
}

commands! {
    /// Says whether the keys of the next command are tracked, with tracking by choice. Needs a dedicated connection.
    ///
    /// Redis documentation: [`CLIENT CACHING`](https://redis.io/docs/latest/commands/client-caching/).
    client_caching(yes: bool) -> () = "CLIENT" "CACHING"(yes_or_no(yes));
    /// Gets the name of this connection. Replies with nil if it has none.
    ///
    /// Redis documentation: [`CLIENT GETNAME`](https://redis.io/docs/latest/commands/client-getname/).
    client_get_name() -> Option<String> = "CLIENT" "GETNAME"();
    /// Gets the id of the connection that receives the invalidations of this one. Replies with 0 if it is this one,
    /// and with -1 if nothing is tracked.
    ///
    /// Redis documentation: [`CLIENT GETREDIR`](https://redis.io/docs/latest/commands/client-getredir/).
    client_get_redir() -> i64 = "CLIENT" "GETREDIR"();
    /// Gets the id of this connection.
    ///
    /// Redis documentation: [`CLIENT ID`](https://redis.io/docs/latest/commands/client-id/).
    client_id() -> u64 = "CLIENT" "ID"();
    /// Describes this connection, as a line of `name=value`.
    ///
    /// Redis documentation: [`CLIENT INFO`](https://redis.io/docs/latest/commands/client-info/).
    client_info() -> String = "CLIENT" "INFO"();
    /// Closes the connections to which all of the options apply, of which there must be one. Replies with their
    /// number.
    ///
    /// Redis documentation: [`CLIENT KILL`](https://redis.io/docs/latest/commands/client-kill/).
    client_kill() -> u64 = "CLIENT" "KILL"() + ClientKillOptions;
    /// Describes the connections, each as a line of `name=value`.
    ///
    /// Redis documentation: [`CLIENT LIST`](https://redis.io/docs/latest/commands/client-list/).
    client_list() -> String = "CLIENT" "LIST"() + ClientListOptions;
    /// Excludes this connection from those that are closed when clients use too much memory. Needs a dedicated
    /// connection.
    ///
    /// Redis documentation: [`CLIENT NO-EVICT`](https://redis.io/docs/latest/commands/client-no-evict/).
    client_no_evict(on: bool) -> () = "CLIENT" "NO-EVICT"(on_or_off(on));
    /// Lets the commands of all clients wait for this time.
    ///
    /// Redis documentation: [`CLIENT PAUSE`](https://redis.io/docs/latest/commands/client-pause/).
    client_pause(time: Duration) -> () = "CLIENT" "PAUSE"(whole_millis(time)) + ClientPauseOptions;
    /// Names this connection, without spaces. Needs a dedicated connection; `Builder::client_name` names all
    /// connections.
    ///
    /// Redis documentation: [`CLIENT SETNAME`](https://redis.io/docs/latest/commands/client-setname/).
    client_set_name(name: impl Arg) -> () = "CLIENT" "SETNAME"(name);
    /// Starts or ends the tracking of keys that this connection reads, of whose changes the server then informs it.
    /// Needs a dedicated connection.
    ///
    /// Redis documentation: [`CLIENT TRACKING`](https://redis.io/docs/latest/commands/client-tracking/).
    client_tracking(on: bool) -> ()
        = "CLIENT" "TRACKING"(on_or_off(on)) + ClientTrackingOptions;
    /// Describes the tracking of this connection, by a map.
    ///
    /// Redis documentation: [`CLIENT TRACKINGINFO`](https://redis.io/docs/latest/commands/client-trackinginfo/).
    client_tracking_info<T>() -> T = "CLIENT" "TRACKINGINFO"();
    /// Ends the wait of a connection that waits in a command such as [`blpop`], as after its timeout. Replies with
    /// whether it was waiting.
    ///
    /// Redis documentation: [`CLIENT UNBLOCK`](https://redis.io/docs/latest/commands/client-unblock/).
    client_unblock(id: u64) -> bool = "CLIENT" "UNBLOCK"(id) + ClientUnblockOptions;
    /// Ends a [`client_pause`].
    ///
    /// Redis documentation: [`CLIENT UNPAUSE`](https://redis.io/docs/latest/commands/client-unpause/).
    client_unpause() -> () = "CLIENT" "UNPAUSE"();
    /// Replies with the message.
    ///
    /// Redis documentation: [`ECHO`](https://redis.io/docs/latest/commands/echo/).
    echo<T>(message: impl Arg) -> T = "ECHO"(message);
    /// Checks whether the server answers.
    ///
    /// Redis documentation: [`PING`](https://redis.io/docs/latest/commands/ping/).
    ping() -> () = "PING"();
    /// Lets a replica of a cluster answer reads on this connection. Needs a dedicated connection.
    ///
    /// Redis documentation: [`READONLY`](https://redis.io/docs/latest/commands/readonly/).
    readonly() -> () = "READONLY"();
    /// Takes back [`readonly`]. Needs a dedicated connection.
    ///
    /// Redis documentation: [`READWRITE`](https://redis.io/docs/latest/commands/readwrite/).
    readwrite() -> () = "READWRITE"();
}

options! {
    /// The options of [`client_kill`].
    ClientKillOptions {
        /// The connection with this id.
        id(id: u64) -> R = ("ID", id);
        /// Connections of this kind.
        of_kind(kind: ClientKind) -> R = ("TYPE", kind.word());
        /// Connections of this user.
        user(name: impl Arg) -> R = ("USER", name);
        /// The connection from this address, `ip:port`.
        address(address: impl Arg) -> R = ("ADDR", address);
        /// Connections to this address of the server, `ip:port`.
        local_address(address: impl Arg) -> R = ("LADDR", address);
        /// Whether this connection is spared, which it is by default.
        skip_me(yes: bool) -> R = ("SKIPME", yes_or_no(yes));
    }
    /// The options of [`client_list`].
    ClientListOptions {
        /// Connections of this kind.
        of_kind(kind: ClientKind) -> R = ("TYPE", kind.word());
        /// The connections with these ids.
        ids(ids: impl ToArgs) -> R = ("ID", ids);
    }
    /// The options of [`client_pause`].
    ClientPauseOptions {
        /// Only commands that can write wait.
        writes() -> R = ("WRITE");
        /// All commands wait, which is the default.
        all() -> R = ("ALL");
    }
    /// The options of [`client_tracking`].
    ClientTrackingOptions {
        /// Sends the invalidations to the connection with this id.
        redirect(id: u64) -> R = ("REDIRECT", id);
        /// With [`broadcast`](Command::broadcast): only keys with this prefix. It can be used several times.
        prefix(prefix: impl Arg) -> R = ("PREFIX", prefix);
        /// Reports every change, whether this connection has read the key or not.
        broadcast() -> R = ("BCAST");
        /// Tracks only keys of commands after [`client_caching(true)`](client_caching).
        opt_in() -> R = ("OPTIN");
        /// Tracks all keys but those of commands after [`client_caching(false)`](client_caching).
        opt_out() -> R = ("OPTOUT");
        /// Does not report changes by this connection.
        no_loop() -> R = ("NOLOOP");
    }
    /// The options of [`client_unblock`].
    ClientUnblockOptions {
        /// The wait ends as after its timeout, which is the default.
        with_timeout() -> R = ("TIMEOUT");
        /// The wait ends with an `UNBLOCKED` error.
        with_error() -> R = ("ERROR");
    }
}
