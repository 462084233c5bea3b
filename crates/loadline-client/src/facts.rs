//! Facts about the commands of Redis and its modules by name: whether they are reads, whether they can be repeated,
//! which arguments are keys. [`cmd`](crate::cmd) and the functions of [`commands`](crate::commands) take them from here.

use crate::flags::{Flags, Keys, Meta};

/// Commands that share their facts.
type Group = (Flags, Keys, &'static [&'static str]);

/// Returns the facts about a command, given as its name and perhaps its subcommand, for a constant.
///
/// # Panics
/// If the table does not have it.
pub(crate) const fn of(words: &[&str]) -> Meta {
    let Some(meta) = command(words[0].as_bytes()) else {
        panic!("a command that is not in the table");
    };
    if words.len() == 1 {
        return meta;
    }
    let Some(found) = find(subcommands(meta.name), words[1].as_bytes()) else {
        panic!("a subcommand that is not in the table");
    };
    Meta {
        name: meta.name,
        ..found
    }
}

/// Returns the facts about a command of any name. A command that is not in the table is a write that cannot be
/// repeated.
pub(crate) fn lookup(name: &str) -> Meta {
    command(name.as_bytes()).unwrap_or(Meta {
        name: "other",
        flags: Flags::NONE,
        keys: Keys::Unknown,
    })
}

/// Completes the facts about a command by its arguments: by its subcommand, by options with which it depends on the
/// stored value, and by the one with which it blocks.
pub(crate) fn with_arguments<'w>(meta: Meta, mut args: impl Iterator<Item = &'w [u8]>) -> Meta {
    let subcommands = subcommands(meta.name);
    if !subcommands.is_empty() {
        let found = find(subcommands, args.next().unwrap_or_default());
        return found.map_or(meta, |found| Meta {
            name: meta.name,
            ..found
        });
    }
    let flags = match meta.name {
        "XREAD" | "XREADGROUP" if !read_at_once(&mut args) => meta.flags.with(Flags::BLOCKS),
        "XREAD" | "XREADGROUP" => meta.flags,
        name if meta.flags.contains(Flags::IDEMPOTENT) && !are_idempotent(name, &mut args) => {
            Flags::NONE
        }
        _ => meta.flags,
    };
    Meta { flags, ..meta }
}

/// Slots of the table of commands by their names: some more than twice as many as commands, so that most are found at once.
const SLOTS: usize = 1024;

/// The places of all commands in [`COMMANDS`], as the number of the group and the place in it: each in the first free slot
/// from the one of its name on. The constants of all functions look their facts up while this crate is compiled, which took
/// a third of its check without this table.
const BY_NAME: &[Option<(u8, u8)>; SLOTS] = &by_name();

const fn by_name() -> [Option<(u8, u8)>; SLOTS] {
    let mut slots = [None; SLOTS];
    // Iterators are not available in constants.
    let mut group = 0;
    while group < COMMANDS.len() {
        let names = COMMANDS[group].2;
        let mut place = 0;
        while place < names.len() {
            let mut slot = slot(names[place].as_bytes());
            while slots[slot].is_some() {
                slot = (slot + 1) % SLOTS;
            }
            assert!(group < 256 && place < 256, "a place takes one byte");
            slots[slot] = Some((group as u8, place as u8));
            place += 1;
        }
        group += 1;
    }
    slots
}

/// The first slot for a name in any case: [FNV-1a](http://www.isthe.com/chongo/tech/comp/fnv/), without the bit in which
/// the cases of a letter differ.
const fn slot(name: &[u8]) -> usize {
    let mut hash: u32 = 0x811c_9dc5;
    let mut place = 0;
    while place < name.len() {
        hash = (hash ^ (name[place] & !0x20) as u32).wrapping_mul(0x0100_0193);
        place += 1;
    }
    // The upper bits depend on all bytes.
    (hash >> 16 ^ hash) as usize % SLOTS
}

