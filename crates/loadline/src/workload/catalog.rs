//! The commands that a workload can send. Others are refused: commands that block, that change the mode of the
//! connection, that reach keys of other applications, or whose keys cannot be determined
//! from their arguments (`FLUSHALL`, `CONFIG`, `DEBUG`, `KEYS`, `EVAL`, `SUBSCRIBE`, `BLPOP` ...).

use loadline_client::{Keys, cmd};

/// A command that a workload can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its name in capitals.
    pub(crate) name: &'static str,
    /// Which arguments are keys (or, for PUBLISH, its channel).
    pub(crate) keys: Keys,
    /// The kind of value that it works on.
    pub(crate) family: Family,
    /// Its reply.
    pub(crate) gives: Gives,
}

impl Known {
    /// The words among `arguments`, which follow the name, that are keys; `None` if some are missing.
    pub(crate) fn keys_among(&self, arguments: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
        let command = cmd::<()>(self.name).keys(self.keys).arg(arguments);
        let keys: Vec<Vec<u8>> = (command.routing_keys().iter())
            .map(|key| key.to_vec())
            .collect();
        let fewest = match self.keys {
            Keys::None => 0,
            Keys::FirstTwo => 2,
            _ => 1,
        };
        (keys.len() >= fewest).then_some(keys)
    }
}

/// The kind of value that a command works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// No value, or any.
    Any,
    /// Strings and counters.
    Text,
    /// Hashes.
    Hash,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Streams.
    Stream,
}

/// The reply of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    /// It does not read loaded data.
    Nothing,
    /// It reads, and nil has no meaning in its reply.
    Data,
    /// It reads, and a nil reply is a miss.
    DataOrNil,
    /// The same, and its reply is a whole value as it was written.
    Value,
}

impl Gives {
    /// Whether it reads loaded data.
    pub(crate) fn reads(self) -> bool {
        self != Self::Nothing
    }

    /// Whether a nil reply is a miss.
    pub(crate) fn can_miss(self) -> bool {
        matches!(self, Self::DataOrNil | Self::Value)
    }
}

/// The command called `name`, in upper or lower case.
pub(crate) fn find(name: &[u8]) -> Option<Known> {
    KNOWN.iter().find_map(|&(family, gives, names)| {
        let same = |known: &&&str| known.as_bytes().eq_ignore_ascii_case(name);
        names.iter().find(same).map(|&name| Known {
            name,
            // Its channel belongs to the run, as a key does.
            keys: match name {
                "PUBLISH" => Keys::First,
                _ => cmd::<()>(name).meta().keys,
            },
            family,
            gives,
        })
    })
}

use Family::{Any, Hash, List, Set, SortedSet, Stream, Text};
use Gives::{Data, DataOrNil, Nothing, Value};

