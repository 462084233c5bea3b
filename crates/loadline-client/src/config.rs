//! Where a server is, and how to talk to it: URLs and their options.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use loadline_resp::{Limits, Protocol};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::sentinel::Sentinel;
use crate::{Address, ConnectionEvents, Credentials, Error, Password, RetryPolicy};

const DEFAULT_PORT: u16 = 6379;
/// The longest pause between two attempts to connect to a server that sentinels name, where news cannot end it.
const LONGEST_DEAF_PAUSE: Duration = Duration::from_millis(50);
/// The likely mistake behind a URL that cannot be read.
const ESCAPES: &str =
    "in a user name or password, `/`, `?`, `#` and `%` are written as %2F, %3F, %23 and %25";
/// The options of a URL.
const OPTIONS: &str = "connect_timeout, response_timeout, keepalive, tcp_keepalive, resp, protocol, retry, client_name, spin, max_queue_bytes, \
                       db, user and password";

/// The address of a server, credentials, and the options of a connection.
///
/// [`Config::from_url`] reads all of it from a URL, except for the limits of a reply and the TLS settings.
/// `Debug` shows no password.
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// Where the server is.
    pub address: Address,
    /// The user of the access control list. Without one it is `default`.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<Password>,
    /// Credentials that can change, in place of the user and password.
    pub credentials: Option<Credentials>,
    /// The queue of the events of all connections.
    pub events: Option<ConnectionEvents>,
    /// The number of the database. Default 0.
    pub database: u32,
    /// The version of the protocol. Default RESP3, or RESP2 if the server does not know RESP3.
    pub protocol: Option<Protocol>,
    /// The name that `CLIENT LIST` shows.
    pub client_name: Option<String>,
    /// The limit of one attempt to connect, including TLS and the handshake. Default 1 s.
    pub connect_timeout: Duration,
    /// The limit for a reply, including the time without a connection. Default 2 s; `None` is no limit. A
    /// connection on which a reply is overdue is closed. On a multiplexed connection, a request that waited for the
    /// connection has at least a quarter of the limit from when that is ready.
    pub response_timeout: Option<Duration>,
    /// The silence after which a multiplexed connection sends `PING` to find out whether the server is still
    /// there. Default 5 s; `None` is never.
    pub keepalive: Option<Duration>,
    /// The silence after which the operating system probes whether the peer of a TCP connection still exists. A
    /// third of it lies between two probes, and three without an answer break the connection, so that a command
    /// without a time limit notices a peer that has vanished. Default 15 s; `None` is never.
    pub tcp_keepalive: Option<Duration>,
    /// The requests that are sent again after a connection broke. Default [`RetryPolicy::ReadOnly`].
    pub retry: RetryPolicy,
    /// Time for which a blocking connection polls the socket for a reply before it sleeps. Polling is faster and
    /// uses a whole CPU. Default zero.
    pub spin: Duration,
    /// The limit in bytes for the unsent and unanswered requests of a multiplexed connection, and for the
    /// messages that wait for the consumer of a subscriber, each with what the client holds besides their bytes.
    /// Default 64 MiB. A single request or message can be larger.
    pub max_queue_bytes: usize,
    /// The limits of a reply.
    pub limits: Limits,
    /// The certificates that TLS trusts.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub tls: crate::tls::Tls,
    /// The reports of requests to OpenTelemetry.
    #[cfg(feature = "opentelemetry")]
    #[cfg_attr(docsrs, doc(cfg(feature = "opentelemetry")))]
    pub telemetry: Option<crate::Telemetry>,
    /// The kind of server.
    pub(crate) peer: Peer,
    /// The counts of all connections with this configuration and its clones.
    #[cfg(feature = "metrics")]
    pub(crate) metrics: std::sync::Arc<crate::Metrics>,
}