const fn command(name: &[u8]) -> Option<Meta> {
    let mut slot = slot(name);
    while let Some((group, place)) = BY_NAME[slot] {
        let (flags, keys, names) = COMMANDS[group as usize];
        let known = names[place as usize];
        if known.as_bytes().eq_ignore_ascii_case(name) {
            return Some(Meta {
                name: known,
                flags,
                keys,
            });
        }
        slot = (slot + 1) % SLOTS;
    }
    None
}

const fn find(groups: &[Group], name: &[u8]) -> Option<Meta> {
    // Iterators are not available in constants.
    let mut group = 0;
    while group < groups.len() {
        let (flags, keys, names) = groups[group];
        let mut place = 0;
        while place < names.len() {
            let known = names[place];
            if known.as_bytes().eq_ignore_ascii_case(name) {
                return Some(Meta {
                    name: known,
                    flags,
                    keys,
                });
            }
            place += 1;
        }
        group += 1;
    }
    None
}

const fn subcommands(name: &str) -> &'static [Group] {
    let mut place = 0;
    while place < SUBCOMMANDS.len() {
        let (known, groups) = SUBCOMMANDS[place];
        if known.as_bytes().eq_ignore_ascii_case(name.as_bytes()) {
            return groups;
        }
        place += 1;
    }
    &[]
}

/// Whether the arguments of `XREAD` or `XREADGROUP` are complete and lack the option to wait.
fn read_at_once<'w>(mut args: impl Iterator<Item = &'w [u8]>) -> bool {
    while let Some(option) = args.next() {
        if option.eq_ignore_ascii_case(b"STREAMS") {
            return true;
        }
        // The names of the group and of the consumer can be any word.
        let values = match option.to_ascii_uppercase().as_slice() {
            b"GROUP" => 2,
            b"COUNT" => 1,
            b"NOACK" => 0,
            _ => return false,
        };
        args.by_ref().take(values).for_each(drop);
    }
    false
}

/// Whether a command that is idempotent without options stays so with these arguments. Unknown options are taken not
/// to be, and so are those of modules.
fn are_idempotent<'w>(name: &str, args: impl Iterator<Item = &'w [u8]>) -> bool {
    let is = |word: &[u8], known: &[&str]| {
        let same = |known: &&str| word.eq_ignore_ascii_case(known.as_bytes());
        known.iter().any(same)
    };
    match name {
        "SET" => {
            let mut options = args.skip(2);
            while let Some(option) = options.next() {
                if is(option, &["EX", "PX", "EXAT", "PXAT"]) {
                    options.next();
                } else if !is(option, &["KEEPTTL", "XX"]) {
                    return false;
                }
            }
            true
        }
        "EXPIREAT" | "PEXPIREAT" => args.skip(2).all(|option| is(option, &["XX"])),
        "ZADD" => {
            let score = |word: &&[u8]| {
                let text = std::str::from_utf8(word);
                text.is_ok_and(|text| text.parse::<f64>().is_ok())
            };
            let mut options = args.skip(1).take_while(|word| !score(word));
            options.all(|option| is(option, &["XX", "CH"]))
        }
        _ => !name.contains('.'),
    }
}

const READ: Flags = Flags::READ_ONLY;
const SAME: Flags = Flags::IDEMPOTENT;
const WRITE: Flags = Flags::NONE;
const BLOCKS: Flags = Flags::BLOCKS;
const OWN: Flags = Flags::DEDICATED;

