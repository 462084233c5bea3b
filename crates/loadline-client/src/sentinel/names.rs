//! The name of a master, the sentinels that know it, and the settings of connections to them.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::Password;
use crate::cluster::Node;

/// The port of a sentinel that is named without one.
pub(super) const DEFAULT_PORT: u16 = 26_379;
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

/// Servers behind a name, and the sentinels that know their addresses. A clone is the same. See the [module](super).
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
    /// Whatever keeps them, which this type knows nothing of: connections need addresses, and this is a part of one.
    running: OnceLock<Box<dyn Any + Send + Sync>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) sentinels: Vec<Node>,
    pub(crate) role: Role,
    /// Whether connections to the master and its replicas are encrypted.
    pub(super) tls: bool,
    /// Whether connections to the sentinels are.
    pub(super) sentinel_tls: bool,
    pub(super) user: Option<String>,
    pub(super) password: Option<Password>,
    #[cfg(feature = "tls")]
    pub(super) trust: Option<crate::Tls>,
    pub(super) timeout: Duration,
    /// The addresses at which servers and sentinels are reached that are named by another one.
    pub(super) instead: HashMap<Node, Node>,
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
    pub(super) fn with(&self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.inner.settings.clone();
        change(&mut settings);
        Self::from(settings)
    }

    /// Connects to replicas, for reads. Default [`Role::Master`].
    #[must_use]
    pub fn role(self, role: Role) -> Self {
        self.with(|settings| settings.role = role)
    }

    /// The credentials for the sentinels. Those for the master are in the [`Config`](crate::Config); neither are sent to the others.
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

    /// The certificates to trust on connections to the sentinels. Default those of the [`Config`](crate::Config).
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

    /// What [`Inner::running`] holds, made by the first call.
    pub(super) fn running(
        &self,
        start: impl FnOnce() -> Box<dyn Any + Send + Sync>,
    ) -> &(dyn Any + Send + Sync) {
        &**self.inner.running.get_or_init(start)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Whether the handshake has to make sure that the server is a master.
    pub(crate) fn wants_master(&self) -> bool {
        self.inner.settings.role == Role::Master
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
