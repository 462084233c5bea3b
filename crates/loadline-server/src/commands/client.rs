//! CLIENT: information about connections, and commands between connections.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::connection::check_name;
use super::numbers::integer;
use super::pause::pause;
use super::refusal::{Refusal, SYNTAX, no_such_form, shown};
use super::{Call, Keys, Listed, Words, is, listed, places, sub, tracking};
use crate::peer::Peer;
use crate::pubsub::Kind;
use crate::session::Replies;
use crate::waiting::Release;

pub(super) const TABLE: &[Listed] = &[listed("CLIENT", -2, Keys::None, client).with(&[
    sub(
        "CACHING",
        3,
        "(YES|NO)\nEnable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
    ),
    sub("GETNAME", 2, "\nReturn the name of the current connection."),
    sub(
        "GETREDIR",
        2,
        "\nReturn the client ID we are redirecting to when tracking is enabled.",
    ),
    sub("ID", 2, "\nReturn the ID of the current connection."),
    sub("INFO", 2, "\nReturn information about the current connection."),
    sub(
        "KILL",
        -3,
        "<ip:port>|<option> <value> ...\nClose connections: by address, or those that match all of ID <id>, \
         ADDR <ip:port>, LADDR <ip:port>,\nUSER <name>, TYPE <type> and SKIPME (yes|no).",
    ),
    sub(
        "LIST",
        -2,
        "[TYPE <type>|ID <id> ...]\nReturn information about connections.",
    ),
    sub(
        "NO-EVICT",
        3,
        "(ON|OFF)\nProtect current client connection from eviction.",
    ),
    sub(
        "NO-TOUCH",
        3,
        "(ON|OFF)\nWill not touch LRU/LFU stats when this mode is on.",
    ),
    sub(
        "PAUSE",
        -3,
        "<timeout> [WRITE|ALL]\nSuspend all, or just write, clients for <timeout> milliseconds.",
    ),
    sub(
        "REPLY",
        3,
        "(ON|OFF|SKIP)\nControl the replies sent to the current connection.",
    ),
    sub(
        "SETINFO",
        4,
        "(LIB-NAME|LIB-VER) <value>\nAccepted for clients that send it. The value is not kept.",
    ),
    sub(
        "SETNAME",
        3,
        "<name>\nAssign the name <name> to the current connection.",
    ),
    sub(
        "TRACKING",
        -3,
        "(ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]\nControl server assisted client side caching.",
    ),
    sub(
        "TRACKINGINFO",
        2,
        "\nReport tracking status for the current connection.",
    ),
    sub(
        "UNBLOCK",
        -3,
        "<clientid> [TIMEOUT|ERROR]\nUnblock the specified blocked client.",
    ),
    sub(
        "UNPAUSE",
        2,
        "\nStop the current client pause, resuming traffic.",
    ),
])];

fn client(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words {
        [_, word] if is(word, "ID") => {
            let id = i64::try_from(call.session.id).unwrap_or(i64::MAX);
            call.reply().integer(id);
        }
        [_, word] if is(word, "GETNAME") => {
            let name = call.session.peer.name();
            let name = (!name.is_empty()).then_some(name);
            call.reply().maybe(name.as_deref());
        }
        [_, word] if is(word, "INFO") => {
            let line = line(call, &call.session.peer);
            call.reply().text(&line);
        }
        [_, word, options @ ..] if is(word, "LIST") => list(call, options)?,
        [_, word, options @ ..] if is(word, "KILL") => kill(call, options)?,
        [_, word, name] if is(word, "SETNAME") => {
            check_name(name)?;
            call.session.peer.rename(name);
            call.reply().ok();
        }
        [_, word, rest @ ..] if is(word, "TRACKING") && !rest.is_empty() => {
            tracking::tracking(call, rest)?;
        }
        [_, word, answer] if is(word, "CACHING") => tracking::caching(call, answer)?,
        [_, word] if is(word, "GETREDIR") => {
            let redirect = tracking::redirect(call.shared, call.session.id);
            call.reply().integer(redirect);
        }
        [_, word] if is(word, "TRACKINGINFO") => tracking::info(call),
        [_, word, wish] if is(word, "REPLY") => reply(call, wish)?,
        [_, word, time, mode @ ..] if is(word, "PAUSE") && mode.len() <= 1 => {
            pause(call, time, mode.first().copied())?;
        }
        [_, word] if is(word, "UNPAUSE") => {
            call.shared.pause = None;
            call.reply().ok();
        }
        [_, word, id, how @ ..] if is(word, "UNBLOCK") && how.len() <= 1 => {
            let is_known = |how: &&[u8]| is(how, "TIMEOUT") || is(how, "ERROR");
            if !how.iter().all(is_known) {
                return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into());
            }
            let how = match how {
                [how] if is(how, "ERROR") => Release::Refused,
                _ => Release::TimedOut,
            };
            let id = u64::try_from(integer(id)?);
            let has_waited = id.is_ok_and(|id| call.shared.watched.release(id, how));
            call.reply().flag(has_waited);
        }
        // A command of Redis 7.2 that current clients send on connecting.
        [_, word, _, _] if is(word, "SETINFO") => call.reply().ok(),
        [_, word, switch] if is(word, "NO-EVICT") => {
            let is_on = on_or_off(switch)?;
            let peer = &call.session.peer;
            peer.is_kept.store(is_on, Ordering::Relaxed);
            call.reply().ok();
        }
        [_, word, switch] if is(word, "NO-TOUCH") => {
            let is_on = on_or_off(switch)?;
            let peer = &call.session.peer;
            peer.leaves_uses.store(is_on, Ordering::Relaxed);
            call.reply().ok();
        }
        _ => return Err(no_such_form(words)),
    }
    Ok(())
}

