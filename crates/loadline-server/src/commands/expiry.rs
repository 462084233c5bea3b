//! Expiry of keys.

use loadline_store::Expiry;

use super::numbers::integer;
use super::refusal::{Refusal, lower, shown};
use super::{Call, Listed, ONE, Words, is, listed};

pub(super) const TABLE: &[Listed] = &[
    listed("EXPIRE", -3, ONE, |call, words| {
        expire(call, words, Deadline::SECONDS_FROM_NOW)
    }),
    listed("PEXPIRE", -3, ONE, |call, words| {
        expire(call, words, Deadline::MILLISECONDS_FROM_NOW)
    }),
    listed("EXPIREAT", -3, ONE, |call, words| {
        expire(call, words, Deadline::SECONDS)
    }),
    listed("PEXPIREAT", -3, ONE, |call, words| {
        expire(call, words, Deadline::MILLISECONDS)
    }),
    listed("TTL", 2, ONE, |call, words| {
        time_left(call, words[1], 1_000)
    }),
    listed("PTTL", 2, ONE, |call, words| time_left(call, words[1], 1)),
    listed("EXPIRETIME", 2, ONE, |call, words| {
        expire_time(call, words[1], 1_000)
    }),
    listed("PEXPIRETIME", 2, ONE, |call, words| {
        expire_time(call, words[1], 1)
    }),
    listed("PERSIST", 2, ONE, persist),
];

/// Representation of a time as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deadline {
    unit_ms: i64,
    counts_from_now: bool,
}

impl Deadline {
    pub(super) const SECONDS_FROM_NOW: Self = Self::new(1_000, true);
    pub(super) const MILLISECONDS_FROM_NOW: Self = Self::new(1, true);
    pub(super) const SECONDS: Self = Self::new(1_000, false);
    pub(super) const MILLISECONDS: Self = Self::new(1, false);

    const fn new(unit_ms: i64, counts_from_now: bool) -> Self {
        Self {
            unit_ms,
            counts_from_now,
        }
    }

    /// The form that an option of SET or GETEX selects.
    pub(super) fn named(word: &[u8]) -> Option<Self> {
        let options = [
            ("EX", Self::SECONDS_FROM_NOW),
            ("PX", Self::MILLISECONDS_FROM_NOW),
            ("EXAT", Self::SECONDS),
            ("PXAT", Self::MILLISECONDS),
        ];
        let found = options.into_iter().find(|(name, _)| is(word, name));
        found.map(|(_, deadline)| deadline)
    }

    /// The time of `number` in milliseconds since the Unix epoch; `None` if it overflows.
    pub(super) fn at(self, number: i64, now: u64) -> Option<i64> {
        let base = if self.counts_from_now {
            i64::try_from(now).ok()?
        } else {
            0
        };
        number.checked_mul(self.unit_ms)?.checked_add(base)
    }
}

/// The time of a word that must be a positive number, in milliseconds since the Unix epoch. It can be in the
/// past.
pub(super) fn deadline(
    word: &[u8],
    unit: Deadline,
    now: u64,
    command: &str,
) -> Result<u64, Refusal> {
    let number = integer(word)?;
    let at = (number > 0).then(|| unit.at(number, now)).flatten();
    let at = at.and_then(|at| u64::try_from(at).ok());
    at.ok_or_else(|| invalid_time(command))
}

pub(super) fn invalid_time(command: &str) -> Refusal {
    format!("ERR invalid expire time in '{command}' command").into()
}

fn expire(call: &mut Call<'_>, words: Words<'_>, unit: Deadline) -> Result<(), Refusal> {
    let now = call.now();
    let condition = Condition::parse(&words[3..])?;
    let at = unit
        .at(integer(words[2])?, now)
        .ok_or_else(|| invalid_time(&lower(words[0])))?;
    let is_set = call.store().modify_expiry(words[1], now, |was| match was {
        Some(was) if condition.allows(was, at) => match u64::try_from(at) {
            Ok(at) if at > now => (true, Expiry::At(Some(at))),
            // A time in the past removes the key.
            _ => (true, Expiry::Now),
        },
        _ => (false, Expiry::Keep),
    });
    if is_set {
        call.expiry_touched(words[1]);
    }
    call.reply().flag(is_set);
    Ok(())
}

/// The conditions of EXPIRE and its variants.
#[derive(Debug, Default)]
pub(super) struct Condition {
    only_without: bool,
    only_with: bool,
    only_later: bool,
    only_earlier: bool,
}

impl Condition {
    pub(super) fn parse(words: &[&[u8]]) -> Result<Self, Refusal> {
        let mut condition = Self::default();
        for word in words {
            if is(word, "NX") {
                condition.only_without = true;
            } else if is(word, "XX") {
                condition.only_with = true;
            } else if is(word, "GT") {
                condition.only_later = true;
            } else if is(word, "LT") {
                condition.only_earlier = true;
            } else {
                return Err([b"ERR Unsupported option ", shown(word, word.len())].into());
            }
        }
        let others = condition.only_with || condition.only_later || condition.only_earlier;
        if condition.only_without && others {
            return Err(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into(),
            );
        }
        if condition.only_later && condition.only_earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(condition)
    }

    /// Whether a time of `old` can change to `new`; `None` is a key or field without expiry.
    pub(super) fn allows(&self, old: Option<u64>, new: i64) -> bool {
        let old_at = old.map(|old| i64::try_from(old).unwrap_or(i64::MAX));
        let is_later = old_at.is_some_and(|old| new > old);
        let is_earlier = old_at.is_none_or(|old| new < old);
        !(self.only_without && old.is_some()
            || self.only_with && old.is_none()
            || self.only_later && !is_later
            || self.only_earlier && !is_earlier)
    }
}

/// The expiry of `key`. It counts as a look-up, as in Redis.
fn look_up(call: &mut Call<'_>, key: &[u8]) -> Option<Option<u64>> {
    let expires_at = call.store().expires_at(key, call.now());
    call.shared.stats.count_lookup(expires_at.is_some());
    expires_at
}

/// Replies with a time: -2 without a key, -1 without an expiry.
fn answer(call: &mut Call<'_>, key: &[u8], time: impl FnOnce(u64) -> u64) {
    let found = look_up(call, key);
    call.count_lookup(key, found.is_some());
    let number = match found {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => i64::try_from(time(at)).unwrap_or(i64::MAX),
    };
    call.reply().integer(number);
}

fn expire_time(call: &mut Call<'_>, key: &[u8], unit_ms: u64) -> Result<(), Refusal> {
    // Rounded as in Redis.
    answer(call, key, |at| at.saturating_add(unit_ms / 2) / unit_ms);
    Ok(())
}

fn time_left(call: &mut Call<'_>, key: &[u8], unit_ms: u64) -> Result<(), Refusal> {
    let now = call.now();
    let rounded = |at: u64| at.saturating_sub(now).saturating_add(unit_ms / 2) / unit_ms;
    answer(call, key, rounded);
    Ok(())
}

fn persist(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let had_time = call
        .store()
        .modify_expiry(words[1], call.now(), |was| match was {
            Some(Some(_)) => (true, Expiry::At(None)),
            _ => (false, Expiry::Keep),
        });
    if had_time {
        call.expiry_touched(words[1]);
    }
    call.reply().flag(had_time);
    Ok(())
}
