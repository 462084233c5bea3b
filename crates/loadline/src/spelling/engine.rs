//! The subjects of `loadline engines`: engines in this process and servers that are called like them, and the
//! durability that a write of theirs has.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::exit::Failure;
use crate::suggest;
use crate::units::{duration, duration_text};

/// The sync interval of `--durability interval`, and the only one that Redis has.
const INTERVAL: Duration = Duration::from_secs(1);

/// An embedded engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A hash table of the standard library behind locks: the limit in memory.
    Map,
    /// The store of this project.
    Store,
    /// The same, in memory and called by the commands of a workload.
    Ram,
    /// LMDB.
    Heed,
    /// redb.
    Redb,
    /// fjall.
    Fjall,
    /// RocksDB.
    RocksDb,
    /// SQLite.
    Sqlite,
}

/// Failures that an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Nothing, once the process ends.
    Memory,
    /// All of it if the process is killed; nothing is promised if the machine loses power.
    Process,
    /// After a power failure, all but the last stretch of this length.
    Interval(Duration),
    /// All of it, also after a power failure.
    Always,
}

/// An engine, or a server that is called like one, before its durability is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// In this process, its files in a fresh directory below the given one.
    Embedded(Kind, Option<PathBuf>),
    /// A server program, started for each class of durability.
    Spawned {
        program: PathBuf,
        /// Whether it is called through a socket in the file system.
        socket: bool,
    },
    /// Our own server.
    Served,
    /// A server that replies and does no work, for the share of the socket. It has every class and keeps nothing.
    Null,
}

/// Limits of an engine that is used as a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheLimits {
    /// The most keys that it holds.
    pub(crate) keys: u64,
    /// Time to live of each of them.
    pub(crate) ttl: Duration,
}

/// A [`Choice`] with its durability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Engine {
    pub(crate) choice: Choice,
    pub(crate) durability: Durability,
    /// Directory of its files, unless the choice names it.
    pub(crate) dir: Option<PathBuf>,
    /// Its limits, if it is used as a cache.
    pub(crate) cache: Option<CacheLimits>,
    /// Bytes of its cache of blocks or pages, if it has one; `None` for its default.
    pub(crate) memory_bytes: Option<u64>,
}

impl Kind {
    /// Those that are compared with each other, with their names.
    pub(crate) const ALL: [(&'static str, Self); 7] = [
        ("map", Self::Map),
        ("store", Self::Store),
        ("heed", Self::Heed),
        ("redb", Self::Redb),
        ("fjall", Self::Fjall),
        ("rocksdb", Self::RocksDb),
        ("sqlite", Self::Sqlite),
    ];

    /// Whether this build has it.
    pub(crate) fn is_built_in(self) -> bool {
        match self {
            Self::Map | Self::Store | Self::Ram | Self::Heed | Self::Redb | Self::Fjall => true,
            Self::RocksDb => cfg!(feature = "rocksdb"),
            Self::Sqlite => cfg!(feature = "sqlite"),
        }
    }

    /// The name as it is typed.
    pub(crate) fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(_, kind)| *kind == self);
        known.map_or("ram", |(name, _)| name)
    }

    /// The reason why it has no durability of this class, where it has none.
    fn lacks(self, durability: Durability) -> Option<&'static str> {
        match (self, durability) {
            (Self::Store, _) | (Self::Map | Self::Ram, Durability::Memory) => None,
            (Self::Map | Self::Ram, _) => Some("it keeps nothing on disk"),
            (_, Durability::Memory) => Some("its data are files"),
            (Self::Redb, Durability::Process) => {
                Some("a commit that it does not sync is lost with the process")
            }
            (Self::Heed | Self::Redb | Self::Fjall | Self::RocksDb | Self::Sqlite, _) => None,
        }
    }
}

impl Durability {
    /// Reads `memory`, `process`, `interval`, `interval:1s` or `always`.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "invalid durability `{text}`: expected memory, process, interval, interval:T (such as interval:1s) or always"
            )
        };
        match text.split_once(':') {
            None => match text {
                "memory" => Ok(Self::Memory),
                "process" => Ok(Self::Process),
                "interval" => Ok(Self::Interval(INTERVAL)),
                "always" => Ok(Self::Always),
                _ => Err(invalid()),
            },
            Some(("interval", time)) => match duration(time)? {
                Duration::ZERO => Err(invalid()),
                time => Ok(Self::Interval(time)),
            },
            Some(_) => Err(invalid()),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Process => f.write_str("process"),
            Self::Interval(time) => write!(f, "interval:{}", duration_text(*time)),
            Self::Always => f.write_str("always"),
        }
    }
}