fn on_or_off(word: &[u8]) -> Result<bool, Refusal> {
    match () {
        () if is(word, "ON") => Ok(true),
        () if is(word, "OFF") => Ok(false),
        () => Err(SYNTAX.into()),
    }
}

/// Sets whether the client receives replies. Unwanted replies are not produced at all.
fn reply(call: &mut Call<'_>, wish: &[u8]) -> Result<(), Refusal> {
    let replies = &mut call.session.replies;
    if is(wish, "ON") {
        *replies = Replies::On;
        call.reply().ok();
    } else if is(wish, "OFF") {
        *replies = Replies::Off;
    } else if !is(wish, "SKIP") {
        return Err(SYNTAX.into());
    } else if *replies != Replies::Off {
        *replies = Replies::SkipNext;
    }
    Ok(())
}

/// A line of CLIENT LIST, with the fields of Redis 7.0. `oll` and `omem` are about messages to a subscriber, which are
/// not in the reply buffer.
pub(super) fn line(call: &Call<'_>, peer: &Peer) -> String {
    let subscriptions = |kind: Kind| peer.subscriptions[kind as usize].load(Ordering::Relaxed);
    let mailbox = call.shared.pubsub.mailbox_of(peer);
    let (messages, message_bytes) =
        mailbox.map_or((0, 0), |mailbox| (mailbox.len(), mailbox.held_bytes()));
    let seconds = |since_ms: u64| call.now().saturating_sub(since_ms) / 1_000;
    let get = |gauge: &AtomicUsize| gauge.load(Ordering::Relaxed);
    let gauges = &peer.gauges;
    // The caller's own queue is recorded only at the end of its turn.
    let own = (peer.id == call.session.id).then_some(call.session.queue.as_ref());
    let (queued, queued_bytes) = match own {
        Some(queue) => queue.map_or((0, 0), |queue| (queue.len() + 1, queue.held_bytes())),
        None => (get(&gauges.queued), get(&gauges.queued_bytes)),
    };
    let tracked = call.shared.watched.tracking.client(peer.id);
    let mut flags = String::new();
    let has_changed = call.shared.watched.changed.contains(&peer.id);
    let is_waiting = gauges.is_waiting.load(Ordering::Relaxed);
    for (flag, holds) in [
        ('O', call.shared.monitors.has(peer.id)),
        ('P', peer.is_subscriber()),
        ('x', queued > 0),
        ('b', is_waiting),
        ('t', tracked.is_some()),
        ('R', tracked.is_some_and(|tracked| tracked.is_broken)),
        (
            'B',
            tracked.is_some_and(|tracked| tracked.options.broadcasts),
        ),
        ('d', has_changed),
        ('U', peer.is_unix),
        ('e', peer.is_kept.load(Ordering::Relaxed)),
        ('T', peer.leaves_uses.load(Ordering::Relaxed)),
    ] {
        flags.extend(holds.then_some(flag));
    }
    if flags.is_empty() {
        flags.push('N');
    }
    let (input, input_room) = (get(&gauges.input), get(&gauges.input_room));
    let (arguments, output_room) = (get(&gauges.arguments), get(&gauges.output_room));
    let total = gauges.total() + queued_bytes - get(&gauges.queued_bytes) + message_bytes;
    let command = get(&peer.command).checked_sub(1);
    let is_writing = gauges.is_writing.load(Ordering::Relaxed);
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub={} psub={} ssub={} \
         multi={} qbuf={input} qbuf-free={input_room} argv-mem={arguments} multi-mem={queued_bytes} \
         rbs={output_room} rbp={} obl={} oll={messages} omem={message_bytes} tot-mem={total} events={} cmd={} user={} \
         redir={} resp={}\n",
        peer.id,
        peer.address,
        peer.local_address,
        peer.fd,
        String::from_utf8_lossy(&peer.name()),
        seconds(peer.since_ms),
        seconds(peer.active_ms.load(Ordering::Relaxed)),
        get(&peer.database),
        subscriptions(Kind::Channel),
        subscriptions(Kind::Pattern),
        subscriptions(Kind::Shard),
        queued as i64 - 1,
        get(&gauges.output_peak),
        get(&gauges.output),
        if is_writing { "rw" } else { "r" },
        command.map_or("NULL", |place| places()[place]),
        String::from_utf8_lossy(&peer.user()),
        tracking::redirect(call.shared, peer.id),
        get(&peer.resp),
    )
}

/// A type of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Normal,
    PubSub,
    /// Of replication, which there is none of.
    Replication,
}

