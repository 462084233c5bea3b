//! Properties of commands: whether they can be repeated, whether they block, whether they need a connection of
//! their own.

use std::ops::BitOr;

/// Properties of a command that matter to the connection it runs on.
///
/// ```
/// use loadline_client::Flags;
///
/// let flags = Flags::READ_ONLY | Flags::BLOCKS;
/// assert!(flags.contains(Flags::READ_ONLY));
/// assert!(!flags.contains(Flags::DEDICATED));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Changes data, and changes it again if it is repeated.
    pub const NONE: Self = Self(0);
    /// Changes nothing, so it can be sent again at any time.
    pub const READ_ONLY: Self = Self(1);
    /// Changes data, but leaves the same data when executed twice, if no other client writes in between.
    pub const IDEMPOTENT: Self = Self(2);
    /// Can wait at the server, and holds up later commands of its connection meanwhile.
    pub const BLOCKS: Self = Self(4);
    /// Changes the state of its connection (`WATCH`, `MULTI`, `SUBSCRIBE`), so it must not be shared.
    pub const DEDICATED: Self = Self(8);

    /// Returns whether it has all of these properties.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the properties of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The properties of a request of two commands: it can be repeated only if both can, and it blocks or needs
    /// its own connection if one does.
    #[inline]
    pub(crate) const fn together(self, other: Self) -> Self {
        let (mine, others) = (self.with_implied().0, other.with_implied().0);
        Self((mine & others & Self::REPEATABLE) | ((mine | others) & !Self::REPEATABLE))
    }

    const REPEATABLE: u8 = Flags::READ_ONLY.0 | Flags::IDEMPOTENT.0;

    /// These properties without those that let it be repeated.
    #[inline]
    pub(crate) const fn unrepeatable(self) -> Self {
        Self(self.0 & !Self::REPEATABLE)
    }

    /// These properties of a command that does not wait.
    const fn without_blocks(self) -> Self {
        Self(self.0 & !Self::BLOCKS.0)
    }

    /// Reading twice is the same as reading once.
    const fn with_implied(self) -> Self {
        if self.contains(Self::READ_ONLY) {
            self.with(Self::IDEMPOTENT)
        } else {
            self
        }
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

/// Which arguments of a command are keys, counted from the one after the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keys {
    /// None: the command is about the server, a channel or a script.
    #[default]
    None,
    /// The first.
    First,
    /// The one at this place, counted from zero.
    At(u8),
    /// The first two.
    FirstTwo,
    /// All.
    All,
    /// All from this place on, counted from zero.
    From(u8),
    /// All but the last, which is a timeout.
    AllButLast,
    /// Every second one, from the first on.
    Alternating,
    /// The arguments after a count, which is at this place.
    Counted(u8),
    /// The first half of those after the word `STREAMS`.
    Streams,
    /// Not known.
    Unknown,
}

/// The name and properties of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The name on the wire, in capitals; for a command with a subcommand its first word.
    pub name: &'static str,
    /// Its properties.
    pub flags: Flags,
    /// Which arguments are keys.
    pub keys: Keys,
}

/// Decides which requests are sent again automatically after their connection broke.
///
/// Under every policy, a request that was never handed to the operating system is sent on the next connection,
/// since the server cannot have executed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Requests that change nothing.
    #[default]
    ReadOnly,
    /// These, and writes that leave the same data when executed twice, such as `SET` and `DEL`. Another client can
    /// write between the two executions, and the second one overwrites that.
    Idempotent,
    /// No requests.
    Never,
}

impl RetryPolicy {
    /// Returns whether a request with these properties that the server may have executed is sent again.
    #[must_use]
    pub fn allows(self, flags: Flags) -> bool {
        if flags.contains(Flags::DEDICATED) {
            // Its meaning depended on the state of the connection that is gone.
            return false;
        }
        match self {
            Self::ReadOnly => flags.contains(Flags::READ_ONLY),
            Self::Idempotent => flags.with_implied().contains(Flags::IDEMPOTENT),
            Self::Never => false,
        }
    }
}

/// The properties of a command by its name.
pub(crate) fn lookup(name: &str) -> Meta {
    let upper = name.to_ascii_uppercase();
    KNOWN
        .iter()
        .find(|meta| meta.name == upper)
        .copied()
        .unwrap_or(Meta {
            name: "other",
            flags: Flags::NONE,
            keys: Keys::Unknown,
        })
}

