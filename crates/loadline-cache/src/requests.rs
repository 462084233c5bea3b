//! Requests to servers.

use std::time::Duration;

use loadline_client::cluster::slot_of;
use loadline_client::{Cmd, FromReply, cmd};

use crate::Error;
use crate::batch::{Batch, Write};
use crate::place::Wait;

/// Keys that one page of a walk asks for.
pub(crate) const PAGE_KEYS: u64 = 1_000;

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
pub(crate) fn writes(batch: &Batch) -> Vec<Cmd<loadline_client::OwnedReply>> {
    let command = |write: &Write| match write {
        Write::Put { key, value, ttl } => put(key, value, *ttl),
        Write::Delete { key } => cmd("DEL").arg(&key[..]),
    };
    batch.writes.iter().map(command).collect()
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
    let mut slots = batch.writes.iter().map(|write| slot_of(write.key()));
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
    fn a_prefix_is_taken_by_its_letters() {
        assert_eq!(pattern(b"a*[b]\\?"), b"a\\*\\[b\\]\\\\\\?*");
        assert_eq!(pattern(b""), b"*");
    }

    #[test]
    fn a_hash_tag_keeps_a_batch_in_one_slot() {
        let mut batch = Batch::new();
        batch.put(b"{a}:1", b"").delete(b"{a}:2");
        assert!(check_slots(&batch).is_ok());
        batch.put(b"b", b"");
        assert!(matches!(check_slots(&batch), Err(Error::Slots)));
    }
}
