//! The node of a command: its keys, their slot, and the rules for commands without keys.

use super::slot::slot_of;
use crate::Error;
use crate::args::Words;
use crate::flags::{Flags, Keys, Meta};

/// The place where a command is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// By the node of this slot.
    Slot(u16),
    /// By any node, since it has no keys.
    Anywhere,
    /// By all masters, and their replies are joined.
    Everywhere(Join),
    /// In parts, one for each slot: every key with this number of arguments after it.
    Split(Join, usize),
}

/// The way in which several replies become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// Values go back to the places of their keys.
    Places,
    /// Numbers are added.
    Sum,
    /// All are the same.
    Same,
    /// Lists are concatenated.
    Concat,
    /// Lists of yes or no: yes if all are yes.
    Everyone,
    /// The first that is not nil.
    First,
}

/// Keys in different slots.
const CROSSSLOT: Error = Error::Usage(
    "CROSSSLOT: the keys of this command or transaction are in different slots, which no single node \
     serves; give them the same hash tag, such as {user:7}:name and {user:7}:visits",
);
const SHARED: Error = Error::Usage(
    "a command that blocks, or that changes the state of its connection, needs a connection of its own: \
     `Cluster::dedicated` opens one to the node of a key",
);
const ONE_NODE: Error = Error::Usage(
    "this command is about one node and not about the cluster; run it on a connection to each of these \
     nodes: `Cluster::masters` and `Cluster::connection`",
);

/// The place where a command is executed.
///
/// # Errors
/// `Usage` for a command that a cluster as a whole cannot execute.
pub(crate) fn route(meta: &Meta, wire: &[u8]) -> Result<Route, Error> {
    if meta.flags.contains(Flags::DEDICATED) || meta.flags.contains(Flags::BLOCKS) {
        return Err(SHARED);
    }
    let mut args = Words::new(wire);
    let name = args.next().unwrap_or_default();
    let mut slots = SlotSpan::default();
    for_each_key(meta.keys, args.clone(), |key| slots.add(key));
    match slots {
        SlotSpan::None => without_keys(&name.to_ascii_uppercase(), args),
        SlotSpan::One(slot) => Ok(Route::Slot(slot)),
        SlotSpan::Several => split(&name.to_ascii_uppercase()).ok_or(CROSSSLOT),
    }
}

/// The arguments of a command that are keys. `words` starts with the name.
pub(crate) fn routing_keys(keys: Keys, words: Words<'_>) -> Vec<&[u8]> {
    let mut found = Vec::new();
    for_each_key(keys, words.skip(1), |key| found.push(key));
    found
}

/// The slot of all keys of a transaction so far, including those of its next command.
///
/// # Errors
/// `Usage` if they are in different slots, or if a transaction on a cluster cannot have the command.
pub(crate) fn one_slot(
    so_far: Option<u16>,
    meta: &Meta,
    wire: &[u8],
) -> Result<Option<u16>, Error> {
    let mut words = Words::new(wire);
    if so_far.is_some() && words.next().is_some_and(|name| is(name, &["INFO"])) {
        // It is sent to the node that serves the other keys.
        return Ok(so_far);
    }
    match route(meta, wire)? {
        Route::Slot(slot) if so_far.is_none_or(|before| before == slot) => Ok(Some(slot)),
        Route::Slot(_) | Route::Split(..) => Err(CROSSSLOT),
        Route::Anywhere => Ok(so_far),
        Route::Everywhere(_) => Err(ONE_NODE),
    }
}

/// The slots of some keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SlotSpan {
    #[default]
    None,
    One(u16),
    Several,
}

impl SlotSpan {
    fn add(&mut self, key: &[u8]) {
        let slot = slot_of(key);
        *self = match *self {
            Self::None => Self::One(slot),
            Self::One(before) if before == slot => Self::One(slot),
            _ => Self::Several,
        };
    }
}

/// Hands each key of a command to `found`. The server refuses impossible counts.
fn for_each_key<'w>(
    keys: Keys,
    mut args: impl ExactSizeIterator<Item = &'w [u8]>,
    mut found: impl FnMut(&'w [u8]),
) {
    let count = args.len();
    match keys {
        Keys::None => {}
        // A first argument that is not a key does no harm: a node that is asked by mistake names the right one.
        Keys::First | Keys::Unknown => args.next().into_iter().for_each(found),
        Keys::At(place) => args.nth(usize::from(place)).into_iter().for_each(found),
        Keys::FirstTwo => args.take(2).for_each(found),
        Keys::All => args.for_each(found),
        Keys::From(place) => args.skip(usize::from(place)).for_each(found),
        Keys::AllButLast => args.take(count.saturating_sub(1)).for_each(found),
        Keys::Alternating => args.step_by(2).for_each(found),
        Keys::Counted(place) => {
            let count = args.nth(usize::from(place)).and_then(number);
            args.take(count.unwrap_or(0)).for_each(found);
        }
        Keys::FirstAndCounted => {
            args.next().into_iter().for_each(&mut found);
            for_each_key(Keys::Counted(0), args, found);
        }
        Keys::Streams => {
            while let Some(word) = args.next() {
                if is(word, &["STREAMS"]) {
                    let left = args.len();
                    if left.is_multiple_of(2) {
                        args.take(left / 2).for_each(found);
                    }
                    return;
                }
                // The names of a group and its consumer can be the word itself.
                if is(word, &["GROUP"]) {
                    args.by_ref().take(2).for_each(drop);
                }
            }
        }
    }
}

