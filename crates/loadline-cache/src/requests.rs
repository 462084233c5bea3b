//! Requests to servers.

use std::time::Duration;

use loadline_client::cluster::slot_of;
use loadline_client::{ArgWriter, Cmd, FromReply, OwnedReply, ToArgs, cmd};

use crate::Error;
use crate::batch::{Batch, Write};
use crate::place::Wait;

/// Keys that one page of a walk asks for.
pub(crate) const PAGE_KEYS: u64 = 1_000;

/// Writes that one command performs at most. Redis takes about a million arguments.
const MOST_TOGETHER: usize = 100_000;

/// Tries of a request on a cluster whose slots are moving, and the pause between two of them.
pub(crate) const TRIES: u32 = 100;
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn put<T: FromReply>(key: &[u8], value: &[u8], ttl: Option<Duration>) -> Cmd<T> {
    let set = cmd("SET").arg(key).arg(value);
    match ttl {
        Some(ttl) => set.arg("PX").arg(to_ms(ttl)),
        None => set,
    }
}

/// The time of an expiry in milliseconds.
pub(crate) fn to_ms(ttl: Duration) -> u64 {
    // Redis knows no shorter one.
    (ttl.as_millis() as u64).max(1)
}

pub(crate) fn delete(key: &[u8]) -> Cmd<u64> {
    cmd("DEL").arg(key)
}

/// The writes of a batch. Every reply is one that is not looked at.
pub(crate) fn writes(batch: &Batch) -> Vec<Cmd<OwnedReply>> {
    let command = |write: Write<'_>| match write {
        Write::Put { key, value, ttl } => put(key, value, ttl),
        Write::Delete { key } => cmd("DEL").arg(key),
    };
    batch.writes().map(command).collect()
}

/// The one command that performs all writes of a batch, if there is one: a server performs it as a whole, as it does a
/// transaction.
pub(crate) fn as_one(batch: &Batch) -> Option<Cmd<OwnedReply>> {
    let mut writes = batch.writes();
    if let (Some(Write::Put { key, value, ttl }), 1) = (writes.next(), batch.len()) {
        return Some(put(key, value, ttl));
    }
    if batch.is_empty() || batch.len() > MOST_TOGETHER {
        return None;
    }
    let is_put = |write: Write<'_>| matches!(write, Write::Put { ttl: None, .. });
    let is_delete = |write: Write<'_>| matches!(write, Write::Delete { .. });
    if batch.writes().all(is_put) {
        return Some(cmd("MSET").arg(Arguments(batch)));
    }
    let deletes = batch.writes().all(is_delete);
    deletes.then(|| cmd("DEL").arg(Arguments(batch)))
}

/// The keys of a batch, each followed by its value if it has one.
struct Arguments<'b>(&'b Batch);

impl ToArgs for Arguments<'_> {
    fn count(&self) -> usize {
        let puts = self.0.iter().filter(|(_, value)| value.is_some());
        self.0.len() + puts.count()
    }

    fn write_args(&self, out: &mut ArgWriter<'_>) {
        for (key, value) in self.0.iter() {
            out.arg(key);
            if let Some(value) = value {
                out.arg(value);
            }
        }
    }
}

/// Waits for replicas.
pub(crate) fn wait(wait: Wait) -> Cmd<u64> {
    let timeout = wait.timeout.as_millis() as u64;
    let request = cmd("WAIT").arg(wait.replicas).arg(timeout.max(1));
    request.waiting(wait.timeout)
}

/// # Errors
/// [`Error::Unconfirmed`].
pub(crate) fn confirm(wait: Wait, reached: u64) -> Result<(), Error> {
    if reached < wait.replicas {
        return Err(Error::Unconfirmed {
            reached,
            wanted: wait.replicas,
        });
    }
    Ok(())
}

/// A page of a walk over the keys that fit `pattern`: the next cursor, and keys.
pub(crate) fn page(cursor: &[u8], pattern: &[u8]) -> Cmd<(Vec<u8>, Vec<Vec<u8>>)> {
    let scan = cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern);
    let scan = scan.arg("COUNT").arg(PAGE_KEYS);
    scan.arg("TYPE").arg("string")
}

/// Shows `visit` the keys of a page that still have a value.
pub(crate) fn show(
    keys: &[Vec<u8>],
    values: Vec<Option<Vec<u8>>>,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) {
    for (key, value) in keys.iter().zip(values) {
        if let Some(value) = value {
            visit(key, &value);
        }
    }
}

/// The pattern of the keys that begin with `prefix`.
pub(crate) fn pattern(prefix: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(prefix.len() + 1);
    for byte in prefix {
        if b"*?[]\\^-".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    pattern
}

/// # Errors
/// [`Error::Slots`] unless all keys of the batch are in one slot.
pub(crate) fn check_slots(batch: &Batch) -> Result<(), Error> {
    let mut slots = batch.writes().map(|write| slot_of(write.key()));
    let first = slots.next();
    if slots.any(|slot| Some(slot) != first) {
        return Err(Error::Slots);
    }
    Ok(())
}

/// Whether a node has refused a request since it does not serve the key now. Nothing was executed then.
pub(crate) fn is_elsewhere(error: &loadline_client::Error) -> bool {
    const CODES: [&str; 6] = [
        "MOVED",
        "ASK",
        "TRYAGAIN",
        "CLUSTERDOWN",
        "READONLY",
        "LOADING",
    ];
    CODES.iter().any(|code| error.is_server_code(code))
        || (matches!(error, loadline_client::Error::Connection { .. }) && !error.maybe_executed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_taken_by_its_letters() {
        assert_eq!(pattern(b"a*[b]\\?"), b"a\\*\\[b\\]\\\\\\?*");
        assert_eq!(pattern(b""), b"*");
    }

    #[test]
    fn batch_is_one_command_where_redis_has_one() {
        let words = |batch: &Batch| {
            let one = as_one(batch)?;
            let words: Vec<_> = one.words().map(String::from_utf8_lossy).collect();
            Some(words.join(" "))
        };
        let (mut batch, ttl) = (Batch::new(), Duration::from_secs(1));
        assert_eq!(words(&batch), None);
        batch.put_for(b"a", b"1", ttl);
        assert_eq!(words(&batch).unwrap(), "SET a 1 PX 1000");
        batch.put(b"b", b"2");
        assert_eq!(words(&batch), None);
        batch.clear();
        batch.put(b"a", b"1").put(b"b", b"");
        assert_eq!(words(&batch).unwrap(), "MSET a 1 b ");
        batch.delete(b"c");
        assert_eq!(words(&batch), None);
        batch.clear();
        batch.delete(b"b").delete(b"c");
        assert_eq!(words(&batch).unwrap(), "DEL b c");
    }

    #[test]
    fn hash_tag_keeps_a_batch_in_one_slot() {
        let mut batch = Batch::new();
        batch.put(b"{a}:1", b"").delete(b"{a}:2");
        assert!(check_slots(&batch).is_ok());
        batch.put(b"b", b"");
        assert!(matches!(check_slots(&batch), Err(Error::Slots)));
    }
}
