//! Where connections come from.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use loadline_resp::{Limits, Protocol};

use crate::{Address, Config, Error, Password, RetryPolicy, blocking};

/// A server and how to talk to it. It opens nothing by itself, and is cheap to clone.
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
    /// [`Error::Url`] with what is wrong with it.
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

    /// What connections are made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What all connections of this client, and of its clones, have done.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn metrics(&self) -> &crate::Metrics {
        &self.config.metrics
    }

    /// Opens a connection for one thread.
    ///
    /// # Errors
    /// Why there is none; it is tried once.
    pub fn blocking(&self) -> Result<blocking::Connection, Error> {
        blocking::Connection::open(Arc::clone(&self.config))
    }

    /// Opens a connection that receives what is published, for one thread.
    ///
    /// # Errors
    /// Why there is none; it is tried once. Later on the connection comes back by itself.
    pub fn blocking_pubsub(&self) -> Result<blocking::PubSub, Error> {
        blocking::PubSub::open(Arc::clone(&self.config))
    }

    /// Opens a connection that any number of tasks share, and a task that drives it. Needs a runtime of
    /// tokio with its drivers for I/O and time.
    ///
    /// # Errors
    /// Why there is none; it is tried once. Later on the connection comes back by itself.
    #[cfg(feature = "tokio")]
    pub async fn multiplexed(&self) -> Result<crate::multiplexed::Connection, Error> {
        crate::multiplexed::Connection::open(Arc::clone(&self.config)).await
    }

    /// Opens a pool, and its first connections. Needs a runtime as [`Client::multiplexed`] does, which
    /// must go on for as long as the pool is used.
    ///
    /// # Errors
    /// [`Error::Usage`] for limits that cannot be, or why there is no connection; it is tried once.
    #[cfg(feature = "tokio")]
    pub async fn pool(&self, limits: crate::pool::Limits) -> Result<crate::pool::Pool, Error> {
        crate::pool::Pool::open(Arc::clone(&self.config), limits).await
    }

    /// Opens a connection with one owner, for commands that wait or that change the connection's state.
    /// Needs a runtime as [`Client::multiplexed`] does.
    ///
    /// # Errors
    /// Why there is none; it is tried once.
    #[cfg(feature = "tokio")]
    pub async fn dedicated(&self) -> Result<crate::multiplexed::Dedicated, Error> {
        crate::multiplexed::Dedicated::open(Arc::clone(&self.config)).await
    }

    /// Opens a connection that receives what is published. Needs a runtime as [`Client::multiplexed`] does.
    ///
    /// # Errors
    /// Why there is none; it is tried once. Later on the connection comes back by itself.
    #[cfg(feature = "tokio")]
    pub async fn pubsub(&self) -> Result<crate::pubsub::PubSub, Error> {
        crate::pubsub::PubSub::open(Arc::clone(&self.config)).await
    }
}

/// Reads a URL, as [`Client::open`] does.
impl FromStr for Client {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        Self::open(url)
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
    /// Takes everything from a URL, see [`Config::from_url`]; what was set before is gone.
    ///
    /// # Errors
    /// [`Error::Url`] with what is wrong with it.
    pub fn url(self, url: &str) -> Result<Self, Error> {
        Config::from_url(url).map(|config| Self { config })
    }

    setters! {
        /// Where the server is.
        address: Address;
        /// The database that is selected.
        database: u32;
        /// The version of the protocol; `None` is RESP3 where the server knows it.
        protocol: Option<Protocol>;
        /// How long one attempt to connect may take.
        connect_timeout: Duration;
        /// How long a reply may take; `None` is without end.
        response_timeout: Option<Duration>;
        /// After how long a silence a multiplexed connection asks whether the server is there.
        keepalive: Option<Duration>;
        /// What is sent again after a connection broke.
        retry: RetryPolicy;
        /// How long a blocking connection looks for a reply before it sleeps.
        spin: Duration;
        /// The most bytes of requests that may wait on a multiplexed connection.
        max_queue_bytes: usize;
        /// What a reply may be.
        limits: Limits;
    }

    /// What TLS trusts.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: crate::Tls) -> Self {
        self.config.tls = tls;
        self
    }

    /// Who we are: a user of the access control list, and the password.
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

    /// The name that `CLIENT LIST` shows; it may hold no spaces.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.config.client_name = Some(name.into());
        self
    }

    /// The client; nothing is opened yet.
    #[must_use]
    pub fn build(self) -> Client {
        Client {
            config: Arc::new(self.config),
        }
    }
}