/// The place where a command without keys is executed.
fn without_keys(name: &[u8], mut args: Words<'_>) -> Result<Route, Error> {
    let sub = args.next().unwrap_or_default();
    Ok(match name {
        b"DBSIZE" => Route::Everywhere(Join::Sum),
        b"FLUSHALL" | b"FLUSHDB" => Route::Everywhere(Join::Same),
        b"KEYS" => Route::Everywhere(Join::Concat),
        b"RANDOMKEY" => Route::Everywhere(Join::First),
        b"SCRIPT" if is(sub, &["EXISTS"]) => Route::Everywhere(Join::Everyone),
        b"SCRIPT" if is(sub, &["LOAD", "FLUSH"]) => Route::Everywhere(Join::Same),
        b"FUNCTION" if is(sub, &["LOAD", "DELETE", "FLUSH", "RESTORE"]) => {
            Route::Everywhere(Join::Same)
        }
        b"ACL" | b"BGREWRITEAOF" | b"BGSAVE" | b"CONFIG" | b"DEBUG" | b"FAILOVER" | b"FUNCTION"
        | b"INFO" | b"LASTSAVE" | b"LATENCY" | b"MEMORY" | b"MODULE" | b"REPLICAOF" | b"ROLE"
        | b"SAVE" | b"SCAN" | b"SCRIPT" | b"SHUTDOWN" | b"SLAVEOF" | b"SLOWLOG" | b"SWAPDB" => {
            return Err(ONE_NODE);
        }
        _ => Route::Anywhere,
    })
}

/// The route of a command with keys in several slots that can be executed in parts.
fn split(name: &[u8]) -> Option<Route> {
    match name {
        b"MGET" => Some(Route::Split(Join::Places, 0)),
        b"MSET" => Some(Route::Split(Join::Same, 1)),
        b"DEL" | b"EXISTS" | b"TOUCH" | b"UNLINK" => Some(Route::Split(Join::Sum, 0)),
        _ => None,
    }
}

