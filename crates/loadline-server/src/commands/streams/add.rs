//! Entries that come and go: XADD, XTRIM, XDEL and XSETID.

use std::collections::BTreeSet;

use loadline_store::{BlockLimits, Keep, Stream, StreamEdit, StreamId, StreamWords, Trim};

use super::ids::{self, Given};
use super::{Changes, Seen, edit, has_stream, limits, look, put_id};
use crate::commands::numbers::integer;
use crate::commands::refusal::{NO_KEY, Refusal, SYNTAX, wrong_number};
use crate::commands::{Call, Words, is};

/// The most entries that a command with `~` removes, by the setting of entries per block.
fn usual_limit(entries_per_block: u64) -> u64 {
    match entries_per_block.saturating_mul(100) {
        0 => 10_000,
        limit => limit.min(1_000_000),
    }
}

/// The options of XADD and XTRIM.
#[derive(Debug, Default)]
struct Options {
    keep: Option<Keep>,
    is_approximate: bool,
    limit: Option<i64>,
    must_exist: bool,
    /// The id of the new entry; `None` for `*`.
    id: Option<Given>,
    /// The position of the id.
    place: usize,
}

impl Options {
    fn parse(words: Words<'_>, adds: bool) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let mut place = 2;
        while let Some(word) = words.get(place) {
            let rest = &words[place + 1..];
            if adds && *word == b"*" {
                break;
            } else if (is(word, "MAXLEN") || is(word, "MINID")) && !rest.is_empty() {
                place += options.parse_keep(word, rest)?;
            } else if is(word, "LIMIT") && !rest.is_empty() {
                let limit = integer(rest[0])?;
                if limit < 0 {
                    return Err("ERR The LIMIT argument must be >= 0.".into());
                }
                options.limit = Some(limit);
                place += 1;
            } else if adds && is(word, "NOMKSTREAM") {
                options.must_exist = true;
            } else if adds {
                options.id = Some(ids::new(word)?);
                break;
            } else {
                return Err(SYNTAX.into());
            }
            place += 1;
        }
        options.place = place;
        options.check(adds)?;
        Ok(options)
    }

    /// Reads what is to be kept and returns the number of words behind the name of the option.
    fn parse_keep(&mut self, word: &[u8], rest: &[&[u8]]) -> Result<usize, Refusal> {
        if self.keep.is_some() {
            return Err(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
                    .into(),
            );
        }
        let is_mark = rest.len() >= 2 && (rest[0] == b"~" || rest[0] == b"=");
        self.is_approximate = is_mark && rest[0] == b"~";
        let value = rest[usize::from(is_mark)];
        self.keep = Some(if is(word, "MAXLEN") {
            let most = integer(value)?;
            let most = u64::try_from(most).map_err(|_| "ERR The MAXLEN argument must be >= 0.")?;
            Keep::Last(most)
        } else {
            Keep::From(ids::strict(value, 0)?)
        });
        Ok(1 + usize::from(is_mark))
    }

    fn check(&self, adds: bool) -> Result<(), Refusal> {
        if self.keep.is_none() && self.limit.is_some_and(|limit| limit > 0) {
            return Err(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
                    .into(),
            );
        }
        if self.keep.is_none() && !adds {
            return Err("ERR syntax error, XTRIM must be called with a trimming strategy".into());
        }
        if self.limit.is_some() && !self.is_approximate {
            return Err(
                "ERR syntax error, LIMIT cannot be used without the special ~ option".into(),
            );
        }
        Ok(())
    }

    /// The entries that go.
    fn trim(&self, stream: &Stream, limits: BlockLimits) -> Trim {
        let Some(keep) = self.keep else {
            return Trim::default();
        };
        let most = match self.limit {
            None if self.is_approximate => Some(usual_limit(limits.entries)),
            None | Some(0) => None,
            Some(limit) => Some(limit.unsigned_abs()),
        };
        stream.plan_trim(keep, self.is_approximate, most)
    }
}

fn trim(changes: &mut Changes<'_, '_>, trim: Trim) {
    let Trim { blocks, marked, .. } = trim;
    if blocks + marked > 0 {
        changes.perform(StreamEdit::Trim { blocks, marked });
    }
}

