//! Settings that CONFIG SET can change.

use loadline_store::{AccessMetric, Victim};

use crate::notify::Classes;

/// The settings, with the defaults of Redis.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The most fields of an ordered hash.
    pub(crate) hash_max_listpack_entries: u64,
    /// The most bytes of a field or value of an ordered hash.
    pub(crate) hash_max_listpack_value: u64,
    /// The most members of a sorted set of integers.
    pub(crate) set_max_intset_entries: u64,
    /// Milliseconds that a script can run before it writes; 0 for no limit.
    pub(crate) busy_reply_threshold: u64,
    /// The most bytes of a sparse HyperLogLog.
    pub(crate) hll_sparse_max_bytes: u64,
    /// Has no effect: lists are not made of listpacks here.
    pub(crate) list_max_listpack_size: i64,
    /// Has no effect: lists are not compressed.
    pub(crate) list_compress_depth: u64,
    /// The most members of a packed sorted set.
    pub(crate) zset_max_listpack_entries: u64,
    /// The most bytes of a member of a packed sorted set.
    pub(crate) zset_max_listpack_value: u64,
    /// The data size in bytes beyond which commands that add data are refused; 0 for no limit.
    pub(crate) maxmemory: u64,
    /// The eviction policy at that limit.
    pub(crate) eviction: Eviction,
    pub(crate) output_limits: OutputLimits,
    pub(crate) maxmemory_clients: ClientLimit,
    /// Seconds after which a client that sends nothing is closed; 0 for no limit.
    pub(crate) timeout: u64,
    /// The fewest replicas for which writes are accepted. There are none, so that every number but 0 refuses all writes.
    pub(crate) min_replicas_to_write: u64,
    /// The most entries of the log of what was denied to users.
    pub(crate) acllog_max_len: u64,
    /// The most keys that are remembered for clients that track them; 0 for no limit.
    pub(crate) tracking_table_max_keys: u64,
    /// The keyspace notifications that are published.
    pub(crate) notified: Classes,
    /// Microseconds from which on a command is in the slow log; negative for none.
    pub(crate) slowlog_log_slower_than: i64,
    /// The most commands in the slow log.
    pub(crate) slowlog_max_len: u64,
    /// Milliseconds from which on LATENCY has a sample; 0 for none.
    pub(crate) latency_monitor_threshold: u64,
    /// The most bytes of a block of a stream.
    pub(crate) stream_node_max_bytes: u64,
    /// The most entries of a block.
    pub(crate) stream_node_max_entries: u64,
}

/// The limits of pending output by class of connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputLimits {
    pub(crate) normal: OutputLimit,
    /// Kept for CONFIG GET: there are no replicas.
    pub(crate) replica: OutputLimit,
    pub(crate) pubsub: OutputLimit,
}

/// The limit of the pending output of a connection, which is closed when it reaches the limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputLimit {
    /// The most bytes; 0 for no limit.
    pub(crate) hard: u64,
    /// The most bytes over a period of `soft_seconds`; 0 for no limit.
    pub(crate) soft: u64,
    pub(crate) soft_seconds: u64,
}

impl OutputLimit {
    const NONE: Self = Self {
        hard: 0,
        soft: 0,
        soft_seconds: 0,
    };
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self {
            normal: OutputLimit::NONE,
            replica: OutputLimit {
                hard: 256 << 20,
                soft: 64 << 20,
                soft_seconds: 60,
            },
            pubsub: OutputLimit {
                hard: 32 << 20,
                soft: 8 << 20,
                soft_seconds: 60,
            },
        }
    }
}

impl OutputLimits {
    /// The value as CONFIG GET shows it.
    pub(crate) fn text(&self) -> String {
        let classes = [
            ("normal", self.normal),
            ("slave", self.replica),
            ("pubsub", self.pubsub),
        ];
        let texts = classes.map(|(name, limit)| {
            let OutputLimit {
                hard,
                soft,
                soft_seconds,
            } = limit;
            format!("{name} {hard} {soft} {soft_seconds}")
        });
        texts.join(" ")
    }

