//! The commands that a workload can send. Others are refused: commands that block, that change the mode of the
//! connection, that reach keys of other applications, or whose keys cannot be determined
//! from their arguments (`FLUSHALL`, `CONFIG`, `DEBUG`, `KEYS`, `EVAL`, `SUBSCRIBE`, `BLPOP` ...).

/// A command that a workload can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its name in capitals.
    pub(crate) name: &'static str,
    /// Which arguments are keys.
    pub(crate) keys: KeyArguments,
    /// The kind of value that it works on.
    pub(crate) family: Family,
    /// Its reply.
    pub(crate) gives: Gives,
}

/// Which arguments of a command are keys (or, for PUBLISH, its channel).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyArguments {
    /// None.
    Keyless,
    /// The first after the name.
    First,
    /// The first two after the name.
    FirstTwo,
    /// All after the name.
    All,
    /// The first, third, fifth ... after the name.
    EveryOther,
    /// The first half of what follows the word STREAMS.
    Streams,
}

impl KeyArguments {
    /// The indexes of the keys in `arguments`, where index 0 is the name; `None` if they cannot be
    /// determined.
    pub(crate) fn places(self, arguments: &[Vec<u8>]) -> Option<Vec<usize>> {
        let count = arguments.len();
        let places: Vec<usize> = match self {
            Self::Keyless => return Some(Vec::new()),
            Self::First => (1..2).collect(),
            Self::FirstTwo => (1..3).collect(),
            Self::All => (1..count).collect(),
            Self::EveryOther => (1..count).step_by(2).collect(),
            Self::Streams => {
                let streams = arguments
                    .iter()
                    .position(|argument| argument.eq_ignore_ascii_case(b"STREAMS"))?;
                let rest = count - streams - 1;
                if !rest.is_multiple_of(2) {
                    return None;
                }
                (streams + 1..streams + 1 + rest / 2).collect()
            }
        };
        (!places.is_empty() && places.iter().all(|&place| place < count)).then_some(places)
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
    let (name, keys, family, gives) = KNOWN
        .iter()
        .copied()
        .find(|(known, ..)| known.as_bytes().eq_ignore_ascii_case(name))?;
    Some(Known {
        name,
        keys,
        family,
        gives,
    })
}

use Family::{Any, Hash, List, Set, SortedSet, Stream, Text};
use Gives::{Data, DataOrNil, Nothing, Value};
use KeyArguments::{All, EveryOther, First, FirstTwo, Keyless, Streams};

#[rustfmt::skip]
const KNOWN: &[(&str, KeyArguments, Family, Gives)] = &[
    ("PING", Keyless, Any, Nothing), ("ECHO", Keyless, Any, Nothing), ("TIME", Keyless, Any, Nothing),
    ("PUBLISH", First, Any, Nothing),

    ("DEL", All, Any, Nothing), ("UNLINK", All, Any, Nothing), ("EXISTS", All, Any, Data), ("TOUCH", All, Any, Data),
    ("TYPE", First, Any, Data), ("TTL", First, Any, Data), ("PTTL", First, Any, Data), ("EXPIRETIME", First, Any, Data),
    ("PEXPIRETIME", First, Any, Data), ("EXPIRE", First, Any, Nothing), ("PEXPIRE", First, Any, Nothing),
    ("EXPIREAT", First, Any, Nothing), ("PEXPIREAT", First, Any, Nothing), ("PERSIST", First, Any, Nothing),
    ("RENAME", FirstTwo, Any, Nothing), ("RENAMENX", FirstTwo, Any, Nothing),

    ("GET", First, Text, Value), ("SET", First, Text, Nothing), ("SETNX", First, Text, Nothing), ("SETEX", First, Text, Nothing),
    ("PSETEX", First, Text, Nothing), ("GETSET", First, Text, DataOrNil), ("GETDEL", First, Text, DataOrNil),
    ("GETEX", First, Text, Value), ("MGET", All, Text, Data), ("MSET", EveryOther, Text, Nothing),
    ("MSETNX", EveryOther, Text, Nothing), ("APPEND", First, Text, Nothing), ("STRLEN", First, Text, Data),
    ("GETRANGE", First, Text, Data), ("SETRANGE", First, Text, Nothing), ("INCR", First, Text, Nothing),
    ("DECR", First, Text, Nothing), ("INCRBY", First, Text, Nothing), ("DECRBY", First, Text, Nothing),
    ("INCRBYFLOAT", First, Text, Nothing), ("SETBIT", First, Text, Nothing), ("GETBIT", First, Text, Data),
    ("BITCOUNT", First, Text, Data), ("PFADD", First, Text, Nothing),

    ("HSET", First, Hash, Nothing), ("HSETNX", First, Hash, Nothing), ("HMSET", First, Hash, Nothing), ("HGET", First, Hash, Value),
    ("HMGET", First, Hash, Data), ("HGETALL", First, Hash, Data), ("HKEYS", First, Hash, Data), ("HVALS", First, Hash, Data),
    ("HLEN", First, Hash, Data), ("HEXISTS", First, Hash, Data), ("HSTRLEN", First, Hash, Data), ("HDEL", First, Hash, Nothing),
    ("HINCRBY", First, Hash, Nothing), ("HINCRBYFLOAT", First, Hash, Nothing), ("HRANDFIELD", First, Hash, DataOrNil),
    ("HSCAN", First, Hash, Data),

    ("LPUSH", First, List, Nothing), ("RPUSH", First, List, Nothing), ("LPUSHX", First, List, Nothing), ("RPUSHX", First, List, Nothing),
    ("LPOP", First, List, DataOrNil), ("RPOP", First, List, DataOrNil), ("LLEN", First, List, Data), ("LINDEX", First, List, DataOrNil),
    ("LRANGE", First, List, Data), ("LSET", First, List, Nothing), ("LTRIM", First, List, Nothing), ("LREM", First, List, Nothing),
    ("LPOS", First, List, DataOrNil),

    ("SADD", First, Set, Nothing), ("SREM", First, Set, Nothing), ("SMEMBERS", First, Set, Data), ("SISMEMBER", First, Set, Data),
    ("SMISMEMBER", First, Set, Data), ("SCARD", First, Set, Data), ("SPOP", First, Set, DataOrNil), ("SRANDMEMBER", First, Set, DataOrNil),
    ("SSCAN", First, Set, Data), ("SMOVE", FirstTwo, Set, Nothing), ("SINTER", All, Set, Data), ("SUNION", All, Set, Data),
    ("SDIFF", All, Set, Data),

    ("ZADD", First, SortedSet, Nothing), ("ZINCRBY", First, SortedSet, Nothing), ("ZREM", First, SortedSet, Nothing),
    ("ZSCORE", First, SortedSet, DataOrNil), ("ZRANK", First, SortedSet, DataOrNil), ("ZREVRANK", First, SortedSet, DataOrNil),
    ("ZCARD", First, SortedSet, Data), ("ZCOUNT", First, SortedSet, Data), ("ZRANGE", First, SortedSet, Data),
    ("ZREVRANGE", First, SortedSet, Data), ("ZRANGEBYSCORE", First, SortedSet, Data), ("ZPOPMIN", First, SortedSet, Data),
    ("ZPOPMAX", First, SortedSet, Data),

    ("XADD", First, Stream, Nothing), ("XLEN", First, Stream, Data), ("XRANGE", First, Stream, Data), ("XREVRANGE", First, Stream, Data),
    ("XTRIM", First, Stream, Nothing), ("XREAD", Streams, Stream, DataOrNil),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn places(line: &str) -> Option<Vec<usize>> {
        let arguments: Vec<Vec<u8>> = line
            .split(' ')
            .map(|word| word.as_bytes().to_vec())
            .collect();
        find(&arguments[0]).unwrap().keys.places(&arguments)
    }

    #[test]
    fn keys_are_found_where_redis_finds_them() {
        for (line, wanted) in [
            ("PING", Some(vec![])),
            ("get k", Some(vec![1])),
            ("GET", None),
            ("MGET a b c", Some(vec![1, 2, 3])),
            ("MSET a 1 b 2", Some(vec![1, 3])),
            ("RENAME a b", Some(vec![1, 2])),
            ("RENAME a", None),
            ("XREAD COUNT 10 STREAMS a b 0 0", Some(vec![4, 5])),
            ("XREAD COUNT 10 STREAMS a", None),
            ("XREAD COUNT 10", None),
        ] {
            assert_eq!(places(line), wanted, "{line}");
        }
    }

    #[test]
    fn what_reaches_beyond_the_run_is_not_listed() {
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
        for (index, (name, ..)) in KNOWN.iter().enumerate() {
            assert!(
                KNOWN[index + 1..].iter().all(|(other, ..)| other != name),
                "{name}"
            );
            assert_eq!(name.to_ascii_uppercase(), *name);
        }
    }

    #[test]
    fn the_documentation_lists_the_same_commands() {
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
        let mut known: Vec<&str> = KNOWN.iter().map(|(name, ..)| *name).collect();
        documented.sort_unstable();
        known.sort_unstable();
        assert_eq!(documented, known);
    }
}
