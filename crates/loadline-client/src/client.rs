//! A server to connect to, and the options of its connections.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use loadline_resp::{Limits, Protocol};

use crate::{
    Address, Config, ConnectionEvents, Credentials, Error, Password, RetryPolicy, ToArgs, blocking,
};

/// The address of a server and the options of its connections. Cheap to clone; it opens no connection by
/// itself.
///
/// ```
/// use std::time::Duration;
/// use loadline_client::{Client, RetryPolicy};
///
/// let client = Client::builder()
///     .url("redis://localhost:6379/1")?
///     .response_timeout(Some(Duration::from_millis(500)))
///     .retry(RetryPolicy::Idempotent)
///     .build();
/// assert_eq!(client.config().database, 1);
///
/// // A URL alone, as from the command line or the environment.
/// let client: Client = "rediss://cache.example".parse()?;
/// # drop(client);
/// # Ok::<(), loadline_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<Config>,
}

impl Client {
    /// A client of the server at this URL; see [`Config::from_url`].
    ///
    /// # Errors
    /// [`Error::Url`] with the reason.
    pub fn open(url: &str) -> Result<Self, Error> {
        Ok(Self::builder().url(url)?.build())
    }

    /// Starts from the defaults, and `localhost:6379`.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            config: Config::new(Address::Tcp {
                host: "localhost".into(),
                port: 6379,
            }),
        }
    }

    /// The options of its connections.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The counts and response times of all connections of this client and its clones.
    #[cfg(feature = "metrics")]
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    #[must_use]
    pub fn metrics(&self) -> &crate::Metrics {
        &self.config.metrics
    }

    /// Opens a connection for one thread.
    ///
    /// # Errors
    /// Fails if the single connection attempt fails.
    pub fn blocking(&self) -> Result<blocking::Connection, Error> {
        blocking::Connection::open(Arc::clone(&self.config))
    }

    /// Opens a subscriber for one thread.
    ///
    /// # Errors
    /// Fails if the single connection attempt fails. Later on the connection comes back by itself.
    pub fn blocking_pubsub(&self) -> Result<blocking::PubSub, Error> {
        blocking::PubSub::open(Arc::clone(&self.config))
    }

    /// Opens a connection that reports changes of the keys with these prefixes to one thread; see
    /// [`tracking`](crate::tracking). The empty prefix is all keys. One prefix must not begin with another one.
    ///
    /// # Errors
    /// Fails if the single connection attempt fails, if the server refuses a prefix, and without RESP3. Later on the
    /// connection comes back by itself.
    pub fn blocking_tracking(&self, prefixes: impl ToArgs) -> Result<blocking::Tracking, Error> {
        blocking::Tracking::open(&self.config, &prefixes)
    }

    /// Opens a connection that any number of tasks share, and a task that drives it. Needs a runtime of
    /// tokio with its drivers for I/O and time.
    ///
    /// # Errors
    /// Fails if the single connection attempt fails, and with [`Error::Usage`] without a runtime. Later on the connection
    /// comes back by itself.
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub async fn multiplexed(&self) -> Result<crate::multiplexed::Connection, Error> {
        crate::multiplexed::Connection::open(Arc::clone(&self.config)).await
    }

    /// Opens a pool and its first connections. Needs a runtime as [`Client::multiplexed`] does, which must run
    /// for as long as the pool is used.
    ///
    /// # Errors
    /// [`Error::Usage`] for limits that contradict each other. Fails if the single attempt to open a connection
    /// fails.
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub async fn pool(&self, limits: crate::pool::Limits) -> Result<crate::pool::Pool, Error> {
        crate::pool::Pool::open(Arc::clone(&self.config), limits, &Arc::default()).await
    }

    /// Opens a connection with one owner, for commands that block or that change the state of the connection.
    /// Needs a runtime as [`Client::multiplexed`] does.
    ///
    /// # Errors
    /// Fails if the single connection attempt fails.
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub async fn dedicated(&self) -> Result<crate::multiplexed::Dedicated, Error> {
        crate::multiplexed::Dedicated::open(Arc::clone(&self.config)).await
    }

    /// Opens a subscriber. Needs a runtime as [`Client::multiplexed`] does.
    ///
    /// # Errors
    /// Fails if the single connection attempt fails. Later on the connection comes back by itself.
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub async fn pubsub(&self) -> Result<crate::pubsub::PubSub, Error> {
        crate::pubsub::PubSub::open(Arc::clone(&self.config)).await
    }

    /// Opens a connection that reports changes of the keys with these prefixes, as
    /// [`Client::blocking_tracking`] does. Needs a runtime as [`Client::multiplexed`] does.
    ///
    /// # Errors
    /// Those of [`Client::blocking_tracking`].
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub async fn tracking(
        &self,
        prefixes: impl ToArgs,
    ) -> Result<crate::tracking::Tracking, Error> {
        crate::tracking::Tracking::open(&self.config, &prefixes).await
    }
}