/// The kind of server that a connection is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A single server: requests wait until it comes back.
    Server,
    /// A node of a cluster, which another node can replace: requests that cannot be sent fail at once, so
    /// that they can go to another node.
    Node {
        /// Whether it answers reads as a replica.
        readonly: bool,
    },
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `redis://secret@host` has the password in the place of the user.
        let user = match (&self.user, &self.password) {
            (Some(_), None) => Some("(hidden, since there is no password)"),
            (user, _) => user.as_deref(),
        };
        f.debug_struct("Config")
            .field("address", &self.address)
            .field("user", &user)
            .field("password", &self.password)
            .field("credentials", &self.credentials)
            .field("database", &self.database)
            .field("protocol", &self.protocol)
            .field("client_name", &self.client_name)
            .field("connect_timeout", &self.connect_timeout)
            .field("response_timeout", &self.response_timeout)
            .field("keepalive", &self.keepalive)
            .field("retry", &self.retry)
            .field("spin", &self.spin)
            .field("max_queue_bytes", &self.max_queue_bytes)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// The defaults for a server at this address.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            user: None,
            password: None,
            credentials: None,
            events: None,
            database: 0,
            protocol: None,
            client_name: None,
            connect_timeout: Duration::from_secs(1),
            response_timeout: Some(Duration::from_secs(2)),
            keepalive: Some(Duration::from_secs(5)),
            tcp_keepalive: Some(Duration::from_secs(15)),
            retry: RetryPolicy::default(),
            spin: Duration::ZERO,
            max_queue_bytes: 64 << 20,
            limits: Limits::default(),
            peer: Peer::Server,
            #[cfg(feature = "tls")]
            tls: crate::tls::Tls::default(),
            #[cfg(feature = "opentelemetry")]
            telemetry: None,
            #[cfg(feature = "metrics")]
            metrics: std::sync::Arc::default(),
        }
    }

    /// Reads `redis://[user:password@]host[:port][/database]`, the same with `rediss:` for TLS, or
    /// `unix:///path/to.sock`. `valkey:` is the same as `redis:`, `valkeys:` as `rediss:`, and `redis+unix:` and
    /// `valkey+unix:` are the same as `unix:`. `sentinel://[user:password@]host[:port][,host[:port]...]/name[/database]`
    /// is the master of this name, with the credentials of the master, and `sentinels:` the same with TLS; see
    /// [`sentinel`](crate::sentinel). Options follow as a query:
    ///
    /// | option | meaning |
    /// | --- | --- |
    /// | `connect_timeout`, `response_timeout`, `keepalive`, `tcp_keepalive` | times with a unit: `250ms`, `2s`; `off` for all but the first |
    /// | `resp`, or `protocol` as other clients call it | `2` or `3` |
    /// | `retry` | `read-only`, `idempotent` or `never` |
    /// | `client_name` | a name without spaces |
    /// | `spin` | a time with a unit: `50us` |
    /// | `max_queue_bytes` | a number |
    /// | `db`, `user`, `password` | as in the URL proper; needed with `unix:` |
    /// | `sentinel_user`, `sentinel_password` | the credentials for the sentinels |
    /// | `sentinel_tls` | `on` or `off`: whether connections to the sentinels are encrypted; default as for the master |
    /// | `role` | `master`, or `replica` for reads from the replicas of a master that sentinels name |
    ///
    /// ```
    /// use loadline_client::Config;
    ///
    /// let config = Config::from_url("redis://:secret@localhost/2?response_timeout=500ms&retry=never")?;
    /// assert_eq!(config.database, 2);
    /// assert!(!format!("{config:?}").contains("secret"));
    /// # Ok::<(), loadline_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Url`] with the reason. The text contains no part of the URL that can belong to a password.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let (plain, sentinel) = match Sentinel::split_url(url)? {
            Some((sentinel, plain)) => (Cow::Owned(plain), Some(sentinel)),
            None => (Cow::Borrowed(url), None),
        };
        let parsed = Url::parse(&plain).map_err(|error| fault(format!("invalid URL: {error}")))?;
        if parsed.fragment().is_some() {
            return Err(fault(format!("the URL has a part after `#`; {ESCAPES}")));
        }
        let mut config = Self::new(address(&parsed)?);
        if !parsed.username().is_empty() {
            config.user = Some(decoded(parsed.username())?);
        }
        if let Some(password) = parsed.password() {
            config.password = Some(Password::new(decoded(password)?));
        }
        if !matches!(config.address, Address::Unix(_)) {
            config.database = database(parsed.path())?;
        }
        if let Some(sentinel) = sentinel {
            config.address = Address::Sentinel(sentinel);
        }
        for (option, value) in parsed.query_pairs() {
            // In a URL without credentials, an unknown word is no part of a password.
            let shown = (!url.contains('@')).then_some(&*option);
            config.set(&option, &value, shown)?;
        }
        Ok(config)
    }

    /// Sleeps for a pause between two attempts to connect. If sentinels name the server, news of it end the pause.
    pub(crate) fn pause(&self, pause: Duration) {
        match &self.address {
            Address::Sentinel(sentinel) => sentinel.watch(self).pause(pause),
            _ => std::thread::sleep(pause),
        }
    }

    /// The pause between two attempts to connect for a caller that cannot be woken by news of the server.
    pub(crate) fn shortened(&self, pause: Duration) -> Duration {
        match &self.address {
            Address::Sentinel(sentinel) => sentinel
                .watch(self)
                .shortened(pause)
                .min(LONGEST_DEAF_PAUSE),
            _ => pause,
        }
    }

    /// Sets one option by its name in a URL. The name is `shown` in the error if it is unknown.
    ///
    /// # Errors
    /// [`Error::Url`] for an unknown option or an invalid value.
    fn set(&mut self, option: &str, value: &str, shown: Option<&str>) -> Result<(), Error> {
        if let Address::Sentinel(sentinel) = &mut self.address
            && let Some(set) = sentinel.set_option(option, value)
        {
            return set;
        }
        match option {
            "connect_timeout" => self.connect_timeout = duration(value, option)?,
            "response_timeout" => self.response_timeout = optional_duration(value, option)?,
            "keepalive" => self.keepalive = optional_duration(value, option)?,
            "tcp_keepalive" => self.tcp_keepalive = optional_duration(value, option)?,
            "spin" => self.spin = duration(value, option)?,
            "max_queue_bytes" => self.max_queue_bytes = number(value, option)?,
            "db" => self.database = number(value, option)?,
            "user" => self.user = Some(value.to_owned()),
            "password" => self.password = Some(Password::new(value)),
            "client_name" if value.bytes().all(|byte| byte.is_ascii_graphic()) => {
                self.client_name = Some(value.to_owned());
            }
            "client_name" => {
                return Err(invalid(
                    option,
                    "a name without spaces or control characters",
                ));
            }
            "resp" | "protocol" => {
                self.protocol = Some(match value {
                    "2" | "resp2" => Protocol::Resp2,
                    "3" | "resp3" => Protocol::Resp3,
                    _ => return Err(invalid(option, "2 or 3")),
                });
            }
            "retry" => {
                self.retry = match value {
                    "read-only" => RetryPolicy::ReadOnly,
                    "idempotent" => RetryPolicy::Idempotent,
                    "never" => RetryPolicy::Never,
                    _ => return Err(invalid(option, "read-only, idempotent or never")),
                };
            }
            _ => {
                let name = shown.map_or_else(String::new, |option| format!(" `{option}`"));
                return Err(fault(format!(
                    "unknown option{name} in the URL; the options are {OPTIONS}; {ESCAPES}"
                )));
            }
        }
        Ok(())
    }
}