/// All commands of Redis, and those of modules that have a function.
#[rustfmt::skip]
const COMMANDS: &[Group] = &[
    (READ, Keys::First, &[
        "BITCOUNT", "BITFIELD_RO", "BITPOS", "DUMP", "EXPIRETIME", "GEODIST", "GEOHASH", "GEOPOS",
        "GEORADIUSBYMEMBER_RO", "GEORADIUS_RO", "GEOSEARCH", "GET", "GETBIT", "GETRANGE", "HEXISTS",
        "HEXPIRETIME", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HPEXPIRETIME", "HPTTL", "HRANDFIELD",
        "HSCAN", "HSTRLEN", "HTTL", "HVALS", "LINDEX", "LLEN", "LPOS", "LRANGE", "PEXPIRETIME", "PTTL", "SCARD",
        "SISMEMBER", "SMEMBERS", "SMISMEMBER", "SORT_RO", "SRANDMEMBER", "SSCAN", "STRLEN", "SUBSTR", "TTL",
        "TYPE", "VCARD", "VDIM", "VEMB", "VGETATTR", "VINFO", "VISMEMBER", "VLINKS", "VRANDMEMBER", "VSIM",
        "XLEN", "XPENDING", "XRANGE", "XREVRANGE", "ZCARD", "ZCOUNT", "ZLEXCOUNT", "ZMSCORE", "ZRANDMEMBER",
        "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZRANK", "ZREVRANGE", "ZREVRANGEBYLEX", "ZREVRANGEBYSCORE",
        "ZREVRANK", "ZSCAN", "ZSCORE", "BF.CARD", "BF.EXISTS", "BF.INFO", "BF.MEXISTS", "BF.SCANDUMP",
        "CF.COUNT", "CF.EXISTS", "CF.INFO", "CF.MEXISTS", "CF.SCANDUMP", "CMS.INFO", "CMS.QUERY", "FT.SUGGET",
        "FT.SUGLEN", "JSON.ARRINDEX", "JSON.ARRLEN", "JSON.GET", "JSON.OBJKEYS", "JSON.OBJLEN", "JSON.RESP",
        "JSON.STRLEN", "JSON.TYPE", "TDIGEST.BYRANK", "TDIGEST.BYREVRANK", "TDIGEST.CDF", "TDIGEST.INFO",
        "TDIGEST.MAX", "TDIGEST.MIN", "TDIGEST.QUANTILE", "TDIGEST.RANK", "TDIGEST.REVRANK",
        "TDIGEST.TRIMMED_MEAN", "TOPK.INFO", "TOPK.LIST", "TOPK.QUERY", "TS.GET", "TS.INFO", "TS.RANGE",
        "TS.REVRANGE",
    ]),
    (READ, Keys::All, &["EXISTS", "MGET", "PFCOUNT", "SDIFF", "SINTER", "SUNION", "TOUCH"]),
    (READ, Keys::AllButLast, &["JSON.MGET"]),
    (READ, Keys::At(1), &["OBJECT", "XINFO", "JSON.DEBUG"]),
    (READ, Keys::Counted(0), &["SINTERCARD", "ZDIFF", "ZINTER", "ZINTERCARD", "ZUNION"]),
    (READ, Keys::Counted(1), &["EVALSHA_RO", "EVAL_RO", "FCALL_RO"]),
    (READ, Keys::FirstTwo, &["LCS"]),
    (READ, Keys::None, &[
        "COMMAND", "DBSIZE", "ECHO", "INFO", "KEYS", "LASTSAVE", "LOLWUT", "PING", "PUBSUB", "RANDOMKEY",
        "ROLE", "SCAN", "TIME", "FT.AGGREGATE", "FT.DICTDUMP", "FT.EXPLAIN", "FT.INFO", "FT.PROFILE",
        "FT.SEARCH", "FT.SPELLCHECK", "FT.SYNDUMP", "FT.TAGVALS", "FT._LIST", "TS.MGET", "TS.MRANGE",
        "TS.MREVRANGE", "TS.QUERYINDEX",
    ]),
    (READ, Keys::Streams, &["XREAD"]),
    (SAME, Keys::First, &[
        "EXPIREAT", "HDEL", "HSET", "LSET", "PERSIST", "PEXPIREAT", "PSETEX", "SADD", "SET", "SETEX",
        "SETRANGE", "SREM", "VREM", "VSETATTR", "XACK", "XDEL", "ZADD", "ZREM", "ZREMRANGEBYLEX",
        "ZREMRANGEBYSCORE", "BF.ADD", "BF.INSERT", "BF.MADD", "FT.SUGADD", "FT.SUGDEL", "JSON.CLEAR",
        "JSON.DEL", "JSON.MERGE", "JSON.MSET", "JSON.SET", "TDIGEST.RESET", "TS.ALTER", "TS.DEL",
    ]),
    (SAME, Keys::All, &["DEL", "UNLINK"]),
    (SAME, Keys::Alternating, &["MSET"]),
    (SAME, Keys::None, &["FLUSHALL", "FLUSHDB", "FT.ALIASUPDATE", "FT.DICTADD", "FT.DICTDEL", "FT.SYNUPDATE"]),
    (WRITE, Keys::First, &[
        "APPEND", "BITFIELD", "DECR", "DECRBY", "EXPIRE", "GEOADD", "GEORADIUS", "GEORADIUSBYMEMBER", "GETDEL",
        "GETEX", "GETSET", "HEXPIRE", "HEXPIREAT", "HGETDEL", "HGETEX", "HINCRBY", "HINCRBYFLOAT", "HMSET",
        "HPERSIST", "HPEXPIRE", "HPEXPIREAT", "HSETEX", "HSETNX", "INCR", "INCRBY", "INCRBYFLOAT", "LINSERT",
        "LPOP", "LPUSH", "LPUSHX", "LREM", "LTRIM", "MOVE", "PEXPIRE", "PFADD", "RESTORE", "RPOP", "RPUSH",
        "RPUSHX", "SETBIT", "SETNX", "SORT", "SPOP", "SPUBLISH", "VADD", "XACKDEL", "XADD", "XAUTOCLAIM",
        "XCLAIM", "XDELEX", "XSETID", "XTRIM", "ZINCRBY", "ZPOPMAX", "ZPOPMIN", "ZREMRANGEBYRANK",
        "BF.LOADCHUNK", "BF.RESERVE", "CF.ADD", "CF.ADDNX", "CF.DEL", "CF.INSERT", "CF.INSERTNX",
        "CF.LOADCHUNK", "CF.RESERVE", "CMS.INCRBY", "CMS.INITBYDIM", "CMS.INITBYPROB", "CMS.MERGE",
        "JSON.ARRAPPEND", "JSON.ARRINSERT", "JSON.ARRPOP", "JSON.ARRTRIM", "JSON.NUMINCRBY", "JSON.STRAPPEND",
        "JSON.TOGGLE", "TDIGEST.ADD", "TDIGEST.CREATE", "TDIGEST.MERGE", "TOPK.ADD", "TOPK.INCRBY",
        "TOPK.RESERVE", "TS.ADD", "TS.CREATE", "TS.DECRBY", "TS.INCRBY", "TS.MADD",
    ]),
    (WRITE, Keys::All, &["PFMERGE", "SDIFFSTORE", "SINTERSTORE", "SUNIONSTORE"]),
    (WRITE, Keys::Alternating, &["MSETNX"]),
    (WRITE, Keys::At(1), &["XGROUP"]),
    (WRITE, Keys::At(2), &["MIGRATE"]),
    (WRITE, Keys::Counted(0), &["LMPOP", "ZMPOP"]),
    (WRITE, Keys::Counted(1), &["EVAL", "EVALSHA", "FCALL"]),
    (WRITE, Keys::FirstAndCounted, &["ZDIFFSTORE", "ZINTERSTORE", "ZUNIONSTORE"]),
    (WRITE, Keys::FirstTwo, &[
        "COPY", "GEOSEARCHSTORE", "LMOVE", "RENAME", "RENAMENX", "RPOPLPUSH", "SMOVE", "ZRANGESTORE",
        "TS.CREATERULE", "TS.DELETERULE",
    ]),
    (WRITE, Keys::From(1), &["BITOP"]),
    (WRITE, Keys::None, &[
        "ACL", "BGREWRITEAOF", "BGSAVE", "CLUSTER", "CONFIG", "DEBUG", "FAILOVER", "FUNCTION", "LATENCY",
        "MEMORY", "MODULE", "PUBLISH", "REPLICAOF", "SAVE", "SCRIPT", "SHUTDOWN", "SLAVEOF", "SLOWLOG",
        "SWAPDB", "FT.ALIASADD", "FT.ALIASDEL", "FT.ALTER", "FT.CREATE", "FT.CURSOR", "FT.DROPINDEX",
    ]),
    (WRITE, Keys::Streams, &["XREADGROUP"]),
    (BLOCKS, Keys::AllButLast, &["BLPOP", "BRPOP", "BZPOPMAX", "BZPOPMIN"]),
    (BLOCKS, Keys::Counted(1), &["BLMPOP", "BZMPOP"]),
    (BLOCKS, Keys::FirstTwo, &["BLMOVE", "BRPOPLPUSH"]),
    (BLOCKS.with(OWN), Keys::None, &["WAIT", "WAITAOF"]),
    (OWN, Keys::All, &["SSUBSCRIBE", "SUNSUBSCRIBE", "WATCH"]),
    (OWN, Keys::None, &[
        "ASKING", "AUTH", "CLIENT", "DISCARD", "EXEC", "HELLO", "MONITOR", "MULTI", "PSUBSCRIBE", "PSYNC",
        "PUNSUBSCRIBE", "QUIT", "READONLY", "READWRITE", "REPLCONF", "RESET", "SELECT", "SUBSCRIBE", "SYNC",
        "UNSUBSCRIBE", "UNWATCH",
    ]),
];

