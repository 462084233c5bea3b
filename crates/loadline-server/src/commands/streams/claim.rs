//! Pending entries that another consumer takes over: XCLAIM and XAUTOCLAIM.

use loadline_store::{StreamEdit, StreamId};

use super::ids;
use super::{Changes, Seen, edit, look, no_group, put_entry, put_id};
use crate::commands::numbers::integer;
use crate::commands::refusal::{Refusal, SYNTAX, shown};
use crate::commands::{Call, Words, is};

/// The way in which entries are taken over.
#[derive(Debug)]
struct Claim<'w> {
    group: &'w [u8],
    consumer: &'w [u8],
    least_idle: i64,
    now: u64,
    delivered_ms: u64,
    /// The number of deliveries; one more than before without it.
    deliveries: Option<u64>,
    /// Whether entries become pending that were not.
    force: bool,
    /// Whether only ids are wanted, which are no deliveries.
    only_ids: bool,
}

/// The outcome for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Claimed,
    /// It does not exist any more, and is not pending any more.
    Gone,
    Kept,
}

impl<'w> Claim<'w> {
    /// Takes an entry over and appends it to `out`.
    fn take(
        &self,
        changes: &mut Changes<'_, 'w>,
        id: StreamId,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, Refusal> {
        let pending = changes.group(self.group)?.pending().get(&id);
        let before = pending.map(|pending| (pending.delivered_ms, pending.deliveries));
        if changes.stream.get(id).is_none() {
            if before.is_none() {
                return Ok(Outcome::Kept);
            }
            changes.perform(StreamEdit::Acknowledge {
                group: self.group,
                ids: vec![id],
            });
            return Ok(Outcome::Gone);
        }
        let deliveries = match before {
            None if !self.force => return Ok(Outcome::Kept),
            None => 1,
            Some((delivered_ms, deliveries)) => {
                let idle = self.now as i64 - delivered_ms as i64;
                if self.least_idle > 0 && idle < self.least_idle {
                    return Ok(Outcome::Kept);
                }
                deliveries
            }
        };
        let next = deliveries.saturating_add(u64::from(!self.only_ids));
        changes.see(self.group, self.consumer, self.now);
        changes.perform(StreamEdit::Deliver {
            group: self.group,
            consumer: self.consumer,
            delivered_ms: self.delivered_ms,
            entries: vec![(id, self.deliveries.unwrap_or(next))],
        });
        match changes.stream.get(id) {
            Some(entry) if !self.only_ids => put_entry(out, &entry),
            _ => put_id(out, id),
        }
        Ok(Outcome::Claimed)
    }
}

/// Refuses a group that is not there.
fn check_group(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    look(call, words[1], |stream, _| {
        let group = stream.and_then(|stream| stream.group(words[2]));
        group
            .map(|_| ())
            .ok_or_else(|| no_group(words[1], words[2]))
    })
}

/// Reads the least time of a claim.
fn least_idle(word: &[u8], refusal: &'static str) -> Result<i64, Refusal> {
    Ok(integer(word).map_err(|_| refusal)?.max(0))
}

pub(super) fn xclaim(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    check_group(call, words)?;
    let least_idle = least_idle(words[4], "ERR Invalid min-idle-time argument for XCLAIM")?;
    let ids = words[5..]
        .iter()
        .map_while(|word| ids::strict(word, 0).ok());
    let ids: Vec<StreamId> = ids.collect();
    let now = call.now();
    let mut claim = Claim {
        group: words[2],
        consumer: words[3],
        least_idle,
        now,
        delivered_ms: now,
        deliveries: None,
        force: false,
        only_ids: false,
    };
    let last_id = parse_options(&mut claim, &words[5 + ids.len()..])?;
    let (count, out) = edit(call, words[1], Seen::ByNone, |changes| {
        let group = changes.group(claim.group)?;
        if last_id > group.last_id {
            let entries_read = group.entries_read;
            changes.perform(StreamEdit::SetGroup {
                group: claim.group,
                last_id,
                entries_read,
            });
        }
        let (mut count, mut out) = (0, Vec::new());
        for id in ids {
            count += usize::from(claim.take(changes, id, &mut out)? == Outcome::Claimed);
        }
        Ok((count, out))
    })?;
    let mut reply = call.reply();
    reply.array(count);
    reply.encoded(&out);
    Ok(())
}

/// Reads the options behind the ids, and returns the last id of the group.
fn parse_options(claim: &mut Claim<'_>, words: &[&[u8]]) -> Result<StreamId, Refusal> {
    let mut last_id = StreamId::MIN;
    let mut delivered = None;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let has_value = !rest.as_slice().is_empty();
        let mut number = |refusal: &'static str| {
            let value = rest.next().map(|value| integer(value));
            value.and_then(Result::ok).ok_or(refusal)
        };
        if is(word, "FORCE") {
            claim.force = true;
        } else if is(word, "JUSTID") {
            claim.only_ids = true;
        } else if is(word, "IDLE") && has_value {
            let idle = number("ERR Invalid IDLE option argument for XCLAIM")?;
            delivered = Some((claim.now as i64).wrapping_sub(idle));
        } else if is(word, "TIME") && has_value {
            delivered = Some(number("ERR Invalid TIME option argument for XCLAIM")?);
        } else if is(word, "RETRYCOUNT") && has_value {
            let count = number("ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
            claim.deliveries = u64::try_from(count).ok();
        } else if is(word, "LASTID")
            && let Some(value) = rest.next()
        {
            last_id = ids::strict(value, 0)?;
        } else {
            let word = shown(word, word.len());
            return Err([b"ERR Unrecognized XCLAIM option '", word, b"'"].into());
        }
    }
    // A time that cannot be is now.
    let delivered = delivered.and_then(|time| u64::try_from(time).ok());
    claim.delivered_ms = delivered
        .filter(|time| *time <= claim.now)
        .unwrap_or(claim.now);
    Ok(last_id)
}

