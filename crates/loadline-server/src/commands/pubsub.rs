//! Messages to the subscribers of channels and patterns.

use std::sync::atomic::Ordering;

use loadline_resp::{Protocol, encode};

use super::glob::glob;
use super::refusal::{Refusal, no_such_form};
use super::{Call, Keys, Listed, Words, is, listed, sub};
use crate::pubsub::Kind;
use crate::session::Session;

pub(super) const TABLE: &[Listed] = &[
    listed("SUBSCRIBE", -2, Keys::None, |call, words| {
        subscribe(call, words, Kind::Channel);
        Ok(())
    }),
    listed("UNSUBSCRIBE", -1, Keys::None, |call, words| {
        unsubscribe(call, words, Kind::Channel);
        Ok(())
    }),
    listed("PSUBSCRIBE", -2, Keys::None, |call, words| {
        subscribe(call, words, Kind::Pattern);
        Ok(())
    }),
    listed("PUNSUBSCRIBE", -1, Keys::None, |call, words| {
        unsubscribe(call, words, Kind::Pattern);
        Ok(())
    }),
    listed("SSUBSCRIBE", -2, Keys::None, |call, words| {
        if call.session.may_not_block {
            return Err("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client".into());
        }
        subscribe(call, words, Kind::Shard);
        Ok(())
    }),
    listed("SUNSUBSCRIBE", -1, Keys::None, |call, words| {
        unsubscribe(call, words, Kind::Shard);
        Ok(())
    }),
    listed("PUBLISH", 3, Keys::None, |call, words| {
        publish(call, words, Kind::Channel);
        Ok(())
    }),
    listed("SPUBLISH", 3, Keys::None, |call, words| {
        publish(call, words, Kind::Shard);
        Ok(())
    }),
    listed("PUBSUB", -2, Keys::None, pubsub).with(&[
        sub(
            "CHANNELS",
            -2,
            "[<pattern>]\nReturn the currently active channels matching a <pattern> (default: '*').",
        ),
        sub("NUMPAT", 2, "\nReturn number of subscriptions to patterns."),
        sub(
            "NUMSUB",
            -2,
            "[<channel> ...]\nReturn the number of subscribers for the specified channels, excluding\npattern subscriptions(default: no channels).",
        ),
        sub(
            "SHARDCHANNELS",
            -2,
            "[<pattern>]\nReturn the currently active shard level channels matching a <pattern> (default: '*').",
        ),
        sub(
            "SHARDNUMSUB",
            -2,
            "[<shardchannel> ...]\nReturn the number of subscribers for the specified shard level channel(s)",
        ),
    ]),
];

/// The commands that a subscriber can send in RESP2, where it could not tell other replies from messages.
pub(super) fn is_for_subscribers(name: &str) -> bool {
    [
        "PING",
        "SUBSCRIBE",
        "SSUBSCRIBE",
        "UNSUBSCRIBE",
        "SUNSUBSCRIBE",
        "PSUBSCRIBE",
        "PUNSUBSCRIBE",
        "QUIT",
        "RESET",
    ]
    .contains(&name)
}

/// The error for other commands.
pub(super) fn refusal_of(name: &str) -> Refusal {
    format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
    )
    .into()
}

/// The first word of the replies to a subscription and to its end.
fn words_of(kind: Kind) -> [&'static [u8]; 2] {
    match kind {
        Kind::Channel => [b"subscribe", b"unsubscribe"],
        Kind::Pattern => [b"psubscribe", b"punsubscribe"],
        Kind::Shard => [b"ssubscribe", b"sunsubscribe"],
    }
}

fn subscribe(call: &mut Call<'_>, words: Words<'_>, kind: Kind) {
    let session = &mut *call.session;
    let client = (session.id, session.protocol);
    for name in &words[1..] {
        let own = &mut call.session.subscriptions;
        call.shared.pubsub.subscribe(kind, name, own, client);
        notify(call, words_of(kind)[0], Some(name), kind);
    }
    note(call.session);
}

fn unsubscribe(call: &mut Call<'_>, words: Words<'_>, kind: Kind) {
    let end = |call: &mut Call<'_>, name: &[u8]| {
        let own = &mut call.session.subscriptions;
        call.shared.pubsub.unsubscribe(kind, name, own);
        notify(call, words_of(kind)[1], Some(name), kind);
    };
    if words.len() > 1 {
        words[1..].iter().for_each(|name| end(call, name));
    } else {
        let names = call.session.subscriptions.names(kind);
        if names.is_empty() {
            notify(call, words_of(kind)[1], None, kind);
        }
        names.iter().for_each(|name| end(call, name));
    }
    note(call.session);
}