/// Takes back that a command is idempotent where its options make it depend on the value that is there, and that it
/// blocks where it lacks the option to.
pub(crate) fn with_options<'w>(meta: Meta, args: impl Iterator<Item = &'w [u8]>) -> Meta {
    if matches!(meta.name, "XREAD" | "XREADGROUP") {
        let flags = if reads_at_once(meta.name, args) {
            meta.flags.without_blocks()
        } else {
            meta.flags
        };
        return Meta { flags, ..meta };
    }
    if !meta.flags.contains(Flags::IDEMPOTENT) || are_idempotent(meta.name, args) {
        return meta;
    }
    Meta {
        flags: Flags::NONE,
        ..meta
    }
}

/// Whether `XREAD` or `XREADGROUP` with these arguments has all of its options, and not the one to wait.
fn reads_at_once<'w>(name: &str, args: impl Iterator<Item = &'w [u8]>) -> bool {
    // The names of the group and of the consumer can be any word.
    let mut options = args.skip(if name == "XREADGROUP" { 3 } else { 0 });
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"STREAMS") {
            return true;
        }
        if option.eq_ignore_ascii_case(b"COUNT") {
            options.next();
        } else if !option.eq_ignore_ascii_case(b"NOACK") {
            return false;
        }
    }
    false
}

/// Whether a command that is idempotent without options stays so with these arguments. Options that are not
/// known are taken not to be.
fn are_idempotent<'w>(name: &str, mut args: impl Iterator<Item = &'w [u8]>) -> bool {
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
        "SCRIPT" => args
            .next()
            .is_some_and(|sub| is(sub, &["EXISTS", "FLUSH", "LOAD"])),
        "XGROUP" => args
            .next()
            .is_some_and(|sub| is(sub, &["DESTROY", "SETID"])),
        _ => true,
    }
}

const fn known(name: &'static str, flags: Flags, keys: Keys) -> Meta {
    Meta { name, flags, keys }
}

