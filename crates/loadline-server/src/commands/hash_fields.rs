//! Expiry of the fields of hashes, as in Redis 8.2.

use loadline_store::{Bytes, Edit, Fields, View};

use super::expiry::{Condition, Deadline, invalid_time};
use super::hashes::{fields_of, fresh, look, set_field};
use super::numbers::integer;
use super::refusal::{NOT_INTEGER, Refusal, WRONG_TYPE, lower, shown, wrong_number};
use super::{Call, Effect, Listed, ONE, Words, is, listed};
use crate::notify::{Class, What};

pub(super) const TABLE: &[Listed] = &[
    listed("HEXPIRE", -6, ONE, |call, words| {
        expire(call, words, Deadline::SECONDS_FROM_NOW)
    }),
    listed("HPEXPIRE", -6, ONE, |call, words| {
        expire(call, words, Deadline::MILLISECONDS_FROM_NOW)
    }),
    listed("HEXPIREAT", -6, ONE, |call, words| {
        expire(call, words, Deadline::SECONDS)
    }),
    listed("HPEXPIREAT", -6, ONE, |call, words| {
        expire(call, words, Deadline::MILLISECONDS)
    }),
    listed("HTTL", -5, ONE, |call, words| {
        let now = call.now();
        tell(call, words, |at| at.saturating_sub(now).div_ceil(1_000))
    }),
    listed("HPTTL", -5, ONE, |call, words| {
        let now = call.now();
        tell(call, words, |at| at.saturating_sub(now))
    }),
    listed("HEXPIRETIME", -5, ONE, |call, words| {
        tell(call, words, |at| at.div_ceil(1_000))
    }),
    listed("HPEXPIRETIME", -5, ONE, |call, words| {
        tell(call, words, |at| at)
    }),
    listed("HPERSIST", -5, ONE, persist),
    listed("HGETEX", -5, ONE, hgetex),
    listed("HSETEX", -6, ONE, hsetex),
    listed("HGETDEL", -5, ONE, hgetdel),
];

/// The latest expiry of a field, in milliseconds since the Unix epoch: that of Redis.
const LATEST_MS: i64 = (1 << 46) - 1;

const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

/// The names of fields behind FIELDS and their number, at `place`.
fn named<'w, 'k>(
    words: &'w [&'k [u8]],
    place: usize,
    refusal: &'static str,
) -> Result<&'w [&'k [u8]], Refusal> {
    if !is(words[place], "FIELDS") {
        return Err("ERR Mandatory argument FIELDS is missing or not at the right position".into());
    }
    let count = integer(words[place + 1]).map_err(|_| refusal)?;
    if count < 1 {
        return Err(refusal.into());
    }
    let fields = &words[place + 2..];
    if count != fields.len() as i64 {
        return Err("ERR The `numfields` parameter must match the number of arguments".into());
    }
    Ok(fields)
}

/// The time of a word, in milliseconds since the Unix epoch. It can be in the past.
fn time(word: &[u8], unit: Deadline, now: u64, command: &str) -> Result<u64, Refusal> {
    let number = integer(word)?;
    if number < 0 {
        return Err("ERR invalid expire time, must be >= 0".into());
    }
    let at = unit.at(number, now).filter(|at| *at <= LATEST_MS);
    let at = at.and_then(|at| u64::try_from(at).ok());
    at.ok_or_else(|| invalid_time(command))
}

/// Refuses a key that holds another kind of value.
fn check_kind(call: &Call<'_>, key: &[u8]) -> Result<(), Refusal> {
    let is_other = |value: Option<View<'_>>| value.is_some_and(|it| !matches!(it, View::Hash(_)));
    match call.store().inspect(key, call.now(), is_other) {
        true => Err(WRONG_TYPE.into()),
        false => Ok(()),
    }
}

/// The change of the expiry of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Missing,
    Same,
    Set(Option<u64>),
    Removed,
}

/// Sets the expiry of a field, or removes the field if the time is not in the future.
fn set_expiry(fields: &mut Fields, field: &[u8], expires_at: Option<u64>, now: u64) -> Outcome {
    if expires_at.is_some_and(|at| at <= now) {
        fields.remove(field);
        return Outcome::Removed;
    }
    fields.set_expiry(field, expires_at);
    Outcome::Set(expires_at)
}

/// The outcomes of a command for fields, in their order, and the values that it replies with.
#[derive(Debug, Default)]
struct Changed {
    outcomes: Vec<Outcome>,
    values: Vec<Option<Bytes>>,
}

impl Changed {
    fn has(&self, is_one: impl Fn(&Outcome) -> bool) -> bool {
        self.outcomes.iter().any(is_one)
    }

    fn effect(self) -> Effect<Self> {
        let changes = |outcome: &Outcome| matches!(outcome, Outcome::Set(_) | Outcome::Removed);
        Effect::of(self.has(changes), self)
    }