/// Commands whose facts depend on their first argument.
#[rustfmt::skip]
const SUBCOMMANDS: &[(&str, &[Group])] = &[
    ("ACL", &[
        (READ, Keys::None, &["CAT", "DRYRUN", "GENPASS", "GETUSER", "LIST", "USERS", "WHOAMI"]),
        (WRITE, Keys::None, &["DELUSER", "LOAD", "LOG", "SAVE", "SETUSER"]),
    ]),
    ("CLIENT", &[
        (READ, Keys::None, &["GETNAME", "GETREDIR", "ID", "INFO", "LIST", "TRACKINGINFO"]),
        (WRITE, Keys::None, &["KILL", "PAUSE", "UNBLOCK", "UNPAUSE"]),
        (OWN, Keys::None, &["CACHING", "NO-EVICT", "NO-TOUCH", "SETNAME", "TRACKING"]),
    ]),
    ("CLUSTER", &[
        (READ, Keys::None, &[
            "COUNT-FAILURE-REPORTS", "COUNTKEYSINSLOT", "GETKEYSINSLOT", "INFO", "KEYSLOT", "LINKS", "MYID",
            "MYSHARDID", "NODES", "REPLICAS", "SHARDS", "SLOT-STATS",
        ]),
        (WRITE, Keys::None, &[
            "ADDSLOTS", "ADDSLOTSRANGE", "BUMPEPOCH", "DELSLOTS", "DELSLOTSRANGE", "FAILOVER", "FLUSHSLOTS",
            "FORGET", "MEET", "REPLICATE", "RESET", "SAVECONFIG", "SET-CONFIG-EPOCH", "SETSLOT",
        ]),
    ]),
    ("CONFIG", &[
        (READ, Keys::None, &["GET"]),
        (WRITE, Keys::None, &["RESETSTAT", "REWRITE", "SET"]),
    ]),
    ("DEBUG", &[
        (READ, Keys::At(1), &["OBJECT"]),
    ]),
    ("FUNCTION", &[
        (READ, Keys::None, &["DUMP", "LIST", "STATS"]),
        (WRITE, Keys::None, &["DELETE", "FLUSH", "KILL", "LOAD", "RESTORE"]),
    ]),
    ("LATENCY", &[
        (READ, Keys::None, &["DOCTOR", "GRAPH", "HISTOGRAM", "HISTORY", "LATEST"]),
        (WRITE, Keys::None, &["RESET"]),
    ]),
    ("MEMORY", &[
        (READ, Keys::At(1), &["USAGE"]),
        (READ, Keys::None, &["DOCTOR", "MALLOC-STATS", "STATS"]),
        (WRITE, Keys::None, &["PURGE"]),
    ]),
    ("MODULE", &[
        (READ, Keys::None, &["LIST"]),
        (WRITE, Keys::None, &["LOAD", "LOADEX", "UNLOAD"]),
    ]),
    ("SCRIPT", &[
        (READ, Keys::None, &["EXISTS"]),
        (SAME, Keys::None, &["FLUSH", "LOAD"]),
        (WRITE, Keys::None, &["KILL"]),
    ]),
    ("SLOWLOG", &[
        (READ, Keys::None, &["GET", "LEN"]),
        (WRITE, Keys::None, &["RESET"]),
    ]),
    ("XGROUP", &[
        (SAME, Keys::At(1), &["DESTROY", "SETID"]),
        (WRITE, Keys::At(1), &["CREATE", "CREATECONSUMER", "DELCONSUMER"]),
    ]),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(line: &str) -> Meta {
        let mut words = line.split(' ');
        let meta = lookup(words.next().unwrap());
        with_arguments(meta, words.map(str::as_bytes))
    }

    #[test]
    fn names_are_unique_and_in_capitals() {
        let subcommands = SUBCOMMANDS.iter().map(|(_, groups)| *groups);
        for groups in subcommands.chain([COMMANDS]) {
            let mut names: Vec<&str> = groups.iter().flat_map(|group| group.2).copied().collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
            for name in names {
                assert_eq!(name, name.to_ascii_uppercase());
            }
        }
    }

    /// In the table by names too, where commands with the same slot follow each other.
    #[test]
    fn every_command_is_found_with_its_own_facts() {
        let mut commands = 0;
        for (flags, keys, names) in COMMANDS {
            for &name in *names {
                let meta = Meta {
                    name,
                    flags: *flags,
                    keys: *keys,
                };
                assert_eq!(lookup(name), meta);
                assert_eq!(lookup(&name.to_ascii_lowercase()), meta);
                commands += 1;
            }
        }
        assert!(2 * commands < SLOTS, "{commands} commands");
        let probes = BY_NAME.split(Option::is_none).map(<[_]>::len).max();
        assert!(probes < Some(16), "{probes:?} slots without a free one");
    }

    #[test]
    fn page_on_delivery_has_a_row_for_every_idempotent_command() {
        let page = include_str!("../../../docs/delivery.md");
        let subcommands = SUBCOMMANDS
            .iter()
            .flat_map(|(name, groups)| groups.iter().map(|group| (group.0, vec![*name])));
        let commands = COMMANDS.iter().map(|group| (group.0, group.2.to_vec()));
        for (flags, names) in commands.chain(subcommands) {
            // Those of modules are idempotent as functions only.
            for name in names.iter().filter(|name| !name.contains('.')) {
                let row = format!("\n| `{name}");
                assert!(flags != SAME || page.contains(&row), "no row for {name}");
            }
        }
    }

    #[test]
    fn commands_are_found_in_any_case_and_unknown_ones_cannot_be_repeated() {
        assert_eq!(facts("get k").flags, READ);
        assert_eq!(facts("INCR k").flags, WRITE);
        assert_eq!(facts("NEW.COMMAND k"), lookup("NEW.OTHER"));
        assert_eq!(lookup("NEW.COMMAND").flags, WRITE);
        assert!(facts("watch k").flags.contains(OWN));
    }

    #[test]
    fn subcommands_and_options_complete_the_facts() {
        for (line, flags) in [
            ("CONFIG", WRITE),
            ("config get save", READ),
            ("CONFIG SET save 1", WRITE),
            ("CLIENT ID", READ),
            ("CLIENT REPLY OFF", OWN),
            ("JSON.SET k . 1 NX", WRITE),
            ("XREAD COUNT 1 STREAMS k 0", READ),
            ("XREAD BLOCK 0 STREAMS k 0", READ.with(BLOCKS)),
            ("XREADGROUP GROUP BLOCK c NOACK STREAMS k >", WRITE),
            ("XREADGROUP GROUP g c BLOCK 0 STREAMS k >", BLOCKS),
        ] {
            assert_eq!(facts(line).flags, flags, "{line}");
        }
        assert_eq!(facts("MEMORY USAGE k").keys, Keys::At(1));
        assert_eq!(facts("MEMORY STATS").keys, Keys::None);
    }
}
