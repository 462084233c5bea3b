//! The places of stores that URLs name.

use std::path::PathBuf;
use std::time::Duration;

use loadline_store::{Durability, Options};

use crate::Error;
use crate::engines::EngineAt;

/// Where a store is.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Ram,
    Directory(PathBuf, Options),
    Engine(EngineAt),
    /// A server, with a URL for the client.
    Server(String, Option<Wait>),
    Cluster(String, Option<Wait>),
}

/// Replicas that have to confirm a write, and how long it waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) replicas: u64,
    pub(crate) timeout: Duration,
}

/// Default time that a write waits for replicas.
const WAIT_MS: u64 = 1_000;
/// The interval of `durability=interval` by default.
const INTERVAL_MS: u64 = 1_000;

impl Place {
    /// # Errors
    /// [`Error::Url`].
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let invalid = |reason: &str| Error::Url {
            url: shown(url),
            reason: reason.to_owned(),
        };
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut own = Own::default();
        let mut others = Vec::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if !own.read(name, value).map_err(|reason| invalid(&reason))? {
                others.push(option);
            }
        }
        let is_remote = base.contains("://");
        if is_remote && (own.durability.is_some() || own.interval_ms.is_some()) {
            return Err(invalid(
                "the durability of a server is one of its own settings",
            ));
        }
        if !is_remote && (own.replicas.is_some() || own.wait_ms.is_some()) {
            return Err(invalid("only a server has replicas"));
        }
        if !is_remote && let Some(option) = others.first() {
            return Err(invalid(&format!("unknown option `{option}`")));
        }
        let full = match others.is_empty() {
            true => base.to_owned(),
            false => format!("{base}?{}", others.join("&")),
        };
        let wait = own.replicas.map(|replicas| Wait {
            replicas,
            timeout: Duration::from_millis(own.wait_ms.unwrap_or(WAIT_MS)),
        });
        match base.split_once(':') {
            None if base == "ram" && own.durability.is_none() => Ok(Self::Ram),
            Some(("store", dir)) if !dir.is_empty() && !is_remote => {
                let options = Options::new().durability(own.durability()?);
                Ok(Self::Directory(dir.into(), options))
            }
            Some((name @ ("heed" | "redb" | "fjall" | "rocksdb"), dir))
                if !dir.is_empty() && !is_remote =>
            {
                match EngineAt::named(name, dir.into(), own.durability()?) {
                    Some(engine) => Ok(Self::Engine(engine)),
                    None => Err(invalid(&format!(
                        "this build of loadline-cache does not have the feature `{name}`"
                    ))),
                }
            }
            Some(("redis" | "rediss" | "unix" | "sentinel" | "sentinels", _)) if is_remote => {
                Ok(Self::Server(full, wait))
            }
            Some(("cluster" | "clusters", _)) if is_remote => Ok(Self::Cluster(full, wait)),
            _ => Err(invalid(
                "expected ram, store:DIR, heed:DIR, redb:DIR, fjall:DIR, rocksdb:DIR, redis://HOST:PORT, cluster://HOST:PORT or sentinel://HOST:PORT/NAME",
            )),
        }
    }
}

impl Place {
    /// Whether keys like this one can be kept there.
    pub(crate) fn keeps(&self, key: &[u8]) -> bool {
        match self {
            Self::Engine(engine) => engine.keeps(key),
            _ => true,
        }
    }

    /// The same place, with `timeout` as the limit of a connection for connecting and for a reply, where the URL has
    /// none.
    ///
    /// # Errors
    /// [`Error::Settings`].
    pub(crate) fn within(self, timeout: Duration) -> Result<Self, Error> {
        let us = timeout.as_micros();
        if us == 0 || u64::try_from(us).is_err() {
            return Err(Error::Settings(
                "the timeout of a tier is at least a microsecond",
            ));
        }
        let limited = |mut url: String| {
            for option in ["connect_timeout", "response_timeout"] {
                if !url.contains(&format!("{option}=")) {
                    let mark = if url.contains('?') { '&' } else { '?' };
                    url.push_str(&format!("{mark}{option}={us}us"));
                }
            }
            url
        };
        Ok(match self {
            Self::Server(url, wait) => Self::Server(limited(url), wait),
            Self::Cluster(url, wait) => Self::Cluster(limited(url), wait),
            place => place,
        })
    }
}