    /// Notes the changes of these fields.
    fn note(&self, fields: &[&[u8]], note: &mut dyn FnMut(Edit<'_>)) {
        let (mut removed, mut set) = (Vec::new(), Vec::new());
        for (field, outcome) in fields.iter().zip(&self.outcomes) {
            match outcome {
                Outcome::Removed => removed.push(*field),
                Outcome::Set(at) => set.push((*field, *at)),
                Outcome::Missing | Outcome::Same => {}
            }
        }
        if !set.is_empty() {
            note(Edit::SetFieldExpiries(&set));
        }
        if !removed.is_empty() {
            note(Edit::RemoveFields(&removed));
        }
    }
}

impl Call<'_> {
    /// Changes fields of a hash one after the other; `change` is called for those that are there.
    fn change_fields(
        &mut self,
        key: &[u8],
        fields: &[&[u8]],
        mut change: impl FnMut(&mut Fields, &[u8], &mut Changed) -> Outcome,
    ) -> Result<Changed, Refusal> {
        let changed = self.change_part(
            key,
            fresh,
            |value| {
                let hash = fields_of(value)?;
                let mut changed = Changed::default();
                for field in fields {
                    let outcome = match hash.contains(field) {
                        true => change(hash, field, &mut changed),
                        false => Outcome::Missing,
                    };
                    changed.outcomes.push(outcome);
                }
                Ok(changed.effect())
            },
            |changed, note| changed.note(fields, note),
        )?;
        if changed.has(|outcome| matches!(outcome, Outcome::Set(Some(_)))) {
            self.note_event(key, "hexpire");
        }
        if changed.has(|outcome| *outcome == Outcome::Set(None)) {
            self.note_event(key, "hpersist");
        }
        if changed.has(|outcome| *outcome == Outcome::Removed) {
            self.note_removal(key);
        }
        Ok(changed)
    }

    fn note_event(&mut self, key: &[u8], event: &'static str) {
        let database = self.session.database;
        let what = What::Of(Class::HASH, event);
        self.shared.watched.note_what(database, key, what);
    }

    /// Notes that fields went, and perhaps their key.
    fn note_removal(&mut self, key: &[u8]) {
        self.note_event(key, "hdel");
        if self.shared.watched.is_noting() && !self.has(key) {
            let database = self.session.database;
            let what = What::Of(Class::GENERIC, "del");
            self.shared.watched.note_what(database, key, what);
        }
    }

    fn reply_values(&mut self, fields: &[&[u8]], changed: &Changed) {
        let mut reply = self.reply();
        reply.array(fields.len());
        let mut values = changed.values.iter();
        for outcome in &changed.outcomes {
            match outcome {
                Outcome::Missing => reply.null(),
                _ => reply.maybe(values.next().and_then(Option::as_deref)),
            }
        }
    }
}

/// Replies with a number for each field.
fn reply_numbers(call: &mut Call<'_>, outcomes: &[Outcome], same: i64) {
    let mut reply = call.reply();
    reply.array(outcomes.len());
    for outcome in outcomes {
        reply.integer(match outcome {
            Outcome::Missing => -2,
            Outcome::Same => same,
            Outcome::Set(_) => 1,
            Outcome::Removed => 2,
        });
    }
}

fn expire(call: &mut Call<'_>, words: Words<'_>, unit: Deadline) -> Result<(), Refusal> {
    check_kind(call, words[1])?;
    let now = call.now();
    let at = time(words[2], unit, now, &lower(words[0]))?;
    let (place, condition) = match Condition::parse(&words[3..4]) {
        Ok(condition) => (4, condition),
        Err(_) => (3, Condition::default()),
    };
    let refusal = "ERR Parameter `numFields` should be greater than 0";
    let fields = named(words, place, refusal)?;
    let changed = call.change_fields(words[1], fields, |hash, field, _| {
        if condition.allows(hash.expires_at(field), at as i64) {
            set_expiry(hash, field, Some(at), now)
        } else {
            Outcome::Same
        }
    })?;
    reply_numbers(call, &changed.outcomes, 0);
    Ok(())
}

fn persist(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    check_kind(call, words[1])?;
    let (now, fields) = (call.now(), named(words, 2, NOT_POSITIVE)?);
    let changed = call.change_fields(words[1], fields, |hash, field, _| {
        match hash.expires_at(field) {
            Some(_) => set_expiry(hash, field, None, now),
            None => Outcome::Same,
        }
    })?;
    reply_numbers(call, &changed.outcomes, -1);
    Ok(())
}

/// Replies with a time for each field: -2 without one, -1 without an expiry.
fn tell(call: &mut Call<'_>, words: Words<'_>, time: impl Fn(u64) -> u64) -> Result<(), Refusal> {
    look(call, words[1], |hash, reply| {
        let fields = named(words, 2, NOT_POSITIVE)?;
        reply.array(fields.len());
        for field in fields {
            reply.integer(match hash.expires_at(field) {
                Some(at) => time(at) as i64,
                None if hash.contains(field) => -1,
                None => -2,
            });
        }
        Ok(())
    })?
}