/// Commands that differ from a write to the key in their first argument.
const KNOWN: &[Meta] = &{
    const READ: Flags = Flags::READ_ONLY;
    const SAME: Flags = Flags::IDEMPOTENT;
    const BLOCK: Flags = Flags::BLOCKS;
    const OWN: Flags = Flags::DEDICATED;
    [
        known("ASKING", OWN, Keys::None),
        known("AUTH", OWN, Keys::None),
        known("BITCOUNT", READ, Keys::First),
        known("BITFIELD_RO", READ, Keys::First),
        known("BITPOS", READ, Keys::First),
        known("BLMOVE", BLOCK, Keys::FirstTwo),
        known("BLMPOP", BLOCK, Keys::Counted(1)),
        known("BLPOP", BLOCK, Keys::AllButLast),
        known("BRPOP", BLOCK, Keys::AllButLast),
        known("BRPOPLPUSH", BLOCK, Keys::FirstTwo),
        known("BZMPOP", BLOCK, Keys::Counted(1)),
        known("BZPOPMAX", BLOCK, Keys::AllButLast),
        known("BZPOPMIN", BLOCK, Keys::AllButLast),
        known("CLIENT", OWN, Keys::None),
        known("COMMAND", READ, Keys::None),
        known("CONFIG", Flags::NONE, Keys::None),
        known("DBSIZE", READ, Keys::None),
        known("DEL", SAME, Keys::All),
        known("DISCARD", OWN, Keys::None),
        known("DUMP", READ, Keys::First),
        known("ECHO", READ, Keys::None),
        known("EVAL", Flags::NONE, Keys::Counted(1)),
        known("EVALSHA", Flags::NONE, Keys::Counted(1)),
        known("EVALSHA_RO", READ, Keys::Counted(1)),
        known("EVAL_RO", READ, Keys::Counted(1)),
        known("EXEC", OWN, Keys::None),
        known("EXISTS", READ, Keys::All),
        known("EXPIREAT", SAME, Keys::First),
        known("EXPIRETIME", READ, Keys::First),
        known("FCALL_RO", READ, Keys::Counted(1)),
        known("FLUSHALL", SAME, Keys::None),
        known("FLUSHDB", SAME, Keys::None),
        known("GEODIST", READ, Keys::First),
        known("GEOHASH", READ, Keys::First),
        known("GEOPOS", READ, Keys::First),
        known("GEORADIUSBYMEMBER_RO", READ, Keys::First),
        known("GEORADIUS_RO", READ, Keys::First),
        known("GEOSEARCH", READ, Keys::First),
        known("GET", READ, Keys::First),
        known("GETBIT", READ, Keys::First),
        known("GETRANGE", READ, Keys::First),
        known("HDEL", SAME, Keys::First),
        known("HELLO", OWN, Keys::None),
        known("HEXISTS", READ, Keys::First),
        known("HGET", READ, Keys::First),
        known("HGETALL", READ, Keys::First),
        known("HKEYS", READ, Keys::First),
        known("HLEN", READ, Keys::First),
        known("HMGET", READ, Keys::First),
        known("HRANDFIELD", READ, Keys::First),
        known("HSCAN", READ, Keys::First),
        known("HSET", SAME, Keys::First),
        known("HSTRLEN", READ, Keys::First),
        known("HVALS", READ, Keys::First),
        known("INFO", READ, Keys::None),
        known("KEYS", READ, Keys::None),
        known("LASTSAVE", READ, Keys::None),
        known("LCS", READ, Keys::FirstTwo),
        known("LINDEX", READ, Keys::First),
        known("LLEN", READ, Keys::First),
        known("LOLWUT", READ, Keys::None),
        known("LPOS", READ, Keys::First),
        known("LRANGE", READ, Keys::First),
        known("LSET", SAME, Keys::First),
        known("MGET", READ, Keys::All),
        known("MONITOR", OWN, Keys::None),
        known("MSET", SAME, Keys::Alternating),
        known("MULTI", OWN, Keys::None),
        known("OBJECT", READ, Keys::At(1)),
        known("PERSIST", SAME, Keys::First),
        known("PEXPIREAT", SAME, Keys::First),
        known("PEXPIRETIME", READ, Keys::First),
        known("PFCOUNT", READ, Keys::All),
        known("PING", READ, Keys::None),
        known("PSETEX", SAME, Keys::First),
        known("PSUBSCRIBE", OWN, Keys::None),
        known("PSYNC", OWN, Keys::None),
        known("PTTL", READ, Keys::First),
        known("PUBLISH", Flags::NONE, Keys::None),
        known("PUBSUB", READ, Keys::None),
        known("PUNSUBSCRIBE", OWN, Keys::None),
        known("QUIT", OWN, Keys::None),
        known("RANDOMKEY", READ, Keys::None),
        known("READONLY", OWN, Keys::None),
        known("READWRITE", OWN, Keys::None),
        known("REPLCONF", OWN, Keys::None),
        known("RESET", OWN, Keys::None),
        known("ROLE", READ, Keys::None),
        known("SADD", SAME, Keys::First),
        known("SCAN", READ, Keys::None),
        known("SCARD", READ, Keys::First),
        known("SCRIPT", SAME, Keys::None),
        known("SDIFF", READ, Keys::All),
        known("SELECT", OWN, Keys::None),
        known("SET", SAME, Keys::First),
        known("SETEX", SAME, Keys::First),
        known("SETRANGE", SAME, Keys::First),
        known("SINTER", READ, Keys::All),
        known("SINTERCARD", READ, Keys::Counted(0)),
        known("SISMEMBER", READ, Keys::First),
        known("SMEMBERS", READ, Keys::First),
        known("SMISMEMBER", READ, Keys::First),
        known("SORT_RO", READ, Keys::First),
        known("SRANDMEMBER", READ, Keys::First),
        known("SREM", SAME, Keys::First),
        known("SSCAN", READ, Keys::First),
        known("SSUBSCRIBE", OWN, Keys::All),
        known("STRLEN", READ, Keys::First),
        known("SUBSCRIBE", OWN, Keys::None),
        known("SUBSTR", READ, Keys::First),
        known("SUNION", READ, Keys::All),
        known("SUNSUBSCRIBE", OWN, Keys::All),
        known("SYNC", OWN, Keys::None),
        known("TIME", READ, Keys::None),
        known("TOUCH", READ, Keys::All),
        known("TTL", READ, Keys::First),
        known("TYPE", READ, Keys::First),
        known("UNLINK", SAME, Keys::All),
        known("UNSUBSCRIBE", OWN, Keys::None),
        known("UNWATCH", OWN, Keys::None),
        known("WAIT", BLOCK, Keys::None),
        known("WAITAOF", BLOCK, Keys::None),
        known("WATCH", OWN, Keys::All),
        known("XACK", SAME, Keys::First),
        known("XDEL", SAME, Keys::First),
        known("XGROUP", SAME, Keys::At(1)),
        known("XINFO", READ, Keys::At(1)),
        known("XLEN", READ, Keys::First),
        known("XPENDING", READ, Keys::First),
        known("XRANGE", READ, Keys::First),
        known("XREAD", READ.with(BLOCK), Keys::Streams),
        known("XREADGROUP", BLOCK, Keys::Streams),
        known("XREVRANGE", READ, Keys::First),
        known("ZADD", SAME, Keys::First),
        known("ZCARD", READ, Keys::First),
        known("ZCOUNT", READ, Keys::First),
        known("ZDIFF", READ, Keys::Counted(0)),
        known("ZINTER", READ, Keys::Counted(0)),
        known("ZINTERCARD", READ, Keys::Counted(0)),
        known("ZLEXCOUNT", READ, Keys::First),
        known("ZMSCORE", READ, Keys::First),
        known("ZRANDMEMBER", READ, Keys::First),
        known("ZRANGE", READ, Keys::First),
        known("ZRANGEBYLEX", READ, Keys::First),
        known("ZRANGEBYSCORE", READ, Keys::First),
        known("ZRANK", READ, Keys::First),
        known("ZREM", SAME, Keys::First),
        known("ZREMRANGEBYLEX", SAME, Keys::First),
        known("ZREMRANGEBYSCORE", SAME, Keys::First),
        known("ZREVRANGE", READ, Keys::First),
        known("ZREVRANGEBYLEX", READ, Keys::First),
        known("ZREVRANGEBYSCORE", READ, Keys::First),
        known("ZREVRANK", READ, Keys::First),
        known("ZSCAN", READ, Keys::First),
        known("ZSCORE", READ, Keys::First),
        known("ZUNION", READ, Keys::Counted(0)),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_may_be_repeated_only_where_all_of_its_commands_may() {
        let get = Flags::READ_ONLY;
        let set = Flags::IDEMPOTENT;
        let incr = Flags::NONE;
        assert!(RetryPolicy::ReadOnly.allows(get.together(get)));
        assert!(!RetryPolicy::ReadOnly.allows(get.together(set)));
        assert!(RetryPolicy::Idempotent.allows(get.together(set)));
        assert!(!RetryPolicy::Idempotent.allows(get.together(incr)));
        assert!(!RetryPolicy::Never.allows(get));
        assert!(get.together(Flags::BLOCKS).contains(Flags::BLOCKS));
    }

    #[test]
    fn what_depends_on_its_connection_is_never_repeated() {
        assert!(!RetryPolicy::Idempotent.allows(Flags::READ_ONLY | Flags::DEDICATED));
    }

    /// A command must not be judged differently by its function and by its name.
    #[test]
    fn functions_and_names_agree_on_what_may_be_repeated() {
        let judged_by_options = ["SET", "SCRIPT", "XGROUP", "ZADD"];
        // Their name alone does not say which of their subcommands it is.
        let containers = [
            "ACL", "CLIENT", "CLUSTER", "CONFIG", "FUNCTION", "LATENCY", "MEMORY", "MODULE",
            "SCRIPT", "SLOWLOG",
        ];
        let metas = crate::commands::metas();
        assert!(metas.len() > 100, "{}", metas.len());
        for meta in metas {
            let by_name = lookup(meta.name).flags;
            for policy in [RetryPolicy::ReadOnly, RetryPolicy::Idempotent] {
                let (function, name) = (policy.allows(meta.flags), policy.allows(by_name));
                let container = containers.contains(&meta.name);
                let stricter = function && !name && container;
                let by_options = !function && name && judged_by_options.contains(&meta.name);
                assert!(
                    function == name || stricter || by_options,
                    "{} under {policy:?}: {function} by its function, {name} by its name",
                    meta.name
                );
            }
        }
    }

    /// The page says it of every command that the table knows.
    #[test]
    fn the_page_on_delivery_lists_every_idempotent_command() {
        let page = include_str!("../../../docs/delivery.md");
        for meta in KNOWN {
            if meta.flags.contains(Flags::IDEMPOTENT) {
                let row = format!("\n| `{}", meta.name);
                assert!(page.contains(&row), "no row for {}", meta.name);
            }
        }
    }

    #[test]
    fn names_are_found_whatever_their_case_and_unknown_ones_may_not_be_repeated() {
        assert_eq!(lookup("get").flags, Flags::READ_ONLY);
        assert_eq!(lookup("FT.SEARCH").flags, Flags::NONE);
        assert_eq!(lookup("INCR").flags, Flags::NONE);
        assert!(lookup("watch").flags.contains(Flags::DEDICATED));
    }
}