    /// Sets the classes that a value of CONFIG SET names: a class, the hard and the soft limit, and seconds, in turn.
    ///
    /// # Errors
    /// The texts of Redis; nothing is changed then.
    pub(crate) fn parse(&mut self, value: &[u8]) -> Result<(), &'static str> {
        let words = value.split(u8::is_ascii_whitespace);
        let words: Vec<&[u8]> = words.filter(|word| !word.is_empty()).collect();
        if !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.");
        }
        let mut parsed = *self;
        for words in words.chunks_exact(4) {
            let class = match words[0].to_ascii_lowercase().as_slice() {
                b"normal" => &mut parsed.normal,
                b"slave" | b"replica" => &mut parsed.replica,
                b"pubsub" => &mut parsed.pubsub,
                _ => return Err("Invalid client class specified in buffer limit configuration."),
            };
            let seconds = std::str::from_utf8(words[3]).ok();
            let limit = memory_bytes(words[1])
                .zip(memory_bytes(words[2]))
                .zip(seconds.and_then(|seconds| seconds.parse().ok()));
            let ((hard, soft), soft_seconds) = limit.ok_or(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
            )?;
            *class = OutputLimit {
                hard,
                soft,
                soft_seconds,
            };
        }
        *self = parsed;
        Ok(())
    }
}

/// The memory of all clients together at which the largest ones are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientLimit {
    /// 0 for no limit.
    Bytes(u64),
    /// A share of `maxmemory`.
    Percent(u64),
}

impl Default for ClientLimit {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

impl ClientLimit {
    /// The smallest limit. With less, no client could change the setting.
    const LEAST_BYTES: u64 = 128 << 10;

    /// The value as CONFIG GET shows it.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Bytes(bytes) => bytes.to_string(),
            Self::Percent(percent) => format!("{percent}%"),
        }
    }

    /// Reads a value of CONFIG SET.
    ///
    /// # Errors
    /// The texts of Redis.
    pub(crate) fn parse(value: &[u8]) -> Result<Self, &'static str> {
        const MOST: &str = "percentage argument must be less or equal to 100";
        if let Some(bytes) = memory_bytes(value) {
            // Redis takes a number of 64 bits for a negative one, which is how it keeps percentages.
            let bytes = i64::try_from(bytes).map_err(|_| MOST)?;
            return Ok(Self::Bytes(bytes.unsigned_abs()));
        }
        let percent = value.strip_suffix(b"%");
        let percent = percent.and_then(|number| std::str::from_utf8(number).ok());
        let percent = percent.and_then(|number| number.parse().ok());
        match percent.ok_or("argument must be a memory or percent value")? {
            0 => Ok(Self::Bytes(0)),
            percent @ 1..=100 => Ok(Self::Percent(percent)),
            _ => Err(MOST),
        }
    }

    /// The limit in bytes, if there is one; a share of a `maxmemory` of 0 is none.
    pub(crate) fn bytes(self, maxmemory: u64) -> Option<u64> {
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (u128::from(maxmemory) * u128::from(percent) / 100) as u64,
        };
        (bytes > 0).then_some(bytes.max(Self::LEAST_BYTES))
    }
}

/// The eviction policy at the memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eviction {
    /// Commands that add data are refused (`noeviction`).
    #[default]
    None,
    /// The least frequently used keys are removed (`allkeys-lfu`).
    LeastUsed,
    /// The same among the keys with an expiry (`volatile-lfu`).
    LeastUsedVolatile,
    /// The keys that were not used for the longest time are removed, approximately (`allkeys-lru`).
    LeastRecent,
    /// The same among the keys with an expiry (`volatile-lru`).
    LeastRecentVolatile,
    /// Random keys are removed (`allkeys-random`).
    Random,
    /// Random keys with an expiry are removed (`volatile-random`).
    RandomVolatile,
    /// The keys that expire first are removed, approximately (`volatile-ttl`).
    FirstToExpire,
}

/// The clients that can call DEBUG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DebugCommand {
    /// None.
    #[default]
    No,
    /// Those of the same machine.
    Local,
    /// All.
    Yes,
}

