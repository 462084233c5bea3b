//! Moving a slot of a cluster from one master to another, while clients use it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use loadline_client::OwnedReply;

use super::ruled::Ruled;
use super::servers::Child;
use crate::exit::{Exit, Failure};

/// Moves of a slot. The master answers no other client during one of them.
const MOVES: u32 = 32;
/// Time limit for each move, in milliseconds.
const MOVE_TIMEOUT_MS: &str = "5000";

/// Moves `slot` from the first of `masters` to the second one in about `time`, and notifies all of them. From the beginning, the first one
/// redirects clients with ASK for keys that it does not have, and at the end with MOVED.
///
/// # Errors
/// If a master refuses, or if `interrupt` was set meanwhile.
pub(super) fn move_slot(
    slot: u16,
    masters: &[Child],
    time: Duration,
    interrupt: &AtomicBool,
) -> Result<(), Failure> {
    let all = masters.iter().map(|master| Ruled::open(&master.server()));
    let mut all = all.collect::<Result<Vec<_>, Failure>>()?;
    let [from, to, ..] = &mut all[..] else {
        unreachable!("a cluster has three masters");
    };
    let slot = slot.to_string();
    let (from_id, to_id) = (id(from)?, id(to)?);
    to.tell(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id])?;
    from.tell(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id])?;
    let address = masters[1].address();
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let keys = match from.ask(&["CLUSTER", "COUNTKEYSINSLOT", &slot])? {
        OwnedReply::Integer(keys) => keys,
        _ => 0,
    };
    let together = (keys / i64::from(MOVES) + 1).to_string();
    loop {
        thread::sleep(time / MOVES);
        let keys = from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, &together])?;
        let keys = texts(&keys);
        if keys.is_empty() {
            break;
        }
        let migrate = ["MIGRATE", &host, &port, "", "0", MOVE_TIMEOUT_MS, "KEYS"];
        let words = migrate.into_iter().chain(keys.iter().map(String::as_str));
        from.tell(&words.collect::<Vec<_>>())?;
        if interrupt.load(Ordering::Relaxed) {
            let why = "Interrupted while slots were moved.";
            return Err(Failure::new(Exit::Interrupted, why));
        }
    }
    // The new master first: until the old one knows, it redirects to it anyway.
    all.swap(0, 1);
    for master in &mut all {
        master.tell(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id])?;
    }
    Ok(())
}

fn id(master: &mut Ruled) -> Result<String, Failure> {
    let id = master.ask(&["CLUSTER", "MYID"])?;
    let id = id.as_bytes().unwrap_or_default();
    Ok(String::from_utf8_lossy(id).into_owned())
}

fn texts(reply: &OwnedReply) -> Vec<String> {
    let OwnedReply::Array(items) = reply else {
        return Vec::new();
    };
    let bytes = items.iter().filter_map(OwnedReply::as_bytes);
    bytes
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .collect()
}