#[rustfmt::skip]
const KNOWN: &[(Family, Gives, &[&str])] = &[
    (Any, Nothing, &[
        "PING", "ECHO", "TIME", "PUBLISH", "DEL", "UNLINK", "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "PERSIST",
        "RENAME", "RENAMENX",
    ]),
    (Any, Data, &["EXISTS", "TOUCH", "TYPE", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]),
    (Text, Value, &["GET", "GETEX"]),
    (Text, Nothing, &[
        "SET", "SETNX", "SETEX", "PSETEX", "MSET", "MSETNX", "APPEND", "SETRANGE", "INCR", "DECR", "INCRBY", "DECRBY",
        "INCRBYFLOAT", "SETBIT", "PFADD",
    ]),
    (Text, DataOrNil, &["GETSET", "GETDEL"]),
    (Text, Data, &["MGET", "STRLEN", "GETRANGE", "GETBIT", "BITCOUNT"]),
    (Hash, Nothing, &["HSET", "HSETNX", "HMSET", "HDEL", "HINCRBY", "HINCRBYFLOAT"]),
    (Hash, Value, &["HGET"]),
    (Hash, Data, &["HMGET", "HGETALL", "HKEYS", "HVALS", "HLEN", "HEXISTS", "HSTRLEN", "HSCAN"]),
    (Hash, DataOrNil, &["HRANDFIELD"]),
    (List, Nothing, &["LPUSH", "RPUSH", "LPUSHX", "RPUSHX", "LSET", "LTRIM", "LREM"]),
    (List, DataOrNil, &["LPOP", "RPOP", "LINDEX", "LPOS"]),
    (List, Data, &["LLEN", "LRANGE"]),
    (Set, Nothing, &["SADD", "SREM", "SMOVE"]),
    (Set, Data, &["SMEMBERS", "SISMEMBER", "SMISMEMBER", "SCARD", "SSCAN", "SINTER", "SUNION", "SDIFF"]),
    (Set, DataOrNil, &["SPOP", "SRANDMEMBER"]),
    (SortedSet, Nothing, &["ZADD", "ZINCRBY", "ZREM"]),
    (SortedSet, DataOrNil, &["ZSCORE", "ZRANK", "ZREVRANK"]),
    (SortedSet, Data, &["ZCARD", "ZCOUNT", "ZRANGE", "ZREVRANGE", "ZRANGEBYSCORE", "ZPOPMIN", "ZPOPMAX"]),
    (Stream, Nothing, &["XADD", "XTRIM"]),
    (Stream, Data, &["XLEN", "XRANGE", "XREVRANGE"]),
    (Stream, DataOrNil, &["XREAD"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().flat_map(|(.., names)| *names).copied()
    }

    fn keys(line: &str) -> Option<String> {
        let words: Vec<Vec<u8>> = line.split(' ').map(Into::into).collect();
        let keys = find(&words[0]).unwrap().keys_among(&words[1..])?;
        Some(String::from_utf8(keys.join(&b' ')).unwrap())
    }

    #[test]
    fn keys_are_found_where_redis_finds_them() {
        for (line, expected) in [
            ("PING", Some("")),
            ("get k", Some("k")),
            ("GET", None),
            ("MGET a b c", Some("a b c")),
            ("MSET a 1 b 2", Some("a b")),
            ("RENAME a b", Some("a b")),
            ("RENAME a", None),
            ("PUBLISH channel message", Some("channel")),
            ("XREAD COUNT 10 STREAMS a b 0 0", Some("a b")),
            ("XREAD COUNT 10 STREAMS a", None),
            ("XREAD COUNT 10 STREAMS a b 0", None),
            ("XREAD COUNT 10", None),
        ] {
            assert_eq!(keys(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn facts_about_every_command_are_known() {
        for name in names() {
            assert_ne!(find(name.as_bytes()).unwrap().keys, Keys::Unknown, "{name}");
        }
    }

    #[test]
    fn commands_beyond_the_run_are_not_listed() {
        for name in [
            "FLUSHALL",
            "FLUSHDB",
            "SHUTDOWN",
            "CONFIG",
            "DEBUG",
            "SCRIPT",
            "KEYS",
            "SWAPDB",
            "REPLICAOF",
            "SLAVEOF",
            "MIGRATE",
            "EVAL",
            "FUNCTION",
            "MODULE",
            "SUBSCRIBE",
            "MONITOR",
            "BLPOP",
            "AUTH",
            "HELLO",
            "SELECT",
            "MOVE",
            "COPY",
            "RESTORE",
            "SORT",
            "CLUSTER",
            "ACL",
            "CLIENT",
            "FAILOVER",
            "WAIT",
            "MULTI",
            "SAVE",
            "BGSAVE",
            "BGREWRITEAOF",
            "LATENCY",
        ] {
            assert_eq!(find(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn no_command_is_listed_twice() {
        let mut names: Vec<&str> = names().collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn documentation_lists_the_same_commands() {
        let docs = include_str!("../../../../docs/workloads.md");
        let (_, rest) = docs.split_once("These commands may be sent:\n").unwrap();
        let (list, _) = rest.split_once("\nEverything else").unwrap();
        // Outside the quoted lists there is only a remark with `BLOCK` in it.
        let mut documented: Vec<&str> = list
            .split('`')
            .skip(1)
            .step_by(2)
            .flat_map(str::split_whitespace)
            .filter(|name| *name != "BLOCK")
            .collect();
        let mut known: Vec<&str> = names().collect();
        documented.sort_unstable();
        known.sort_unstable();
        assert_eq!(documented, known);
    }
}