impl DebugCommand {
    /// The value of `enable-debug-command` in Redis.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Local => "local",
            Self::Yes => "yes",
        }
    }
}

impl Eviction {
    /// All policies with their names in Redis.
    pub const NAMES: [(&str, Self); 8] = [
        ("volatile-lru", Self::LeastRecentVolatile),
        ("volatile-lfu", Self::LeastUsedVolatile),
        ("volatile-random", Self::RandomVolatile),
        ("volatile-ttl", Self::FirstToExpire),
        ("allkeys-lru", Self::LeastRecent),
        ("allkeys-lfu", Self::LeastUsed),
        ("allkeys-random", Self::Random),
        ("noeviction", Self::None),
    ];

    /// The name of the policy in Redis.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.into_iter().find(|(_, other)| *other == self);
        named.map_or("", |(name, _)| name)
    }

    /// The order in which the store chooses among the keys.
    pub(crate) fn victim(self) -> Option<Victim> {
        match self {
            Self::None => None,
            Self::LeastUsed | Self::LeastUsedVolatile => Some(Victim::LeastUsed),
            Self::LeastRecent | Self::LeastRecentVolatile => Some(Victim::LeastRecent),
            Self::Random | Self::RandomVolatile => Some(Victim::Random),
            Self::FirstToExpire => Some(Victim::FirstToExpire),
        }
    }

    /// The fact about accesses that OBJECT shows: their frequency with the `-lfu` policies, and the time of the last one with
    /// others.
    pub(crate) fn access(self) -> AccessMetric {
        match self.victim() {
            Some(Victim::LeastUsed) => AccessMetric::Frequency,
            _ => AccessMetric::Time,
        }
    }

    /// Whether keys without an expiry stay.
    pub(crate) fn is_volatile(self) -> bool {
        match self {
            Self::None | Self::LeastUsed | Self::LeastRecent | Self::Random => false,
            Self::LeastUsedVolatile
            | Self::LeastRecentVolatile
            | Self::RandomVolatile
            | Self::FirstToExpire => true,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hash_max_listpack_entries: 512,
            hash_max_listpack_value: 64,
            set_max_intset_entries: 512,
            busy_reply_threshold: 5_000,
            hll_sparse_max_bytes: 3_000,
            list_max_listpack_size: -2,
            list_compress_depth: 0,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
            maxmemory: 0,
            eviction: Eviction::None,
            output_limits: OutputLimits::default(),
            maxmemory_clients: ClientLimit::default(),
            timeout: 0,
            min_replicas_to_write: 0,
            acllog_max_len: 128,
            tracking_table_max_keys: 1_000_000,
            notified: Classes::default(),
            slowlog_log_slower_than: 10_000,
            slowlog_max_len: 128,
            latency_monitor_threshold: 0,
            stream_node_max_bytes: 4_096,
            stream_node_max_entries: 100,
        }
    }
}

/// The unit of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Count,
    /// A count of 31 bits.
    Small,
    /// Bytes, with a unit such as `kb`.
    Memory,
}

/// Access to the field of a setting.
type Setting = fn(&mut Settings) -> &mut u64;