fn fault(text: String) -> Error {
    Error::Url(text)
}

/// The error for an option whose value cannot be read. The value is left out, since in a URL whose password
/// is not escaped it can be a part of it.
fn invalid(option: &str, expected: &str) -> Error {
    fault(format!("invalid {option} in the URL: expected {expected}"))
}

/// The database that a path selects.
fn database(path: &str) -> Result<u32, Error> {
    let number = path.trim_start_matches('/');
    if number.is_empty() {
        return Ok(0);
    }
    let wrong = |_| {
        fault(format!(
            "the path of the URL must be the number of the database, such as /2; {ESCAPES}"
        ))
    };
    number.parse().map_err(wrong)
}

fn address(url: &Url) -> Result<Address, Error> {
    let host = || {
        let host = url.host_str().filter(|host| !host.is_empty());
        host.map(|host| host.trim_matches(['[', ']']).to_owned())
            .ok_or_else(|| fault("the URL names no host".into()))
    };
    let port = url.port().unwrap_or(DEFAULT_PORT);
    match url.scheme() {
        "redis" | "valkey" => Ok(Address::Tcp {
            host: host()?,
            port,
        }),
        "rediss" | "valkeys" => Ok(Address::Tls {
            host: host()?,
            port,
        }),
        "unix" | "redis+unix" | "valkey+unix" if url.path().len() > 1 && !url.has_host() => {
            Ok(Address::Unix(decoded(url.path())?.into()))
        }
        "unix" | "redis+unix" | "valkey+unix" => Err(fault(
            "invalid URL: expected unix:///path/to.sock, with three slashes".into(),
        )),
        // Without a scheme, its place is that of a user name or password.
        _ => Err(fault(
            "invalid URL: expected redis://, rediss://, unix:// or sentinel:// at its start".into(),
        )),
    }
}