/// The options that are not those of the client.
#[derive(Debug, Default)]
struct Own {
    durability: Option<String>,
    interval_ms: Option<u64>,
    replicas: Option<u64>,
    wait_ms: Option<u64>,
}

impl Own {
    /// Reads an option, and says whether it is one of these.
    fn read(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let number = || {
            let number = value.parse::<u64>();
            number.map_err(|_| format!("`{name}` is `{value}`, but expected a whole number"))
        };
        match name {
            "durability" => match value {
                "process" | "interval" | "always" => self.durability = Some(value.to_owned()),
                _ => return Err("expected durability=process, interval or always".to_owned()),
            },
            "interval_ms" => self.interval_ms = Some(number()?),
            "wait_replicas" => self.replicas = Some(number()?),
            "wait_ms" => self.wait_ms = Some(number()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn durability(&self) -> Result<Durability, Error> {
        let interval = Duration::from_millis(self.interval_ms.unwrap_or(INTERVAL_MS));
        Ok(match self.durability.as_deref() {
            Some("always") => Durability::Always,
            Some("interval") => Durability::Interval(interval),
            _ => Durability::Process,
        })
    }
}

/// A URL without what may be a password.
fn shown(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((login, host)) => {
            let scheme = login.split_once("://").map_or("", |(scheme, _)| scheme);
            format!("{scheme}://***@{host}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_places() {
        assert!(matches!(Place::parse("ram"), Ok(Place::Ram)));
        let Ok(Place::Directory(dir, options)) = Place::parse("store:/var/lib/x?durability=always")
        else {
            panic!("a directory");
        };
        assert_eq!(
            (dir, options.durability),
            ("/var/lib/x".into(), Durability::Always)
        );
        let Ok(Place::Directory(_, options)) =
            Place::parse("store:x?durability=interval&interval_ms=20")
        else {
            panic!("a directory");
        };
        assert_eq!(
            options.durability,
            Durability::Interval(Duration::from_millis(20))
        );
        let Ok(Place::Server(url, wait)) = Place::parse("redis://h:1/2?wait_replicas=1&x=y") else {
            panic!("a server");
        };
        assert_eq!(url, "redis://h:1/2?x=y");
        assert_eq!(wait.unwrap().timeout, Duration::from_secs(1));
        assert!(matches!(
            Place::parse("cluster://a,b"),
            Ok(Place::Cluster(_, None))
        ));
        assert!(matches!(
            Place::parse("sentinel://a,b/m"),
            Ok(Place::Server(_, None))
        ));
    }

    #[test]
    fn other_urls_are_refused_without_their_password() {
        for (url, reason) in [
            ("", "expected ram"),
            ("store:", "expected ram"),
            ("rams", "expected ram"),
            ("ram?wait_replicas=1", "only a server"),
            ("ram?colour=red", "unknown option"),
            ("store:x?durability=maybe", "expected durability"),
            ("redis://h?wait_replicas=many", "whole number"),
            ("redis://h?durability=always", "settings"),
            ("heed:", "expected ram"),
            ("redb:x?durability=maybe", "expected durability"),
            #[cfg(not(feature = "fjall"))]
            ("fjall:x", "feature `fjall`"),
            #[cfg(not(feature = "rocksdb"))]
            ("rocksdb:x", "feature `rocksdb`"),
            ("http://ann:secret@h", "expected ram"),
        ] {
            let text = Place::parse(url).unwrap_err().to_string();
            assert!(text.contains(reason) && !text.contains("secret"), "{text}");
        }
    }
}