fn hgetex(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    check_kind(call, words[1])?;
    let now = call.now();
    let unit = Deadline::named(words[2]);
    let persists = is(words[2], "PERSIST");
    let at = match unit {
        Some(unit) => Some(time(words[3], unit, now, "hgetex")?),
        None => None,
    };
    let place = 2 + usize::from(persists) + 2 * usize::from(unit.is_some());
    if words.len() < place + 2 {
        return Err(wrong_number("hgetex"));
    }
    let fields = named(words, place, NOT_POSITIVE)?;
    let changed = call.change_fields(words[1], fields, |hash, field, changed| {
        changed.values.push(hash.get(field).cloned());
        let has_expiry = hash.expires_at(field).is_some();
        match at {
            Some(_) => set_expiry(hash, field, at, now),
            None if persists && has_expiry => set_expiry(hash, field, None, now),
            None => Outcome::Same,
        }
    })?;
    call.reply_values(fields, &changed);
    Ok(())
}

fn hgetdel(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    check_kind(call, words[1])?;
    let fields = named(words, 2, NOT_POSITIVE)?;
    let changed = call.change_fields(words[1], fields, |hash, field, changed| {
        changed.values.push(hash.remove(field));
        Outcome::Removed
    })?;
    call.reply_values(fields, &changed);
    Ok(())
}

/// The options of HSETEX, and its fields in turn with their values.
struct Setting<'w, 'k> {
    pairs: &'w [&'k [u8]],
    /// Whether all fields, or none of them, have to be there.
    condition: Option<bool>,
    expires_at: Option<u64>,
    keeps_expiry: bool,
}

impl<'w, 'k> Setting<'w, 'k> {
    fn parse(words: &'w [&'k [u8]], now: u64) -> Result<Self, Refusal> {
        let mut setting = Self {
            pairs: &[],
            condition: None,
            expires_at: None,
            keeps_expiry: false,
        };
        let mut rest = words[2..].iter();
        while let Some(word) = rest.next() {
            let unit = Deadline::named(word);
            if is(word, "FIELDS") {
                setting.pairs = pairs(rest.as_slice())?;
                return Ok(setting);
            } else if is(word, "FNX") || is(word, "FXX") {
                if setting.condition.is_some() {
                    return Err("ERR Only one of FXX or FNX arguments can be specified".into());
                }
                setting.condition = Some(is(word, "FXX"));
            } else if is(word, "KEEPTTL") || unit.is_some() {
                if setting.keeps_expiry || setting.expires_at.is_some() {
                    return Err(
                        "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"
                            .into(),
                    );
                }
                match unit {
                    Some(unit) => {
                        let number = rest.next().ok_or(NOT_INTEGER)?;
                        setting.expires_at = Some(time(number, unit, now, "hsetex")?);
                    }
                    None => setting.keeps_expiry = true,
                }
            } else {
                return Err([b"ERR unknown argument: ", shown(word, word.len())].into());
            }
        }
        Err("ERR missing FIELDS argument".into())
    }
}

/// The fields and values behind their number.
fn pairs<'w, 'k>(words: &'w [&'k [u8]]) -> Result<&'w [&'k [u8]], Refusal> {
    let [count, pairs @ ..] = words else {
        return Err(wrong_number("hsetex"));
    };
    if pairs.len() < 2 {
        return Err(wrong_number("hsetex"));
    }
    let count = integer(count).ok().filter(|count| *count >= 1);
    let count = count.ok_or("ERR invalid number of fields")?;
    if count.checked_mul(2) != Some(pairs.len() as i64) {
        return Err(wrong_number("hsetex"));
    }
    Ok(pairs)
}

fn hsetex(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (key, now) = (words[1], call.now());
    let setting = Setting::parse(words, now)?;
    let settings = call.shared.settings.clone();
    let is_over = setting.expires_at.is_some_and(|at| at <= now);
    let fields: Vec<&[u8]> = setting.pairs.iter().step_by(2).copied().collect();
    let changed = call.change_part(
        key,
        fresh,
        |value| {
            let hash = fields_of(value)?;
            let is_new = hash.is_empty();
            let is_refused = |wanted| fields.iter().any(|field| hash.contains(field) != wanted);
            if setting.condition.is_some_and(is_refused) {
                return Ok(Effect::Same(None));
            }
            let mut changed = Changed::default();
            for pair in setting.pairs.chunks_exact(2) {
                let kept = hash.expires_at(pair[0]).filter(|_| setting.keeps_expiry);
                set_field(hash, pair[0], Bytes::from(pair[1]), &settings);
                let at = setting.expires_at.or(kept);
                changed.outcomes.push(match at {
                    Some(_) => set_expiry(hash, pair[0], at, now),
                    None => Outcome::Same,
                });
            }
            // A new key whose fields are all over does not come into being.
            let is_same = is_new && hash.is_empty();
            Ok(Effect::of(!is_same, Some(changed)))
        },
        |changed, note| {
            note(Edit::SetFields(setting.pairs));
            changed
                .iter()
                .for_each(|changed| changed.note(&fields, note));
        },
    )?;
    if changed.is_some() {
        call.note_event(key, "hset");
        if is_over {
            call.note_removal(key);
        } else if setting.expires_at.is_some() {
            call.note_event(key, "hexpire");
        }
    }
    call.reply().flag(changed.is_some());
    Ok(())
}
