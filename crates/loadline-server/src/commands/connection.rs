//! Commands about the client's own connection.

use std::sync::atomic::Ordering;

use loadline_resp::Protocol;

use super::keys::database;
use super::numbers::integer;
use super::refusal::{Refusal, SYNTAX, shown, wrong_number};
use super::{Call, Keys, Listed, Words, is, listed, pubsub, tracking};
use crate::REDIS_VERSION;
use crate::acl::{DEFAULT, Denial, GUESS_MS};
use crate::session::Replies;

pub(super) const TABLE: &[Listed] = &[
    listed("PING", -1, Keys::None, ping),
    listed("ECHO", 2, Keys::None, |call, words| {
        call.reply().bulk(words[1]);
        Ok(())
    }),
    listed("HELLO", -1, Keys::None, hello),
    listed("AUTH", -2, Keys::None, auth),
    listed("SELECT", 2, Keys::None, select),
    listed("QUIT", -1, Keys::None, |call, _| {
        call.session.closing = true;
        call.reply().ok();
        Ok(())
    }),
    listed("RESET", 1, Keys::None, reset),
];

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

fn ping(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words[1..] {
        [] if pubsub::is_subscriber(call.session) => pubsub::pong(call, b""),
        [message] if pubsub::is_subscriber(call.session) => pubsub::pong(call, message),
        [] => call.reply().simple("PONG"),
        [message] => call.reply().bulk(message),
        _ => return Err(wrong_number("ping")),
    }
    Ok(())
}

fn hello(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let mut protocol = call.protocol();
    let mut rest = words[1..].iter();
    if let Some(version) = rest.next() {
        protocol = match integer(version) {
            Ok(2) => Protocol::Resp2,
            Ok(3) => Protocol::Resp3,
            Ok(_) => return Err("NOPROTO unsupported protocol version".into()),
            Err(_) => return Err("ERR Protocol version is not an integer or out of range".into()),
        };
    }
    let (mut login, mut name) = (None, None);
    while let Some(word) = rest.next() {
        let is_given = if is(word, "AUTH") {
            login = rest.next().zip(rest.next());
            login.is_some()
        } else if is(word, "SETNAME") {
            name = rest.next();
            name.is_some()
        } else {
            false
        };
        if !is_given {
            let word = shown(word, word.len());
            return Err([b"ERR Syntax error in HELLO option '", word, b"'"].into());
        }
    }
    if let Some(name) = name {
        check_name(name)?;
    }
    if let Some((user, password)) = login {
        log_in(call, words[0], user, password)?;
        if call.session.waiting.is_some() {
            return Ok(());
        }
    }
    if call.user().is_none() {
        return Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time".into());
    }
    call.session.protocol = protocol;
    call.session.note_mode();
    call.shared
        .pubsub
        .speak(&call.session.subscriptions, protocol);
    let version = version(protocol);
    call.session.peer.resp.store(version, Ordering::Relaxed);
    if let Some(name) = name {
        call.session.peer.rename(name);
    }
    describe(call);
    Ok(())
}

fn describe(call: &mut Call<'_>) {
    let id = i64::try_from(call.session.id).unwrap_or(i64::MAX);
    let version = version(call.protocol());
    let mut reply = call.reply();
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.count(version);
    reply.bulk(b"id");
    reply.integer(id);
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}

fn auth(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words[1..] {
        [_] if call.shared.acl.is_unprotected() => {
            return Err("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?".into());
        }
        [password] => log_in(call, words[0], DEFAULT, password)?,
        [user, password] => log_in(call, words[0], user, password)?,
        _ => return Err(SYNTAX.into()),
    }
    if call.session.waiting.is_none() {
        call.reply().ok();
    }
    Ok(())
}

/// Makes the client one of a user. A client waits for the reply to a wrong password if there were many in this second.
fn log_in(
    call: &mut Call<'_>,
    command: &[u8],
    user: &[u8],
    password: &[u8],
) -> Result<(), Refusal> {
    let known = call.shared.acl.user(user);
    if !known.is_some_and(|known| known.is_on && known.takes(password)) {
        let context = call.context();
        let named = (command.to_vec(), user.to_vec());
        call.note_denial(Denial::Login, context, named);
        let now = call.now();
        if call.shared.acl.note_guess(now) && !call.session.may_not_block {
            call.wait_with(WRONG_PASSWORD, GUESS_MS);
            return Ok(());
        }
        return Err(WRONG_PASSWORD.into());
    }
    call.session.user = user.to_vec();
    call.session.peer.log_in(user);
    call.session.authenticated = true;
    call.session.note_mode();
    Ok(())
}

fn select(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let database = database(words[1])?;
    call.session.database = database;
    let peer = &call.session.peer;
    peer.database.store(database, Ordering::Relaxed);
    call.reply().ok();
    Ok(())
}

fn reset(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    call.shared.watched.forget(call.session);
    pubsub::forget(call);
    call.shared.monitors.remove(call.session.id);
    tracking::stop(call);
    let session = &mut *call.session;
    session.queue = None;
    session.database = 0;
    session.protocol = Protocol::Resp2;
    session.replies = Replies::On;
    session.peer.rename(b"");
    session.peer.resp.store(2, Ordering::Relaxed);
    session.peer.database.store(0, Ordering::Relaxed);
    session.authenticated = call.shared.acl.is_open();
    session.user = DEFAULT.to_vec();
    session.peer.log_in(DEFAULT);
    session.note_mode();
    call.reply().simple("RESET");
    Ok(())
}

/// The number of the protocol's version.
fn version(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    }
}

/// Refuses names that would break the line format of CLIENT LIST.
pub(super) fn check_name(name: &[u8]) -> Result<(), Refusal> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        Ok(())
    } else {
        Err("ERR Client names cannot contain spaces, newlines or special characters.".into())
    }
}
