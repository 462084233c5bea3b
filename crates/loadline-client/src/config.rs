//! Where a server is, and how to talk to it: URLs and their options.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use loadline_resp::{Limits, Protocol};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::{Error, RetryPolicy};

const DEFAULT_PORT: u16 = 6379;
/// The options of a URL.
const OPTIONS: &str = "connect_timeout, response_timeout, keepalive, resp, retry, client_name, spin, max_queue_bytes, \
                       db, user and password";

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// A host name or address, and a port.
    Tcp {
        /// The name or address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// The same with TLS; the certificate must be for this host.
    Tls {
        /// The name or address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

/// A password, which no `Debug` shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Takes the password.
    #[must_use]
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(hidden)")
    }
}

/// All that is needed to connect, and what a connection may do.
///
/// A URL can carry all of it but the limits of a reply and what TLS trusts, which are for the program to say;
/// see [`Config::from_url`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Where the server is.
    pub address: Address,
    /// The user of the access control list; without one it is `default`.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<Password>,
    /// The database that is selected. Default 0.
    pub database: u32,
    /// The version of the protocol. Default RESP3, or RESP2 where the server does not know it.
    pub protocol: Option<Protocol>,
    /// The name that `CLIENT LIST` shows.
    pub client_name: Option<String>,
    /// How long one attempt to connect, with TLS and the handshake, may take. Default 1 s.
    pub connect_timeout: Duration,
    /// How long a reply may take, the time without a connection included. Default 2 s; `None` is without
    /// end. A connection on which a reply is overdue is given up.
    pub response_timeout: Option<Duration>,
    /// After how long without a byte from the server a multiplexed connection asks whether it is still
    /// there. Default 5 s; `None` is never.
    pub keepalive: Option<Duration>,
    /// What is sent again after a connection broke. Default [`RetryPolicy::ReadOnly`].
    pub retry: RetryPolicy,
    /// How long a blocking connection asks for a reply again and again before it sleeps; it is quicker
    /// and costs a whole processor meanwhile. Default zero.
    pub spin: Duration,
    /// The most bytes of requests that may wait, unsent or unanswered, on a multiplexed connection, and of
    /// messages that wait for the consumer of a subscribing one. Default 64 MiB. One request or message
    /// alone may be larger.
    pub max_queue_bytes: usize,
    /// What a reply may be.
    pub limits: Limits,
    /// What TLS trusts.
    #[cfg(feature = "tls")]
    pub tls: crate::tls::Tls,
    /// Whom a connection is to.
    pub(crate) peer: Peer,
    /// What connections with this configuration, and its clones, count.
    #[cfg(feature = "metrics")]
    pub(crate) metrics: std::sync::Arc<crate::Metrics>,
}

/// Whom a connection is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A server that stands for itself: requests wait until it comes back.
    Server,
    /// A node of a cluster, which others may replace: requests that cannot be sent fail at once, so that
    /// they can go elsewhere.
    Node {
        /// Whether it answers reads as a replica.
        readonly: bool,
    },
}

impl Config {
    /// The defaults for a server at this address.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            user: None,
            password: None,
            database: 0,
            protocol: None,
            client_name: None,
            connect_timeout: Duration::from_secs(1),
            response_timeout: Some(Duration::from_secs(2)),
            keepalive: Some(Duration::from_secs(5)),
            retry: RetryPolicy::default(),
            spin: Duration::ZERO,
            max_queue_bytes: 64 << 20,
            limits: Limits::default(),
            peer: Peer::Server,
            #[cfg(feature = "tls")]
            tls: crate::tls::Tls::default(),
            #[cfg(feature = "metrics")]
            metrics: std::sync::Arc::default(),
        }
    }

    /// Reads `redis://[user:password@]host[:port][/database]`, the same with `rediss:` for TLS, or
    /// `unix:///path/to.sock`. Options follow as a query:
    ///
    /// | option | meaning |
    /// | --- | --- |
    /// | `connect_timeout`, `response_timeout`, `keepalive` | times with a unit: `250ms`, `2s`; `off` for the last two |
    /// | `resp` | `2` or `3` |
    /// | `retry` | `read-only`, `idempotent` or `never` |
    /// | `client_name` | a name without spaces |
    /// | `spin` | a time with a unit: `50us` |
    /// | `max_queue_bytes` | a number |
    /// | `db`, `user`, `password` | as in the URL proper; needed with `unix:` |
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
    /// [`Error::Url`] with what is wrong. The URL itself is not in the text, since it may hold a password.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let url = Url::parse(url).map_err(|error| fault(format!("the URL is not one: {error}")))?;
        let mut config = Self::new(address(&url)?);
        if !url.username().is_empty() {
            config.user = Some(decoded(url.username())?);
        }
        if let Some(password) = url.password() {
            config.password = Some(Password(decoded(password)?));
        }
        if !matches!(config.address, Address::Unix(_)) {
            let database = url.path().trim_start_matches('/');
            if !database.is_empty() {
                config.database = number(database, "the database")?;
            }
        }
        for (option, value) in url.query_pairs() {
            config.set(&option, &value)?;
        }
        Ok(config)
    }

    /// Sets one option by its name in a URL.
    ///
    /// # Errors
    /// [`Error::Url`] for an unknown option or a value that does not fit.
    fn set(&mut self, option: &str, value: &str) -> Result<(), Error> {
        match option {
            "connect_timeout" => self.connect_timeout = duration(value, option)?,
            "response_timeout" => self.response_timeout = optional_duration(value, option)?,
            "keepalive" => self.keepalive = optional_duration(value, option)?,
            "spin" => self.spin = duration(value, option)?,
            "max_queue_bytes" => self.max_queue_bytes = number(value, option)?,
            "db" => self.database = number(value, option)?,
            "user" => self.user = Some(value.to_owned()),
            "password" => self.password = Some(Password::new(value)),
            "client_name" if value.bytes().all(|byte| byte.is_ascii_graphic()) => {
                self.client_name = Some(value.to_owned());
            }
            "client_name" => {
                return Err(fault(
                    "client_name may hold no spaces or control characters".into(),
                ));
            }
            "resp" => {
                self.protocol = Some(match value {
                    "2" => Protocol::Resp2,
                    "3" => Protocol::Resp3,
                    _ => return Err(fault(format!("resp is 2 or 3, not `{value}`"))),
                });
            }
            "retry" => {
                self.retry = match value {
                    "read-only" => RetryPolicy::ReadOnly,
                    "idempotent" => RetryPolicy::Idempotent,
                    "never" => RetryPolicy::Never,
                    _ => {
                        return Err(fault(format!(
                            "retry is read-only, idempotent or never, not `{value}`"
                        )));
                    }
                };
            }
            _ => {
                return Err(fault(format!(
                    "there is no option `{option}` of a URL; there are {OPTIONS}"
                )));
            }
        }
        Ok(())
    }
}