/// Reads a URL, as [`Client::open`] does.
impl FromStr for Client {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        Self::open(url)
    }
}

/// A client with all options set, such as those of another client with a change.
///
/// ```
/// use loadline_client::Client;
///
/// let client = Client::open("redis://localhost")?;
/// let mut config = client.config().clone();
/// config.client_name = Some("worker".into());
/// let worker = Client::from(config);
/// # drop(worker);
/// # Ok::<(), loadline_client::Error>(())
/// ```
impl From<Config> for Client {
    fn from(config: Config) -> Self {
        Self {
            config: Arc::new(config),
        }
    }
}

/// Sets the options of a [`Client`]; the fields of [`Config`] say what they mean.
#[derive(Clone, Debug)]
pub struct Builder {
    config: Config,
}

/// One setter per option.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $type) -> Self {
            self.config.$name = $name;
            self
        }
    )*};
}

impl Builder {
    /// Replaces all options by those of a URL; see [`Config::from_url`].
    ///
    /// # Errors
    /// [`Error::Url`] with the reason.
    pub fn url(self, url: &str) -> Result<Self, Error> {
        Config::from_url(url).map(|config| Self { config })
    }

    setters! {
        /// The address of the server.
        address: Address;
        /// The number of the database.
        database: u32;
        /// The version of the protocol; `None` is RESP3 if the server knows it.
        protocol: Option<Protocol>;
        /// The limit of one attempt to connect.
        connect_timeout: Duration;
        /// The limit for a reply; `None` is no limit.
        response_timeout: Option<Duration>;
        /// The silence after which a multiplexed connection sends `PING`; `None` is never.
        keepalive: Option<Duration>;
        /// The silence after which the operating system probes the peer of a TCP connection; `None` is never.
        tcp_keepalive: Option<Duration>;
        /// The requests that are sent again after a connection broke.
        retry: RetryPolicy;
        /// Time for which a blocking connection polls the socket for a reply before it sleeps.
        spin: Duration;
        /// The limit in bytes for the unsent and unanswered requests of a multiplexed connection.
        max_queue_bytes: usize;
        /// The limits of a reply.
        limits: Limits;
    }

    /// The certificates that TLS trusts.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    #[must_use]
    pub fn tls(mut self, tls: crate::Tls) -> Self {
        self.config.tls = tls;
        self
    }

    /// Reports requests to OpenTelemetry.
    #[cfg(feature = "opentelemetry")]
    #[cfg_attr(docsrs, doc(cfg(feature = "opentelemetry")))]
    #[must_use]
    pub fn telemetry(mut self, telemetry: crate::Telemetry) -> Self {
        self.config.telemetry = Some(telemetry);
        self
    }

    /// A user of the access control list, and the password.
    #[must_use]
    pub fn login(mut self, user: impl Into<String>, password: Password) -> Self {
        self.config.user = Some(user.into());
        self.config.password = Some(password);
        self
    }

    /// The password of the default user.
    #[must_use]
    pub fn password(mut self, password: Password) -> Self {
        self.config.password = Some(password);
        self
    }

    /// Credentials that can change, in place of a user and password.
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.config.credentials = Some(credentials);
        self
    }

    /// The queue of the events of all connections.
    #[must_use]
    pub fn events(mut self, events: ConnectionEvents) -> Self {
        self.config.events = Some(events);
        self
    }

    /// The name that `CLIENT LIST` shows, without spaces.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.config.client_name = Some(name.into());
        self
    }

    /// Returns the client. It opens nothing yet.
    #[must_use]
    pub fn build(self) -> Client {
        Client {
            config: Arc::new(self.config),
        }
    }
}
