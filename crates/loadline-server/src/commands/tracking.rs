//! CLIENT TRACKING and CLIENT CACHING, and the messages about changed keys.

use std::sync::atomic::Ordering;

use loadline_resp::{Protocol, encode};

use loadline_store::Expired;

use super::describe::keys_of;
use super::numbers::integer;
use super::refusal::{Refusal, SYNTAX, shown};
use super::table::{Access, Known};
use super::{Call, Words, is};
use crate::buffer::Output;
use crate::notify::Class;
use crate::peer::Peer;
use crate::session::Session;
use crate::state::Shared;
use crate::tracking::{Notice, Options};

/// The keys of scripts are remembered when they are read.
const NOT_REMEMBERED: [&str; 3] = ["EVAL_RO", "EVALSHA_RO", "FCALL_RO"];

/// Executes CLIENT TRACKING; `words` begin behind these two words.
pub(super) fn tracking(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let (options, prefixes) = options(call, &words[1..])?;
    if is(words[0], "ON") {
        check(call, options, &prefixes)?;
        let id = call.session.id;
        call.shared.watched.tracking.start(id, options, &prefixes);
        note_tracking(call);
    } else if is(words[0], "OFF") {
        stop(call);
    } else {
        return Err(SYNTAX.into());
    }
    call.reply().ok();
    Ok(())
}

fn options<'w>(call: &Call<'_>, words: Words<'w>) -> Result<(Options, Vec<&'w [u8]>), Refusal> {
    let (mut options, mut prefixes) = (Options::default(), Vec::new());
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if is(word, "REDIRECT") && rest.len() > 0 {
            if options.redirect != 0 {
                return Err("ERR A client can only redirect to a single other client".into());
            }
            let id = integer(rest.next().ok_or(SYNTAX)?)?;
            let id = u64::try_from(id).unwrap_or(0);
            if !call.shared.peers.contains_key(&id) {
                return Err("ERR The client ID you want redirect to does not exist".into());
            }
            options.redirect = id;
        } else if is(word, "PREFIX") && rest.len() > 0 {
            prefixes.extend(rest.next());
        } else {
            let flag = match () {
                () if is(word, "BCAST") => &mut options.broadcasts,
                () if is(word, "OPTIN") => &mut options.opts_in,
                () if is(word, "OPTOUT") => &mut options.opts_out,
                () if is(word, "NOLOOP") => &mut options.no_loop,
                () => return Err(SYNTAX.into()),
            };
            *flag = true;
        }
    }
    Ok((options, prefixes))
}