/// The entries that are looked at for each one that can be claimed.
const ATTEMPTS: usize = 10;

/// The greatest COUNT of Redis, and that from which on it does not get the memory for it.
const MOST: i64 = i64::MAX / 16;
const TOO_MANY: i64 = 1 << 43;

pub(super) fn xautoclaim(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let least_idle = least_idle(
        words[4],
        "ERR Invalid min-idle-time argument for XAUTOCLAIM",
    )?;
    let start = ids::start(words[5])?;
    let (mut count, mut only_ids) = (100, false);
    let mut rest = words[6..].iter();
    while let Some(word) = rest.next() {
        if is(word, "COUNT")
            && let Some(value) = rest.next()
        {
            let number = integer(value).ok();
            let number = number.filter(|number| (1..=MOST).contains(number));
            count = number.ok_or("ERR COUNT must be > 0")?;
        } else if is(word, "JUSTID") {
            only_ids = true;
        } else {
            return Err(SYNTAX.into());
        }
    }
    check_group(call, words)?;
    if count >= TOO_MANY {
        return Err(
            "ERR Insufficient memory, failed allocating transient memory, COUNT too high.".into(),
        );
    }
    let now = call.now();
    let claim = Claim {
        group: words[2],
        consumer: words[3],
        least_idle,
        now,
        delivered_ms: now,
        deliveries: None,
        force: false,
        only_ids,
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let found = edit(call, words[1], Seen::ByNone, |changes| {
        claim_from(changes, &claim, start, count)
    })?;
    let mut reply = call.reply();
    reply.array(3);
    put_id(reply.out, found.next);
    reply.array(found.claimed);
    reply.encoded(&found.out);
    reply.array(found.gone.len());
    found.gone.iter().for_each(|id| put_id(reply.out, *id));
    Ok(())
}

/// The result of XAUTOCLAIM.
#[derive(Debug, Default)]
struct Claimed {
    /// The entry to go on with; 0-0 at the end.
    next: StreamId,
    claimed: usize,
    out: Vec<u8>,
    gone: Vec<StreamId>,
}

fn claim_from<'w>(
    changes: &mut Changes<'_, 'w>,
    claim: &Claim<'w>,
    start: StreamId,
    count: usize,
) -> Result<Claimed, Refusal> {
    let attempts = count.saturating_mul(ATTEMPTS);
    let pending = changes.group(claim.group)?.pending().range(start..);
    let pending = pending.map(|(id, _)| *id).take(attempts.saturating_add(1));
    let ids: Vec<StreamId> = pending.collect();
    let mut found = Claimed::default();
    for (number, id) in ids.into_iter().enumerate() {
        if number == attempts || found.claimed + found.gone.len() == count {
            found.next = id;
            break;
        }
        match claim.take(changes, id, &mut found.out)? {
            Outcome::Claimed => found.claimed += 1,
            Outcome::Gone => found.gone.push(id),
            Outcome::Kept => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_cannot_be_are_now() {
        for (words, delivered_ms) in [
            (&["IDLE", "10"][..], 990),
            (&["TIME", "5"], 5),
            (&["TIME", "1001"], 1_000),
            (&["IDLE", "-5"], 1_000),
            (&["IDLE", "2000"], 1_000),
        ] {
            let mut claim = Claim {
                group: b"g",
                consumer: b"c",
                least_idle: 0,
                now: 1_000,
                delivered_ms: 0,
                deliveries: None,
                force: false,
                only_ids: false,
            };
            let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            parse_options(&mut claim, &bytes).unwrap();
            assert_eq!(claim.delivered_ms, delivered_ms, "{words:?}");
        }
    }
}
