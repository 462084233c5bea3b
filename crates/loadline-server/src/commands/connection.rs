//! What clients say about themselves and their connection.

use std::sync::atomic::Ordering;

use loadline_resp::Protocol;

use super::{Call, Known, NONE, Refusal, SYNTAX, Words, integer, is, known};
use crate::state::DATABASES;

pub(super) const TABLE: &[Known] = &[
    known("PING", -1, false, NONE, ping),
    known("ECHO", 2, false, NONE, |call, words| {
        call.bulk(words[1]);
        Ok(())
    }),
    known("HELLO", -1, false, NONE, hello),
    known("AUTH", -2, false, NONE, auth),
    known("SELECT", 2, false, NONE, select),
    known("QUIT", -1, false, NONE, quit),
    known("RESET", 1, false, NONE, reset),
];

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

fn ping(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words[1..] {
        [] => call.simple("PONG"),
        [message] => call.bulk(message),
        _ => return Err("ERR wrong number of arguments for 'ping' command".into()),
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
    let mut name = None;
    while let Some(word) = rest.next() {
        if is(word, "AUTH") {
            let (user, password) = rest.next().zip(rest.next()).ok_or(SYNTAX)?;
            log_in(call, user, password)?;
        } else if is(word, "SETNAME") {
            name = Some(rest.next().ok_or(SYNTAX)?.to_vec());
        } else {
            return Err(Refusal(format!(
                "ERR Syntax error in HELLO option '{}'",
                String::from_utf8_lossy(word)
            )));
        }
    }
    if !call.session.authenticated {
        return Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time".into());
    }
    call.session.protocol = protocol;
    let version = resp(call);
    call.session.peer.resp.store(version, Ordering::Relaxed);
    if let Some(name) = name {
        check_name(&name)?;
        call.session.peer.rename(&name);
    }
    describe(call);
    Ok(())
}

fn describe(call: &mut Call<'_>) {
    call.map(7);
    for (field, value) in [("server", "redis"), ("version", "7.0.15")] {
        call.bulk(field.as_bytes());
        call.bulk(value.as_bytes());
    }
    call.bulk(b"proto");
    let version = resp(call);
    call.count(version);
    call.bulk(b"id");
    call.integer(i64::try_from(call.session.id).unwrap_or(i64::MAX));
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        call.bulk(field.as_bytes());
        call.bulk(value.as_bytes());
    }
    call.bulk(b"modules");
    call.array(0);
}

fn auth(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words[1..] {
        [_] if call.shared.password.is_none() => {
            return Err("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?".into());
        }
        [password] => log_in(call, b"default", password)?,
        [user, password] => log_in(call, user, password)?,
        _ => return Err(SYNTAX.into()),
    }
    call.simple("OK");
    Ok(())
}

fn log_in(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Result<(), Refusal> {
    let right = user == b"default"
        && call
            .shared
            .password
            .as_ref()
            .is_none_or(|wanted| same(wanted.as_bytes(), password));
    if !right {
        return Err(WRONG_PASSWORD.into());
    }
    call.session.authenticated = true;
    Ok(())
}

/// Whether both are the same, in a time that does not tell where they differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .fold(0, |difference, (a, b)| difference | (a ^ b))
            == 0
}

fn select(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let index = integer(words[1])?;
    call.session.database = usize::try_from(index)
        .ok()
        .filter(|index| *index < DATABASES)
        .ok_or("ERR DB index is out of range")?;
    let database = call.session.database;
    call.session
        .peer
        .database
        .store(database, Ordering::Relaxed);
    call.simple("OK");
    Ok(())
}

fn quit(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    call.session.closing = true;
    call.simple("OK");
    Ok(())
}

fn reset(call: &mut Call<'_>, _: Words<'_>) -> Result<(), Refusal> {
    call.shared.watched.forget(call.session);
    let session = &mut *call.session;
    session.queue = None;
    session.database = 0;
    session.protocol = Protocol::Resp2;
    session.peer.rename(b"");
    session.peer.resp.store(2, Ordering::Relaxed);
    session.peer.database.store(0, Ordering::Relaxed);
    session.authenticated = call.shared.password.is_none();
    call.simple("RESET");
    Ok(())
}

/// The number of the protocol's version.
fn resp(call: &Call<'_>) -> usize {
    match call.protocol() {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    }
}

/// Refuses names that would break the lines of CLIENT LIST.
pub(super) fn check_name(name: &[u8]) -> Result<(), Refusal> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        Ok(())
    } else {
        Err("ERR Client names cannot contain spaces, newlines or special characters.".into())
    }
}