fn is(word: &[u8], words: &[&str]) -> bool {
    words
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{self, Script};
    use crate::facts;
    use crate::request::{Part, Requests};
    use crate::{Request, cmd};

    fn routed(request: &impl Request) -> Result<Route, String> {
        let (mut wire, mut parts) = (Vec::new(), Vec::new());
        request.encode(&mut Requests::noting(&mut wire, false, &mut parts));
        let [Part { meta, end }] = parts[..] else {
            panic!("one command");
        };
        assert_eq!(end, wire.len());
        route(&meta, &wire).map_err(|error| error.to_string())
    }

    /// A command of this text, routed by the facts about its name.
    fn text(line: &str) -> Result<Route, String> {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        routed(&cmd::<()>(name).arg(words.collect::<Vec<_>>()))
    }

    #[test]
    fn keys_of_every_group_of_commands_are_found() {
        let slot = Ok(Route::Slot(slot_of(b"k")));
        for line in [
            "GET k",
            "get k",
            "SET k v EX 5",
            "HSET k f v",
            "LPUSH k a b",
            "SADD k a",
            "ZADD k 1 a",
            "XADD k * f v",
            "XGROUP CREATE k g $",
            "XINFO STREAM k",
            "OBJECT ENCODING k",
            "MEMORY USAGE k",
            "EVAL code 1 k arg",
            "EVALSHA sha 2 k k arg",
            "FCALL f 1 k arg",
            "ZUNION 1 k",
            "ZUNIONSTORE k 1 k",
            "SINTERCARD 1 k LIMIT 3",
            "LMPOP 1 k LEFT",
            "BITOP NOT k k",
            "RENAME k k",
            "MSET k 1 k 2",
            "SPUBLISH k message",
            "NEW.COMMAND k other",
        ] {
            assert_eq!(text(line), slot, "{line}");
        }
        for line in [
            "XREAD STREAMS k 0",
            "XREAD COUNT 5 STREAMS k 0",
            "XREADGROUP GROUP g c STREAMS k >",
            "XREADGROUP GROUP BLOCK c NOACK COUNT 1 STREAMS k >",
        ] {
            assert_eq!(text(line), slot, "{line}");
        }
        for line in [
            "XREAD BLOCK 0 STREAMS k 0",
            "XREAD COUNT 5 block 10 STREAMS k 0",
            "XREADGROUP GROUP g c NOACK BLOCK 0 STREAMS k >",
            "XREADGROUP GROUP g",
        ] {
            assert!(text(line).unwrap_err().contains("that blocks"), "{line}");
        }
        let script = Script::new("return 1");
        assert_eq!(routed(&script.call::<()>("k", "other")), slot);
        assert_eq!(routed(&commands::xread::<()>("k", "0").count(1)), slot);
        let group =
            commands::xread_group::<()>("STREAMS", "streams", ["k", "k"], [">", ">"]).count(1);
        assert_eq!(routed(&group), slot);
        let both = routed(&commands::xread::<()>(["k", "other"], ["0", "0"]).count(1));
        assert!(both.unwrap_err().starts_with("CROSSSLOT"));
    }

    #[test]
    fn keys_in_several_slots_are_split_where_that_is_the_same_and_else_refused() {
        assert_eq!(text("MGET a b"), Ok(Route::Split(Join::Places, 0)));
        assert_eq!(text("mset a 1 b 2"), Ok(Route::Split(Join::Same, 1)));
        for name in ["DEL", "UNLINK", "EXISTS", "TOUCH"] {
            let line = format!("{name} a b");
            assert_eq!(text(&line), Ok(Route::Split(Join::Sum, 0)));
        }
        for line in [
            "RENAME a b",
            "MSETNX a 1 b 2",
            "SINTERSTORE a b c",
            "ZUNIONSTORE a 1 b",
            "EVAL code 2 a b",
            "PFCOUNT a b",
        ] {
            let error = text(line).unwrap_err();
            assert!(error.starts_with("CROSSSLOT"), "{line}: {error}");
        }
        let slot = Ok(Route::Slot(slot_of(b"t")));
        assert_eq!(text("RENAME {t}a {t}b"), slot);
        assert_eq!(text("MGET {t}a {t}b"), slot);
    }

    #[test]
    fn keyless_commands_go_to_any_node_or_all_or_are_refused() {
        for line in [
            "PING",
            "ECHO x",
            "PUBLISH c m",
            "TIME",
            "EVAL code 0 a",
            "CLUSTER INFO",
        ] {
            assert_eq!(text(line), Ok(Route::Anywhere), "{line}");
        }
        assert_eq!(text("DBSIZE"), Ok(Route::Everywhere(Join::Sum)));
        assert_eq!(text("KEYS *"), Ok(Route::Everywhere(Join::Concat)));
        assert_eq!(text("FLUSHALL"), Ok(Route::Everywhere(Join::Same)));
        assert_eq!(
            text("SCRIPT EXISTS a"),
            Ok(Route::Everywhere(Join::Everyone))
        );
        assert_eq!(text("SCRIPT LOAD c"), Ok(Route::Everywhere(Join::Same)));
        for line in ["SCAN 0", "CONFIG GET save", "INFO", "SCRIPT KILL"] {
            let error = text(line).unwrap_err();
            assert!(error.contains("one node"), "{line}: {error}");
        }
        for line in [
            "WATCH k",
            "BLPOP k 0",
            "SUBSCRIBE c",
            "CLIENT NO-EVICT ON",
            "MULTI",
        ] {
            let error = text(line).unwrap_err();
            assert!(error.contains("connection of its own"), "{line}: {error}");
        }
    }

    #[test]
    fn transaction_may_ask_the_node_of_its_keys_who_it_is() {
        let meta = facts::lookup("INFO");
        let wire = b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n";
        assert_eq!(one_slot(Some(7), &meta, wire).unwrap(), Some(7));
        let alone = one_slot(None, &meta, wire).unwrap_err().to_string();
        assert!(alone.contains("one node"), "{alone}");
        let config = b"*2\r\n$6\r\nCONFIG\r\n$9\r\nRESETSTAT\r\n";
        let meta = facts::lookup("CONFIG");
        assert!(one_slot(Some(7), &meta, config).is_err());
    }

    #[test]
    fn counts_that_cannot_be_are_left_to_the_server() {
        for line in [
            "EVAL code 99999999999999999999 k",
            "EVAL code -1 k",
            "EVAL code",
            "ZUNION",
            "OBJECT HELP",
        ] {
            assert_eq!(text(line), Ok(Route::Anywhere), "{line}");
        }
        assert_eq!(text("EVAL code 9 k"), Ok(Route::Slot(slot_of(b"k"))));
    }
}