/// The names of the settings; names from before Redis 7 come last.
pub(crate) const NAMES: [(&str, Unit, Setting); 23] = [
    ("hash-max-listpack-entries", Unit::Count, |all| {
        &mut all.hash_max_listpack_entries
    }),
    ("hash-max-ziplist-entries", Unit::Count, |all| {
        &mut all.hash_max_listpack_entries
    }),
    ("hash-max-listpack-value", Unit::Memory, |all| {
        &mut all.hash_max_listpack_value
    }),
    ("hash-max-ziplist-value", Unit::Memory, |all| {
        &mut all.hash_max_listpack_value
    }),
    ("set-max-intset-entries", Unit::Count, |all| {
        &mut all.set_max_intset_entries
    }),
    ("busy-reply-threshold", Unit::Count, |all| {
        &mut all.busy_reply_threshold
    }),
    ("lua-time-limit", Unit::Count, |all| {
        &mut all.busy_reply_threshold
    }),
    ("hll-sparse-max-bytes", Unit::Memory, |all| {
        &mut all.hll_sparse_max_bytes
    }),
    ("list-compress-depth", Unit::Count, |all| {
        &mut all.list_compress_depth
    }),
    ("zset-max-listpack-entries", Unit::Count, |all| {
        &mut all.zset_max_listpack_entries
    }),
    ("zset-max-ziplist-entries", Unit::Count, |all| {
        &mut all.zset_max_listpack_entries
    }),
    ("zset-max-listpack-value", Unit::Memory, |all| {
        &mut all.zset_max_listpack_value
    }),
    ("zset-max-ziplist-value", Unit::Memory, |all| {
        &mut all.zset_max_listpack_value
    }),
    ("slowlog-max-len", Unit::Count, |all| {
        &mut all.slowlog_max_len
    }),
    ("latency-monitor-threshold", Unit::Count, |all| {
        &mut all.latency_monitor_threshold
    }),
    ("maxmemory", Unit::Memory, |all| &mut all.maxmemory),
    ("timeout", Unit::Small, |all| &mut all.timeout),
    ("min-replicas-to-write", Unit::Small, |all| {
        &mut all.min_replicas_to_write
    }),
    ("min-slaves-to-write", Unit::Small, |all| {
        &mut all.min_replicas_to_write
    }),
    ("acllog-max-len", Unit::Count, |all| &mut all.acllog_max_len),
    ("tracking-table-max-keys", Unit::Count, |all| {
        &mut all.tracking_table_max_keys
    }),
    ("stream-node-max-bytes", Unit::Memory, |all| {
        &mut all.stream_node_max_bytes
    }),
    ("stream-node-max-entries", Unit::Count, |all| {
        &mut all.stream_node_max_entries
    }),
];

/// Reads a number of bytes as Redis does: a number with an optional unit in any case.
pub(crate) fn memory_bytes(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
    let digits = text.len()
        - text
            .trim_start_matches(|letter: char| letter.is_ascii_digit())
            .len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_outputs_are_read_whole_or_not_at_all() {
        let mut limits = OutputLimits::default();
        let default = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        assert_eq!(limits.text(), default);
        for wrong in [
            "normal",
            "normal 1 2 3 pubsub 1 x 3",
            "master 1 2 3",
            "pubsub 1 2 -3",
        ] {
            assert!(limits.parse(wrong.as_bytes()).is_err(), "{wrong}");
            assert_eq!(limits.text(), default, "{wrong}");
        }
        limits.parse(b"PubSub 2kb 1k 5  normal 1mb 0 0").unwrap();
        let changed = "normal 1048576 0 0 slave 268435456 67108864 60 pubsub 2048 1000 5";
        assert_eq!(limits.text(), changed);
    }

    #[test]
    fn limit_of_clients_is_bytes_or_a_share_of_maxmemory() {
        for (text, shown, bytes) in [
            ("0", "0", None),
            ("0%", "0", None),
            ("1", "1", Some(128 << 10)),
            ("1mb", "1048576", Some(1 << 20)),
            ("5%", "5%", Some(5 << 20)),
            ("100%", "100%", Some(100 << 20)),
        ] {
            let limit = ClientLimit::parse(text.as_bytes()).unwrap();
            assert_eq!(limit.text(), shown);
            assert_eq!(limit.bytes(100 << 20), bytes, "{text}");
        }
        for wrong in ["", "%", "-1", "101%", "1.5%", "x", "9223372036854775808"] {
            assert!(ClientLimit::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert_eq!(ClientLimit::Percent(5).bytes(0), None);
    }

    #[test]
    fn memory_is_read_with_its_unit() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("100", Some(100)),
            ("1k", Some(1_000)),
            ("1Kb", Some(1_024)),
            ("2mb", Some(2 << 20)),
            ("1GB", Some(1 << 30)),
            ("", None),
            ("kb", None),
            ("-1", None),
            ("1tb", None),
            ("99999999999gb", None),
        ] {
            assert_eq!(memory_bytes(text.as_bytes()), bytes, "{text:?}");
        }
    }
}