pub(super) fn xadd(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let options = Options::parse(words, true)?;
    let fields = words.get(options.place + 1..).unwrap_or_default();
    if fields.len() < 2 || !fields.len().is_multiple_of(2) {
        return Err(wrong_number("xadd"));
    }
    if options.id == Some(Given::Whole(StreamId::MIN)) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    if options.must_exist && !has_stream(call, words[1])? {
        call.reply().null();
        return Ok(());
    }
    let (now, limits) = (call.now(), limits(&call.shared.settings));
    let id = edit(call, words[1], Seen::ByWatchers, |changes| {
        let stream = &*changes.stream;
        let id = new_id(stream, options.id, now)?;
        let bytes: usize = fields.iter().map(|word| word.len()).sum();
        if bytes as u64 > BlockLimits::MOST_BYTES {
            return Err("ERR Elements are too large to be stored".into());
        }
        changes.perform(StreamEdit::Append {
            id,
            begins_block: stream.begins_block(fields, limits),
            fields: StreamWords::Lent(fields),
        });
        let plan = options.trim(changes.stream, limits);
        trim(changes, plan);
        Ok(id)
    })?;
    put_id(call.out, id);
    Ok(())
}

/// The id of a new entry.
fn new_id(stream: &Stream, given: Option<Given>, now: u64) -> Result<StreamId, Refusal> {
    const TOO_SMALL: &str =
        "ERR The ID specified in XADD is equal or smaller than the target stream top item";
    let last = stream.last_id();
    let next = last
        .next()
        .ok_or("ERR The stream has exhausted the last possible ID, unable to add more items")?;
    let id = match given {
        Some(Given::Whole(id)) => id,
        Some(Given::Time(ms)) if ms == last.ms => StreamId {
            ms,
            seq: last.seq.checked_add(1).ok_or(TOO_SMALL)?,
        },
        Some(Given::Time(ms)) => StreamId { ms, seq: 0 },
        None if now > last.ms => StreamId { ms: now, seq: 0 },
        None => next,
    };
    if id <= last {
        return Err(TOO_SMALL.into());
    }
    Ok(id)
}

pub(super) fn xtrim(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let options = Options::parse(words, false)?;
    let limits = limits(&call.shared.settings);
    let before = call.shared.watched.changes;
    let gone = edit(call, words[1], Seen::ByWatchers, |changes| {
        let plan = options.trim(changes.stream, limits);
        trim(changes, plan);
        Ok(plan.entries)
    })?;
    call.count_as(before, gone as usize);
    call.reply().integer(gone as i64);
    Ok(())
}

pub(super) fn xdel(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    if !has_stream(call, words[1])? {
        call.reply().count(0);
        return Ok(());
    }
    let ids: Vec<StreamId> = words[2..]
        .iter()
        .map(|word| ids::strict(word, 0))
        .collect::<Result<_, _>>()?;
    let gone = edit(call, words[1], Seen::ByWatchers, |changes| {
        let mut gone = ids;
        gone.retain(|id| changes.stream.get(*id).is_some());
        let mut seen = BTreeSet::new();
        gone.retain(|id| seen.insert(*id));
        let count = gone.len();
        if count > 0 {
            changes.perform(StreamEdit::Delete(gone));
        }
        Ok(count)
    })?;
    call.reply().count(gone);
    Ok(())
}

pub(super) fn xsetid(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let last_id = ids::strict(words[2], 0)?;
    let (mut added, mut deleted) = (None, StreamId::MIN);
    for option in words[3..].chunks(2) {
        match *option {
            [word, value] if is(word, "ENTRIESADDED") => {
                let number = u64::try_from(integer(value)?);
                added = Some(number.map_err(|_| "ERR entries_added must be positive")?);
            }
            [word, value] if is(word, "MAXDELETEDID") => {
                deleted = ids::strict(value, 0)?;
                if last_id < deleted {
                    return Err("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id".into());
                }
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    look(call, words[1], |stream, _| match stream {
        Some(_) => Ok(()),
        None => Err(NO_KEY.into()),
    })?;
    edit(call, words[1], Seen::ByNone, |changes| {
        let stream = &*changes.stream;
        if let Some(last) = stream.last_entry_id() {
            if last_id < last {
                return Err(
                    "ERR The ID specified in XSETID is smaller than the target stream top item"
                        .into(),
                );
            }
            if added.is_some_and(|added| stream.len() > added) {
                return Err("ERR The entries_added specified in XSETID is smaller than the target stream length".into());
            }
        }
        let before = stream.max_deleted_id();
        let max_deleted_id = if deleted == StreamId::MIN {
            before
        } else {
            deleted
        };
        changes.perform(StreamEdit::SetIds {
            last_id,
            max_deleted_id,
            entries_added: added.unwrap_or(stream.entries_added()),
        });
        Ok(())
    })?;
    call.reply().ok();
    Ok(())
}