fn decoded(text: &str) -> Result<String, Error> {
    percent_decode_str(text)
        .decode_utf8()
        .map(Into::into)
        .map_err(|_| fault("the URL has a percent-encoded part that is not UTF-8".into()))
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, Error> {
    text.parse().map_err(|_| invalid(what, "a number"))
}

fn optional_duration(text: &str, what: &str) -> Result<Option<Duration>, Error> {
    if text == "off" {
        return Ok(None);
    }
    duration(text, what).map(Some)
}

/// A whole number with its unit: `us`, `ms`, `s` or `m`.
fn duration(text: &str, what: &str) -> Result<Duration, Error> {
    let wrong = || invalid(what, "a time such as 250ms or 2s");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (count, unit) = text.split_at(digits);
    let count: u64 = count.parse().map_err(|_| wrong())?;
    match unit {
        "us" => Ok(Duration::from_micros(count)),
        "ms" => Ok(Duration::from_millis(count)),
        "s" => Ok(Duration::from_secs(count)),
        "m" => Ok(Duration::from_secs(
            count.checked_mul(60).ok_or_else(wrong)?,
        )),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        let error = Config::from_url(url).unwrap_err();
        assert!(matches!(error, Error::Url(_)));
        error.to_string()
    }

    #[test]
    fn every_part_of_a_url_is_read() {
        let url = "redis://me:p%40ss@[::1]:7000/3?connect_timeout=250ms&response_timeout=off\
                   &keepalive=10s&spin=50us&max_queue_bytes=1024&client_name=shop&resp=2&retry=idempotent";
        let config = Config::from_url(url).unwrap();
        let address = Address::Tcp {
            host: "::1".into(),
            port: 7000,
        };
        assert_eq!(config.address, address);
        assert_eq!(config.user.as_deref(), Some("me"));
        assert_eq!(config.password.as_ref().unwrap().reveal(), "p@ss");
        assert_eq!(config.database, 3);
        assert_eq!(config.connect_timeout, Duration::from_millis(250));
        assert_eq!(config.response_timeout, None);
        assert_eq!(config.keepalive, Some(Duration::from_secs(10)));
        assert_eq!(config.spin, Duration::from_micros(50));
        assert_eq!(config.max_queue_bytes, 1024);
        assert_eq!(config.client_name.as_deref(), Some("shop"));
        assert_eq!(config.protocol, Some(Protocol::Resp2));
        assert_eq!(config.retry, RetryPolicy::Idempotent);
    }

    #[test]
    fn schemes_and_options_of_other_clients_are_read() {
        let address = |url| Config::from_url(url).unwrap().address;
        assert_eq!(address("valkey://host:1"), address("redis://host:1"));
        assert_eq!(address("valkeys://host:1"), address("rediss://host:1"));
        for scheme in ["redis+unix", "valkey+unix"] {
            let url = format!("{scheme}:///run/redis.sock?db=4");
            let config = Config::from_url(&url).unwrap();
            assert_eq!(config.address, Address::Unix("/run/redis.sock".into()));
            assert_eq!(config.database, 4);
        }
        for (version, protocol) in [("2", Protocol::Resp2), ("3", Protocol::Resp3)] {
            let url = format!("redis://host?protocol={version}");
            assert_eq!(Config::from_url(&url).unwrap().protocol, Some(protocol));
            let url = format!("cluster://host?protocol=resp{version}");
            assert!(crate::cluster::Builder::from_url(&url).is_ok());
        }
        assert!(refused("redis://host?protocol=4").contains("2 or 3"));
    }

    #[test]
    fn socket_has_its_options_in_the_query() {
        let config = Config::from_url("unix:///run/my%20redis.sock?db=4&password=x").unwrap();
        assert_eq!(config.address, Address::Unix("/run/my redis.sock".into()));
        assert_eq!(config.database, 4);
        assert!(config.password.is_some());
    }

    #[test]
    fn url_errors_omit_the_password() {
        assert!(refused("http://host").contains("redis:"));
        assert!(refused("redis://host/x").contains("the database"));
        assert!(refused("redis://host?resp=4").contains("resp in the URL: expected 2 or 3"));
        assert!(refused("redis://host?response_timeout=5").contains("250ms"));
        let unknown = refused("redis://host?spinn=5us");
        assert!(unknown.contains("`spinn`"), "{unknown}");
        for option in OPTIONS
            .split([',', ' '])
            .filter(|word| !word.is_empty() && *word != "and")
        {
            assert!(unknown.contains(option), "{unknown}");
            // A name of an option is known as one, even with a value that it does not accept.
            let known = Config::from_url(&format!("redis://host?{option}=1")).map(drop);
            let error = known.map_or_else(|error| error.to_string(), |()| String::new());
            assert!(!error.contains("unknown option"), "{error}");
        }
        assert!(refused("unix://run/redis.sock").contains("three slashes"));
        assert!(!refused("redis://:hunter2@host:notaport").contains("hunter2"));
        assert!(!refused("redis://:hunter2@host/db").contains("hunter2"));
    }

    /// A password whose special characters are not escaped ends up in any part of the URL.
    #[test]
    fn no_part_of_a_password_is_in_an_error_or_a_debug_output() {
        let builder = |url: &str| {
            let cluster = url.replacen("redis:", "cluster:", 1);
            crate::cluster::Builder::from_url(&cluster).map(|builder| format!("{builder:?}"))
        };
        for url in [
            "redis://dave:p@ss/w:SECRET@host",
            "redis://u:12/SECRET@h",
            "redis://u:12#SECRET@h",
            "redis://u:12?SECRET@h",
            "redis://u:12?db=SECRET@h",
            "redis://u:12?resp=SECRET@h",
            "redis://u:12?retry=SECRET@h",
            "redis://u:12?spin=SECRET@h",
            "redis://u:12?client_name=SEC RET@h",
            "redis://u:12/SECRET",
            "redis://u:SECRET/12@h",
            "redis://u:SECRET",
            "SECRET:pw@host",
            "SECRET@host",
            "redis://SECRET@host",
            "redis://u:SECRET@host",
            "redis://u:S%45CRET@host",
            "redis://host?password=SECRET",
            "redis://host?user=SECRET",
        ] {
            let text = match Config::from_url(url) {
                Ok(config) => format!("{config:?} {:?}", crate::Client::open(url)),
                Err(error) => format!("{error} {error:?}"),
            };
            let cluster = match builder(url) {
                Ok(shown) => shown,
                Err(error) => format!("{error} {error:?}"),
            };
            for shown in [text, cluster] {
                assert!(!shown.contains("SEC"), "{url}: {shown}");
            }
        }
    }
}