impl Type {
    fn parse(word: &[u8]) -> Result<Self, Refusal> {
        match () {
            () if is(word, "normal") => Ok(Self::Normal),
            () if is(word, "pubsub") => Ok(Self::PubSub),
            () if ["master", "replica", "slave"]
                .iter()
                .any(|other| is(word, other)) =>
            {
                Ok(Self::Replication)
            }
            () => {
                let word = shown(word, word.len());
                Err([b"ERR Unknown client type '", word, b"'"].into())
            }
        }
    }

    fn is_of(self, peer: &Peer) -> bool {
        match self {
            Self::Normal => !peer.is_subscriber(),
            Self::PubSub => peer.is_subscriber(),
            Self::Replication => false,
        }
    }
}

fn list(call: &mut Call<'_>, options: &[&[u8]]) -> Result<(), Refusal> {
    let (mut ids, mut kind) = (None, None);
    match options {
        [] => {}
        [word, name] if is(word, "TYPE") => kind = Some(Type::parse(name)?),
        [word, list @ ..] if is(word, "ID") && !list.is_empty() => {
            let id = |id| integer(id).map_err(|_| "ERR Invalid client ID".into());
            let list = list.iter().map(|word| id(word));
            ids = Some(list.collect::<Result<Vec<i64>, Refusal>>()?);
        }
        _ => return Err(SYNTAX.into()),
    }
    let wanted = |peer: &Peer| {
        kind.is_none_or(|kind| kind.is_of(peer))
            && ids
                .as_ref()
                .is_none_or(|ids| ids.iter().any(|id| u64::try_from(*id) == Ok(peer.id)))
    };
    let lines: String = call
        .shared
        .peers
        .values()
        .filter(|peer| wanted(peer))
        .map(|peer| line(call, peer))
        .collect();
    call.reply().text(&lines);
    Ok(())
}

/// The filters of CLIENT KILL.
#[derive(Debug, Default)]
struct Filter {
    id: Option<u64>,
    address: Option<String>,
    local_address: Option<String>,
    kind: Option<Type>,
    user: Option<Vec<u8>>,
    /// Whether the caller's own connection is excluded.
    skip_me: bool,
}

fn kill(call: &mut Call<'_>, options: &[&[u8]]) -> Result<(), Refusal> {
    // The old form takes an address and fails if there is no such client.
    if let [address] = options {
        let address = String::from_utf8_lossy(address).into_owned();
        let filter = Filter {
            address: Some(address),
            ..Filter::default()
        };
        if kill_all(call, &filter) == 0 {
            return Err("ERR No such client".into());
        }
        call.reply().ok();
        return Ok(());
    }
    let filter = filter(call, options)?;
    let killed = kill_all(call, &filter);
    call.reply().count(killed);
    Ok(())
}

fn filter(call: &Call<'_>, options: &[&[u8]]) -> Result<Filter, Refusal> {
    let mut filter = Filter {
        skip_me: true,
        ..Filter::default()
    };
    if !options.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    for option in options.chunks_exact(2) {
        let (name, value) = (option[0], option[1]);
        let text = || String::from_utf8_lossy(value).into_owned();
        if is(name, "ID") {
            let id = integer(value).ok().and_then(|id| u64::try_from(id).ok());
            filter.id = Some(
                id.filter(|id| *id > 0)
                    .ok_or("ERR client-id should be greater than 0")?,
            );
        } else if is(name, "ADDR") {
            filter.address = Some(text());
        } else if is(name, "LADDR") {
            filter.local_address = Some(text());
        } else if is(name, "USER") {
            if call.shared.acl.user(value).is_none() {
                let name = shown(value, value.len());
                return Err([b"ERR No such user '", name, b"'"].into());
            }
            filter.user = Some(value.to_vec());
        } else if is(name, "TYPE") {
            filter.kind = Some(Type::parse(value)?);
        } else if is(name, "SKIPME") && (is(value, "yes") || is(value, "no")) {
            filter.skip_me = is(value, "yes");
        } else {
            return Err(SYNTAX.into());
        }
    }
    Ok(filter)
}

/// Marks the matching connections and returns their number. The event loop closes them after this turn, and
/// the caller's own connection after its replies.
fn kill_all(call: &mut Call<'_>, filter: &Filter) -> usize {
    let matches = |peer: &Peer| {
        filter.id.is_none_or(|id| id == peer.id)
            && filter.user.as_ref().is_none_or(|user| *user == peer.user())
            && filter.address.as_ref().is_none_or(|it| *it == peer.address)
            && filter
                .local_address
                .as_ref()
                .is_none_or(|it| *it == peer.local_address)
            && filter.kind.is_none_or(|kind| kind.is_of(peer))
            && !(filter.skip_me && peer.id == call.session.id)
    };
    let chosen: Vec<u64> = call
        .shared
        .peers
        .values()
        .filter(|peer| matches(peer))
        .map(|peer| peer.id)
        .collect();
    for id in &chosen {
        if *id == call.session.id {
            call.session.closing = true;
        } else {
            call.shared.kill(*id);
        }
    }
    chosen.len()
}