/// Replies that a subscription has begun or ended, also where other replies are not wanted.
fn notify(call: &mut Call<'_>, word: &[u8], name: Option<&[u8]>, kind: Kind) {
    let protocol = call.protocol();
    let count = call.session.subscriptions.shown(kind);
    let mut bytes = Vec::new();
    encode::push_header(&mut bytes, 3, protocol);
    encode::bulk(&mut bytes, word);
    match name {
        Some(name) => encode::bulk(&mut bytes, name),
        None => encode::null(&mut bytes, protocol),
    }
    encode::integer(&mut bytes, count as i64);
    push(call, &bytes);
}

/// Appends something that is no reply to the command.
fn push(call: &mut Call<'_>, bytes: &[u8]) {
    if call.session.replies.are_dropped() {
        call.session.pushed.extend_from_slice(bytes);
    } else {
        call.reply().encoded(bytes);
    }
}

/// Notes the number of subscriptions for CLIENT LIST, and whether other commands are refused.
pub(super) fn note(session: &mut Session) {
    let own = &session.subscriptions;
    for kind in Kind::ALL {
        let gauge = &session.peer.subscriptions[kind as usize];
        gauge.store(own.len(kind), Ordering::Relaxed);
    }
    let mailbox = own.slot().map_or(0, |slot| slot + 1);
    session.peer.mailbox.store(mailbox, Ordering::Relaxed);
    session.note_mode();
}

/// Ends all subscriptions without a reply.
pub(super) fn forget(call: &mut Call<'_>) {
    call.shared.pubsub.forget(&mut call.session.subscriptions);
    note(call.session);
}

fn publish(call: &mut Call<'_>, words: Words<'_>, kind: Kind) {
    let own = call.session.subscriptions.slot();
    let limit = call.shared.settings.output_limits.pubsub;
    let mut to_itself = Vec::new();
    let receivers = call
        .shared
        .pubsub
        .publish(kind, (words[1], words[2]), own, limit, |message| {
            to_itself.extend_from_slice(message);
        });
    if !to_itself.is_empty() {
        push(call, &to_itself);
    }
    call.reply().count(receivers);
}

fn pubsub(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words[1..] {
        [word, ref pattern @ ..] if is(word, "CHANNELS") && pattern.len() <= 1 => {
            list(call, Kind::Channel, pattern);
        }
        [word, ref pattern @ ..] if is(word, "SHARDCHANNELS") && pattern.len() <= 1 => {
            list(call, Kind::Shard, pattern);
        }
        [word, ref names @ ..] if is(word, "NUMSUB") => count(call, Kind::Channel, names),
        [word, ref names @ ..] if is(word, "SHARDNUMSUB") => count(call, Kind::Shard, names),
        [word] if is(word, "NUMPAT") => {
            let patterns = call.shared.pubsub.names(Kind::Pattern).len();
            call.reply().count(patterns);
        }
        _ => return Err(no_such_form(words)),
    }
    Ok(())
}

fn list(call: &mut Call<'_>, kind: Kind, pattern: &[&[u8]]) {
    let names = call.shared.pubsub.names(kind);
    let names = names.filter(|name| pattern.iter().all(|pattern| glob(pattern, name)));
    let (mut found, mut bytes) = (0, Vec::new());
    for name in names {
        encode::bulk(&mut bytes, name);
        found += 1;
    }
    let mut reply = call.reply();
    reply.array(found);
    reply.encoded(&bytes);
}

fn count(call: &mut Call<'_>, kind: Kind, names: &[&[u8]]) {
    call.reply().array(2 * names.len());
    for name in names {
        let subscribers = call.shared.pubsub.subscribers(kind, name);
        call.reply().bulk(name);
        call.reply().count(subscribers);
    }
}

/// The reply to PING of a subscriber in RESP2.
pub(super) fn pong(call: &mut Call<'_>, message: &[u8]) {
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(b"pong");
    reply.bulk(message);
}

/// Whether the connection gets messages among its replies.
pub(super) fn is_subscriber(session: &Session) -> bool {
    session.protocol == Protocol::Resp2 && !session.subscriptions.are_none()
}