impl Choice {
    /// Reads an engine as it is typed: `store`, `heed:DIR`, `redis`, `redis-unix`, `spawn:PROGRAM`, `embedded`.
    ///
    /// # Errors
    /// A usage error.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| Failure::usage(format!("ENGINE `{text}`: {why}"));
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        let redis = || PathBuf::from("redis-server");
        match (name, rest) {
            (_, Some("")) => Err(wrong("something is missing after the colon.")),
            ("redis", None) => Ok(Self::Spawned {
                program: redis(),
                socket: false,
            }),
            ("redis-unix", None) => Ok(Self::Spawned {
                program: redis(),
                socket: true,
            }),
            ("spawn" | "spawn-unix", Some(program)) => Ok(Self::Spawned {
                program: program.into(),
                socket: name == "spawn-unix",
            }),
            ("embedded", None) => Ok(Self::Served),
            _ => {
                if let Some((_, kind)) = Kind::ALL.iter().find(|(known, _)| *known == name) {
                    if !kind.is_built_in() {
                        return Err(wrong(&format!(
                            "not in this build; build Loadline with --features {name}."
                        )));
                    }
                    return Ok(Self::Embedded(*kind, rest.map(Into::into)));
                }
                let served = ["redis", "redis-unix", "spawn", "spawn-unix", "embedded"];
                let known = || Kind::ALL.iter().map(|(name, _)| *name).chain(served);
                let known_names = known().collect::<Vec<_>>().join(", ");
                Err(wrong(&match suggest::closest(name, known()) {
                    Some(meant) => format!("unknown engine; did you mean `{meant}`?"),
                    None => format!("unknown engine: expected one of {known_names}."),
                }))
            }
        }
    }

    /// Whether it can be a cache: whether its keys can have a time to live.
    pub(crate) fn can_expire(&self) -> bool {
        match self {
            Self::Embedded(kind, _) => *kind == Kind::Store,
            Self::Spawned { .. } | Self::Served | Self::Null => true,
        }
    }

    /// Whether every single read opens a transaction, which a batch of reads opens once.
    pub(crate) fn opens_transaction_per_read(&self) -> bool {
        matches!(
            self,
            Self::Embedded(Kind::Heed | Kind::Redb | Kind::Sqlite, _)
        )
    }

    /// Whether it is a server over TCP, so that the null server is what its socket alone takes.
    pub(crate) fn is_over_tcp(&self) -> bool {
        matches!(self, Self::Served | Self::Spawned { socket: false, .. })
    }

    /// Whether its memory, disk and recovery can be measured. A server behind a Unix socket is the same as over TCP, and the
    /// null server keeps nothing.
    pub(crate) fn has_footprint(&self) -> bool {
        !matches!(self, Self::Null | Self::Spawned { socket: true, .. })
    }

    /// Whether it is called through a connection.
    pub(crate) fn is_server(&self) -> bool {
        !matches!(self, Self::Embedded(..))
    }

    /// The reason why it has no durability of this class, where it has none.
    pub(crate) fn lacks(&self, durability: Durability) -> Option<&'static str> {
        match (self, durability) {
            (Self::Embedded(kind, _), durability) => kind.lacks(durability),
            (Self::Spawned { .. }, Durability::Interval(time)) if time != INTERVAL => {
                Some("it syncs every second (appendfsync everysec) and at no other interval")
            }
            (Self::Spawned { .. } | Self::Null | Self::Served, _) => None,
        }
    }
}

impl Engine {
    /// Our store in memory.
    pub(crate) const RAM: Self = Self {
        choice: Choice::Embedded(Kind::Ram, None),
        durability: Durability::Memory,
        dir: None,
        cache: None,
        memory_bytes: None,
    };

    /// Time to live that each write to it states; `None` without a limit, and where the engine has one by itself.
    pub(crate) fn ttl(&self) -> Option<Duration> {
        let cache = self.cache.filter(|_| self.choice.is_server());
        cache.map(|cache| cache.ttl)
    }

    /// Parent of its directory.
    pub(crate) fn parent(&self) -> PathBuf {
        let chosen = match &self.choice {
            Choice::Embedded(_, dir) => dir.as_ref(),
            _ => None,
        };
        let dir = chosen.or(self.dir.as_ref());
        dir.cloned().unwrap_or_else(std::env::temp_dir)
    }
}

/// Name in reports and for `--reference`.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(kind, _) => f.write_str(kind.name()),
            Self::Served => f.write_str("embedded"),
            Self::Null => f.write_str("null"),
            Self::Spawned { program, socket } => {
                let is_redis = program.as_os_str() == "redis-server";
                match (is_redis, socket) {
                    (true, false) => f.write_str("redis"),
                    (true, true) => f.write_str("redis-unix"),
                    (false, false) => write!(f, "spawn:{}", program.display()),
                    (false, true) => write!(f, "spawn-unix:{}", program.display()),
                }
            }
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.choice.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn engines_are_written_as_they_are_read() {
        for text in [
            "map",
            "store",
            "redis",
            "redis-unix",
            "embedded",
            "spawn:/opt/valkey",
            "spawn-unix:/opt/valkey",
        ] {
            assert_eq!(Choice::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Choice::parse("store:/data").unwrap(),
            Choice::Embedded(Kind::Store, Some("/data".into()))
        );
        for (text, why) in [
            ("stor", "did you mean `store`"),
            ("spawn:", "missing after the colon"),
            ("berkeley", "expected one of map, store"),
        ] {
            let failure = Choice::parse(text).unwrap_err();
            assert_eq!(failure.exit(), Exit::Usage);
            assert!(failure.to_string().contains(why), "{failure}");
        }
    }

    #[test]
    fn classes_of_durability_are_read_and_an_interval_has_a_unit() {
        for text in [
            "memory",
            "process",
            "interval:1s",
            "interval:10ms",
            "always",
        ] {
            assert_eq!(Durability::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Durability::parse("interval").unwrap(),
            Durability::Interval(INTERVAL)
        );
        for wrong in [
            "",
            "never",
            "interval:",
            "interval:5",
            "interval:0s",
            "always:1s",
        ] {
            assert!(Durability::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn engine_says_why_it_lacks_a_class() {
        let map = Choice::parse("map").unwrap();
        assert_eq!(map.lacks(Durability::Memory), None);
        assert!(map.lacks(Durability::Always).is_some());
        let redis = Choice::parse("redis").unwrap();
        assert_eq!(redis.lacks(Durability::Interval(INTERVAL)), None);
        assert!(
            redis
                .lacks(Durability::Interval(INTERVAL * 2))
                .unwrap()
                .contains("every second")
        );
    }
}