/// Checks that options fit together, and to those of before.
fn check(call: &Call<'_>, options: Options, prefixes: &[&[u8]]) -> Result<(), Refusal> {
    if !options.broadcasts && !prefixes.is_empty() {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    let client = call.shared.watched.tracking.client(call.session.id);
    let before = client.map(|client| client.options);
    if before.is_some_and(|before| before.broadcasts != options.broadcasts) {
        return Err("ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.".into());
    }
    if options.broadcasts && (options.opts_in || options.opts_out) {
        return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
    }
    if options.opts_in && options.opts_out {
        return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
    }
    let is_switched =
        |before: Options| options.opts_in && before.opts_out || options.opts_out && before.opts_in;
    if before.is_some_and(is_switched) {
        return Err("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.".into());
    }
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let refusal = |one: &[u8], other: &[u8], kind: &str| {
        let [one, other] = [one, other].map(|prefix| shown(prefix, prefix.len()));
        Refusal::from([
            b"ERR Prefix '",
            one,
            b"' overlaps with ",
            kind.as_bytes(),
            b" prefix '",
            other,
            b"'. Prefixes for a single client must not overlap.",
        ])
    };
    for (at, prefix) in prefixes.iter().enumerate() {
        let existing = client.into_iter().flat_map(|client| &client.prefixes);
        if let Some(other) = existing.into_iter().find(|other| overlap(prefix, other)) {
            return Err(refusal(prefix, other, "an existing"));
        }
        let mut others = prefixes[at + 1..].iter();
        if let Some(other) = others.find(|other| overlap(prefix, other)) {
            return Err(refusal(prefix, other, "another provided"));
        }
    }
    Ok(())
}

/// Ends the tracking of the client.
pub(super) fn stop(call: &mut Call<'_>) {
    call.shared.watched.tracking.stop(call.session.id);
    note_tracking(call);
}

/// Notes whether the client tracks keys, and whether changes and expiries have to be noted.
fn note_tracking(call: &mut Call<'_>) {
    let client = call.shared.watched.tracking.client(call.session.id);
    call.session.is_tracking = client.is_some();
    let prefixes = client.map_or(0, |client| client.prefixes.iter().map(Vec::len).sum());
    call.session.prefix_bytes = prefixes;
    call.shared.note_tracking();
}

pub(super) fn caching(call: &mut Call<'_>, answer: &[u8]) -> Result<(), Refusal> {
    let client = call.shared.watched.tracking.client_mut(call.session.id);
    let client = client.ok_or("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")?;
    if is(answer, "YES") && !client.options.opts_in {
        return Err(
            "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.".into(),
        );
    }
    if is(answer, "NO") && !client.options.opts_out {
        return Err(
            "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.".into(),
        );
    }
    if !is(answer, "YES") && !is(answer, "NO") {
        return Err(SYNTAX.into());
    }
    client.caching = true;
    call.reply().ok();
    Ok(())
}

/// The client that gets the notices as CLIENT GETREDIR shows it: 0 for the client itself, -1 without tracking.
pub(super) fn redirect(shared: &Shared, id: u64) -> i64 {
    let client = shared.watched.tracking.client(id);
    client.map_or(-1, |client| client.options.redirect as i64)
}

pub(super) fn info(call: &mut Call<'_>) {
    let id = call.session.id;
    let redirect = redirect(call.shared, id);
    let (mut flags, mut prefixes) = (vec!["off"], Vec::new());
    if let Some(client) = call.shared.watched.tracking.client(id) {
        let options = client.options;
        let all = [
            (true, "on"),
            (options.broadcasts, "bcast"),
            (options.opts_in, "optin"),
            (options.opts_in && client.caching, "caching-yes"),
            (options.opts_out, "optout"),
            (options.opts_out && client.caching, "caching-no"),
            (options.no_loop, "noloop"),
            (client.is_broken, "broken_redirect"),
        ];
        let set = all.iter().filter(|(is_set, _)| *is_set);
        flags = set.map(|(_, name)| *name).collect();
        prefixes = client.prefixes.iter().cloned().collect();
    }
    let mut reply = call.reply();
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
}

impl Call<'_> {
    /// Remembers the keys that a command has read, for a client that tracks keys.
    #[cold]
    pub(super) fn remember(&mut self, known: &Known, words: Words<'_>) {
        let id = self.session.id;
        let tracking = &mut self.shared.watched.tracking;
        let is_reading = known.access == Access::Read && !NOT_REMEMBERED.contains(&known.name);
        if !is_reading || !tracking.remembers(id) {
            return;
        }
        if let Some(keys) = tracking.script_keys.take() {
            keys.iter().for_each(|key| tracking.remember(id, key));
            tracking.script_keys = Some(keys);
        } else if let Ok(keys) = keys_of(words) {
            keys.iter().for_each(|key| tracking.remember(id, key));
        }
    }
}

/// The client of a command that is executed, and its output.
pub(super) type Own<'o> = Option<(u64, &'o mut Output)>;

impl Shared {
    /// Notes whether changes and expiries have to be noted, for clients that track keys or for keyspace notifications.
    pub(crate) fn note_tracking(&mut self) {
        let classes = self.settings.notified;
        let notifies = self.notifies()
            && (classes.has(Class::EXPIRED)
                || classes.has(Class::HASH)
                || classes.has(Class::GENERIC));
        let is_used = self.watched.tracking.is_used() || notifies;
        self.watched.note_idle();
        for database in &mut self.databases {
            database.collect_expired(is_used);
        }
    }

    /// Notes the keys of a database that have expired.
    pub(crate) fn note_expired_in(&mut self, database: usize) {
        let tracking = &mut self.watched.tracking;
        let current = tracking.current.take();
        let all = self.databases[database].take_expired();
        for Expired::Key(key) | Expired::Fields { key, .. } in &all {
            tracking.note(key);
        }
        tracking.current = current;
        for expired in all {
            match expired {
                Expired::Key(key) => self.notify(Class::EXPIRED, "expired", database, &key),
                Expired::Fields { key, is_empty } => {
                    self.notify(Class::HASH, "hexpired", database, &key);
                    if is_empty {
                        self.notify(Class::GENERIC, "del", database, &key);
                    }
                }
            }
        }
    }

