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

mod answer;
mod lease;
mod outlook;
#[cfg(test)]
mod tests;
mod url;
mod watch;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub use crate::cluster::Node;
use crate::{Address, Config, Error, Password, RetryPolicy};
pub(crate) use answer::{Answer, SentinelEvent, Subscribe, question};
pub(crate) use lease::Lease;
pub(crate) use watch::{Handle, Watch};

/// The port of a sentinel that is named without one.
const DEFAULT_PORT: u16 = 26_379;
/// The default time for a sentinel to accept a connection, and to answer.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The server that a name stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The master.
    #[default]
    Master,
    /// One of its replicas, in turn; the master if none can be used. Replicas lag behind the master, so a read can miss
    /// the latest writes, and they refuse writes with `READONLY`.
    Replica,
}

/// Servers behind a name, and the sentinels that know their addresses. A clone is the same. See the [module](self).
///
/// ```
/// use loadline_client::sentinel::{Node, Sentinel};
/// use loadline_client::{Address, Client, Password};
///
/// let sentinel = Sentinel::new("mymaster", [Node::new("10.0.0.1", 26379), Node::new("10.0.0.2", 26379)])
///     .login(None, Password::new("of the sentinels"));
/// let client = Client::builder()
///     .address(Address::Sentinel(sentinel))
///     .password(Password::new("of the master"))
///     .build();
/// # drop(client);
/// ```
#[derive(Clone)]
pub struct Sentinel {
    inner: Arc<Inner>,
}

/// The settings, and the threads once there are any.
struct Inner {
    settings: Settings,
    running: OnceLock<Handle>,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) sentinels: Vec<Node>,
    pub(crate) role: Role,
    /// Whether connections to the master and its replicas are encrypted.
    tls: bool,
    /// Whether connections to the sentinels are.
    sentinel_tls: bool,
    user: Option<String>,
    password: Option<Password>,
    #[cfg(feature = "tls")]
    trust: Option<crate::Tls>,
    timeout: Duration,
    /// The addresses at which servers and sentinels are reached that are named by another one.
    instead: HashMap<Node, Node>,
}

impl Sentinel {
    /// The master of this name. At least one of these sentinels has to answer; they name the others.
    #[must_use]
    pub fn new(name: impl Into<String>, sentinels: impl IntoIterator<Item = Node>) -> Self {
        let settings = Settings {
            name: name.into(),
            sentinels: sentinels.into_iter().collect(),
            role: Role::Master,
            tls: false,
            sentinel_tls: false,
            user: None,
            password: None,
            #[cfg(feature = "tls")]
            trust: None,
            timeout: TIMEOUT,
            instead: HashMap::new(),
        };
        Self::from(settings)
    }

    /// The same with other settings, without threads yet.
    fn with(&self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.inner.settings.clone();
        change(&mut settings);
        Self::from(settings)
    }

    /// Connects to replicas, for reads. Default [`Role::Master`].
    #[must_use]
    pub fn role(self, role: Role) -> Self {
        self.with(|settings| settings.role = role)
    }

    /// The credentials for the sentinels. Those for the master are in the [`Config`]; neither are sent to the others.
    #[must_use]
    pub fn login(self, user: Option<String>, password: Password) -> Self {
        self.with(|settings| (settings.user, settings.password) = (user, Some(password)))
    }

    /// Whether connections to the master and its replicas, and connections to the sentinels, are encrypted. Default
    /// neither.
    #[must_use]
    pub fn encrypted(self, servers: bool, sentinels: bool) -> Self {
        self.with(|settings| (settings.tls, settings.sentinel_tls) = (servers, sentinels))
    }

    /// The certificates to trust on connections to the sentinels. Default those of the [`Config`].
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    #[must_use]
    pub fn tls(self, tls: crate::Tls) -> Self {
        self.with(|settings| settings.trust = Some(tls))
    }

    /// The time for a sentinel to accept a connection, and to answer. Default 500 ms.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.timeout = timeout)
    }

    /// Connects to `reached` whenever a sentinel, a master or a replica is named `named`. For servers behind a tunnel, a
    /// proxy or address translation, whose own addresses cannot be reached from here. With TLS the certificate is checked
    /// against `reached`.
    #[must_use]
    pub fn reach(self, named: Node, reached: Node) -> Self {
        self.with(|settings| drop(settings.instead.insert(named, reached)))
    }

    /// The name of the master.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.settings.name
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Whether the handshake has to make sure that the server is a master.
    pub(crate) fn wants_master(&self) -> bool {
        self.inner.settings.role == Role::Master
    }

    /// The watch over the sentinels, which begins with the first call.
    pub(crate) fn watch(&self, config: &Config) -> &Arc<Watch> {
        let running = &self.inner.running;
        running.get_or_init(|| Handle::start(self, config)).watch()
    }

    /// The server to connect to by now, in this thread.
    ///
    /// # Errors
    /// The reason why no sentinel names one, or the end of the connect timeout.
    pub(crate) fn find(&self, config: &Config, deadline: Instant) -> Result<Arc<Lease>, Error> {
        self.watch(config).find(self, deadline)
    }

    /// The server to connect to by now.
    ///
    /// # Errors
    /// The reason why no sentinel names one.
    #[cfg(feature = "tokio")]
    pub(crate) async fn find_async(&self, config: &Config) -> Result<Arc<Lease>, Error> {
        self.watch(config).find_async(self).await
    }

    /// The address of a master or a replica.
    pub(crate) fn server(&self, node: &Node) -> Address {
        self.address(node, self.settings().tls)
    }

    /// The address of a sentinel.
    pub(crate) fn address_of(&self, sentinel: &Node) -> Address {
        self.address(sentinel, self.settings().sentinel_tls)
    }

    /// The configuration of connections to the sentinels, with the address of none.
    pub(crate) fn own_config(&self, config: &Config) -> Config {
        let settings = self.settings();
        let mut own = Config::new(self.address_of(&Node::new("", 0)));
        own.user.clone_from(&settings.user);
        own.password.clone_from(&settings.password);
        own.connect_timeout = settings.timeout;
        own.response_timeout = Some(settings.timeout);
        own.retry = RetryPolicy::Never;
        own.tcp_keepalive = config.tcp_keepalive;
        own.client_name.clone_from(&config.client_name);
        #[cfg(feature = "tls")]
        {
            own.tls = settings.trust.as_ref().unwrap_or(&config.tls).clone();
        }
        own
    }

    fn address(&self, node: &Node, tls: bool) -> Address {
        let node = self.settings().instead.get(node).unwrap_or(node);
        let (host, port) = (node.host().to_owned(), node.port());
        if tls {
            Address::Tls { host, port }
        } else {
            Address::Tcp { host, port }
        }
    }
}

impl From<Settings> for Sentinel {
    fn from(settings: Settings) -> Self {
        Self {
            inner: Arc::new(Inner {
                settings,
                running: OnceLock::new(),
            }),
        }
    }
}

/// The name and the sentinels, without the credentials.
impl fmt::Debug for Sentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.settings();
        f.debug_struct("Sentinel")
            .field("name", &settings.name)
            .field("sentinels", &settings.sentinels)
            .finish_non_exhaustive()
    }
}

/// Whether both are clones of one.
impl PartialEq for Sentinel {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Sentinel {}
