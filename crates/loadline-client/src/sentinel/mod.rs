//! Redis Sentinel: the address of the master is found out by its name, and followed through failovers.
//!
//! A [`Client`](crate::Client) with a URL such as `sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster` has the same
//! connections as one of a single server, and each of them goes to the present master: blocking and multiplexed
//! connections, those of a pool, subscribers, and the trackers of keys. They have one [`Sentinel`] in common.
//!
//! ```no_run
//! use loadline_client::Client;
//! use loadline_client::commands::incr;
//!
//! let client = Client::open("sentinel://:secret@10.0.0.1:26379,10.0.0.2:26379/mymaster/0")?;
//! let mut connection = client.blocking()?;
//! connection.run(incr("visits"))?;
//! # Ok::<(), loadline_client::Error>(())
//! ```
//!
//! - With the first connection, a thread per sentinel begins to listen to its events and to ask it for the master: at the
//!   start, after events, while connections look for the master, and otherwise every 5 seconds. A sentinel that does not
//!   answer delays nothing. Sentinels that the others name are asked too. The threads end with the client and its last
//!   connection. However many connections there are, each sentinel has one.
//! - If sentinels disagree, the answer with the highest epoch of a failover counts.
//! - The handshake of each connection includes `ROLE`. A server that is not the master yet, or not any more, is given up,
//!   and the attempt is repeated. While a failover is under way, connections try the replica that it has selected, and so
//!   can write as soon as that is the master.
//! - Open connections to a server that is not the master any more are closed, also if that server does not answer. Which
//!   of their requests are sent again is up to the [`RetryPolicy`](crate::RetryPolicy), as after any loss of a connection.
//! - A command that was refused with `READONLY` was not executed. It is sent again to the new master.
//!
//! Sentinels before Redis 6 have no RESP3. They are asked, but their events are not received.
//!
//! See [Sentinel client spec](https://redis.io/docs/latest/develop/reference/sentinel-clients/).

mod access;
mod answer;
mod names;
mod outlook;
#[cfg(test)]
mod tests;
mod url;
mod watch;

pub use crate::cluster::Node;
pub(crate) use answer::{Answer, SentinelEvent, Subscribe, question};
pub use names::{Role, Sentinel};
pub(crate) use watch::{Lease, Watch};