fn fault(text: String) -> Error {
    Error::Url(text)
}

fn address(url: &Url) -> Result<Address, Error> {
    let host = || {
        let host = url.host_str().filter(|host| !host.is_empty());
        host.map(|host| host.trim_matches(['[', ']']).to_owned())
            .ok_or_else(|| fault("the URL names no host".into()))
    };
    let port = url.port().unwrap_or(DEFAULT_PORT);
    match url.scheme() {
        "redis" => Ok(Address::Tcp {
            host: host()?,
            port,
        }),
        "rediss" => Ok(Address::Tls {
            host: host()?,
            port,
        }),
        "unix" if url.path().len() > 1 && !url.has_host() => {
            Ok(Address::Unix(decoded(url.path())?.into()))
        }
        "unix" => Err(fault(
            "a unix URL is unix:///path/to.sock, with three slashes".into(),
        )),
        other => Err(fault(format!(
            "a URL starts with redis:, rediss: or unix:, not with {other}:"
        ))),
    }
}

fn decoded(text: &str) -> Result<String, Error> {
    percent_decode_str(text)
        .decode_utf8()
        .map(Into::into)
        .map_err(|_| fault("the URL holds an escape that is not UTF-8".into()))
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, Error> {
    text.parse()
        .map_err(|_| fault(format!("{what} is a number, not `{text}`")))
}

fn optional_duration(text: &str, what: &str) -> Result<Option<Duration>, Error> {
    if text == "off" {
        return Ok(None);
    }
    duration(text, what).map(Some)
}

/// A whole number with its unit: `us`, `ms`, `s` or `m`.
fn duration(text: &str, what: &str) -> Result<Duration, Error> {
    let wrong = || {
        fault(format!(
            "{what} is a time such as 250ms or 2s, not `{text}`"
        ))
    };
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
    fn a_socket_has_its_options_in_the_query() {
        let config = Config::from_url("unix:///run/my%20redis.sock?db=4&password=x").unwrap();
        assert_eq!(config.address, Address::Unix("/run/my redis.sock".into()));
        assert_eq!(config.database, 4);
        assert!(config.password.is_some());
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        assert!(refused("http://host").contains("redis:"));
        assert!(refused("redis://host/x").contains("the database"));
        assert!(refused("redis://host?resp=4").contains("resp is 2 or 3"));
        assert!(refused("redis://host?response_timeout=5").contains("250ms"));
        let unknown = refused("redis://host?spinn=5us");
        assert!(unknown.contains("`spinn`"), "{unknown}");
        for option in OPTIONS
            .split([',', ' '])
            .filter(|word| !word.is_empty() && *word != "and")
        {
            assert!(unknown.contains(option), "{unknown}");
            // What is named as an option is known as one, whatever it makes of this value.
            let known = Config::from_url(&format!("redis://host?{option}=1")).map(drop);
            let error = known.map_or_else(|error| error.to_string(), |()| String::new());
            assert!(!error.contains("no option"), "{error}");
        }
        assert!(refused("unix://run/redis.sock").contains("three slashes"));
        assert!(!refused("redis://:hunter2@host:notaport").contains("hunter2"));
        assert!(!refused("redis://:hunter2@host/db").contains("hunter2"));
    }
}