    /// Begins a command while clients track keys: notices of what happened before go in front of its reply.
    #[cold]
    pub(crate) fn begin_tracked(&mut self, id: u64, out: &mut Output) {
        self.watched.tracking.current = None;
        if self.settings.maxmemory > 0 {
            self.make_room();
        }
        let most = self.settings.tracking_table_max_keys;
        self.watched.tracking.limit(most);
        self.send_notices(Some((id, out)));
        self.watched.tracking.current = Some(id);
    }

    /// Ends a command: notices of its changes go behind its reply.
    #[cold]
    pub(crate) fn end_tracked(&mut self, session: &Session, out: &mut Output) {
        self.note_expired_in(session.database);
        self.send_notices(Some((session.id, out)));
        self.watched.tracking.current = None;
    }

    /// Notes what has expired, keeps the table within its limit, and sends the notices.
    pub(crate) fn follow_tracking(&mut self) {
        if self.watched.tracking.is_used() {
            for database in 0..self.databases.len() {
                self.note_expired_in(database);
            }
            let most = self.settings.tracking_table_max_keys;
            self.watched.tracking.limit(most);
            self.send_notices(None);
        }
    }

    /// Sends the notices of a command, or of what the server has done by itself.
    #[cold]
    pub(crate) fn send_notices(&mut self, mut own: Own<'_>) {
        for notice in self.watched.tracking.take_pending() {
            match notice {
                Notice::Key(id, key) => {
                    let keys = encoded_keys(&[key]);
                    self.send_invalid(id, &keys, &mut own);
                }
                Notice::All(id) => {
                    let mut null = Vec::new();
                    let protocol = self.peers.get(&id).map(|peer| protocol_of(peer));
                    encode::null(&mut null, protocol.unwrap_or(Protocol::Resp2));
                    self.send_invalid(id, &null, &mut own);
                }
            }
        }
    }

    /// Sends the notices of this turn about keys with prefixes.
    pub(crate) fn send_broadcasts(&mut self) {
        for (id, keys) in self.watched.tracking.take_broadcasts() {
            self.send_invalid(id, &encoded_keys(&keys), &mut None);
        }
    }

    /// Sends a notice to a client, or to the one that gets its notices.
    fn send_invalid(&mut self, id: u64, value: &[u8], own: &mut Own<'_>) {
        let tracking = &mut self.watched.tracking;
        let (Some(client), Some(peer)) = (tracking.client_mut(id), self.peers.get(&id)) else {
            return;
        };
        let redirect = client.options.redirect;
        let mut message = Vec::new();
        let (to, receiver) = match redirect {
            0 => (id, peer),
            other => match self.peers.get(&other) {
                Some(receiver) => (other, receiver),
                None => {
                    client.is_broken = true;
                    if protocol_of(peer) == Protocol::Resp3 {
                        encode::push_header(&mut message, 2, Protocol::Resp3);
                        encode::bulk(&mut message, b"tracking-redir-broken");
                        encode::integer(&mut message, redirect as i64);
                        self.send_message(id, &message, own);
                    }
                    return;
                }
            },
        };
        if protocol_of(receiver) == Protocol::Resp3 {
            encode::push_header(&mut message, 2, Protocol::Resp3);
            encode::bulk(&mut message, b"invalidate");
        } else if redirect != 0 && receiver.is_subscriber() {
            encode::push_header(&mut message, 3, Protocol::Resp2);
            encode::bulk(&mut message, b"message");
            encode::bulk(&mut message, b"__redis__:invalidate");
        } else {
            return;
        }
        message.extend_from_slice(value);
        self.send_message(to, &message, own);
    }

    fn send_message(&mut self, to: u64, message: &[u8], own: &mut Own<'_>) {
        use loadline_resp::encode::Sink as _;
        match own {
            Some((id, out)) if *id == to => out.put(message),
            _ => self.watched.tracking.outbox(to).extend_from_slice(message),
        }
    }
}

fn encoded_keys(keys: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode::array_header(&mut bytes, keys.len() as u64);
    keys.iter().for_each(|key| encode::bulk(&mut bytes, key));
    bytes
}

fn protocol_of(peer: &Peer) -> Protocol {
    match peer.resp.load(Ordering::Relaxed) {
        3 => Protocol::Resp3,
        _ => Protocol::Resp2,
    }
}
