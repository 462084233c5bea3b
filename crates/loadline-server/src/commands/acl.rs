//! ACL: users and their rights.

use super::numbers::integer;
use super::refusal::{Refusal, no_such_form, shown};
use super::reply::Reply;
use super::rights::dry_run;
use super::{Call, Keys, Listed, Words, each, is, listed, sub};
use crate::acl::{DEFAULT, Selector, User, has_spaces};
use crate::catalogue::{CATEGORIES, category};
use crate::pubsub::Kind;
use crate::state::Shared;

pub(super) const TABLE: &[Listed] = &[listed("ACL", -2, Keys::None, acl).with(&[
    sub(
        "CAT",
        -2,
        "[<category>]\nList all commands that belong to <category>, or all command categories\nwhen no category is specified.",
    ),
    sub(
        "DELUSER",
        -3,
        "<username> [<username> ...]\nDelete a list of users.",
    ),
    sub(
        "DRYRUN",
        -4,
        "<username> <command> [<arg> ...]\nReturns whether the user can execute the given command without executing the command.",
    ),
    sub("GETUSER", 3, "<username>\nGet the user's details."),
    sub(
        "GENPASS",
        -2,
        "[<bits>]\nGenerate a secure 256-bit user password. The optional `bits` argument can\nbe used to specify a different size.",
    ),
    sub("LIST", 2, "\nShow users details in config file format."),
    sub("LOAD", 2, "\nReload users from the ACL file."),
    sub(
        "LOG",
        -2,
        "[<count> | RESET]\nShow the ACL log entries.",
    ),
    sub("SAVE", 2, "\nSave the current config to the ACL file."),
    sub(
        "SETUSER",
        -3,
        "<username> <attribute> [<attribute> ...]\nCreate or modify a user with the specified attributes.",
    ),
    sub("USERS", 2, "\nList all the registered usernames."),
    sub("WHOAMI", 2, "\nReturn the current connection username."),
])];

/// The most bits of a password that ACL GENPASS makes.
const MOST_BITS: i64 = 4_096;

fn acl(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words[1..] {
        [word, name, ref rules @ ..] if is(word, "SETUSER") => set_user(call, name, rules)?,
        [word, ref names @ ..] if is(word, "DELUSER") => delete(call, names)?,
        [word, name] if is(word, "GETUSER") => get_user(call, name),
        [word] if is(word, "LIST") || is(word, "USERS") => list(call, is(word, "USERS")),
        [word] if is(word, "WHOAMI") => {
            let user = call.session.user.clone();
            call.reply().bulk(&user);
        }
        [word] if is(word, "LOAD") => load(call)?,
        [word] if is(word, "SAVE") => save(call)?,
        [word, ref names @ ..] if is(word, "CAT") && names.len() <= 1 => {
            categories(&mut call.reply(), names)?;
        }
        [word, ref bits @ ..] if is(word, "GENPASS") && bits.len() <= 1 => generate(call, bits)?,
        [word, ref count @ ..] if is(word, "LOG") && count.len() <= 1 => log(call, count)?,
        [word, name, ref words @ ..] if is(word, "DRYRUN") => {
            let user = call.shared.acl.user(name);
            let user = user.ok_or_else(|| Refusal::from([b"ERR User '", name, b"' not found"]))?;
            match dry_run(user, words)? {
                None => call.reply().ok(),
                Some(text) => call.reply().bulk(&text),
            }
        }
        _ => return Err(no_such_form(words)),
    }
    Ok(())
}

fn set_user(call: &mut Call<'_>, name: &[u8], rules: &[&[u8]]) -> Result<(), Refusal> {
    if has_spaces(name) {
        return Err("ERR Usernames can't contain spaces or null characters".into());
    }
    let changed = call.shared.acl.changed(name, rules);
    let user = changed.map_err(|text| Refusal(text.into()))?;
    kill_subscribers(call, name, &user);
    call.shared.acl.put(name, user);
    call.reply().ok();
    Ok(())
}

/// Closes the connections of a user with subscriptions that the user will have no right to.
fn kill_subscribers(call: &mut Call<'_>, name: &[u8], user: &User) {
    if user.selectors.iter().any(|one| one.all_channels) {
        return;
    }
    let channels: Vec<&Vec<u8>> = user
        .selectors
        .iter()
        .flat_map(|one| &one.channels)
        .collect();
    let is_open = |kind: Kind, channel: &[u8]| {
        channels.iter().any(|known| match kind {
            Kind::Pattern => *known == channel,
            Kind::Channel | Kind::Shard => super::glob(known, channel),
        })
    };
    let shared = &mut *call.shared;
    let peers = shared.peers.values();
    let peers = peers.filter(|peer| peer.is_subscriber() && peer.user() == name);
    let lost = peers.filter(|peer| {
        let mut names = shared.pubsub.subscriptions_of(peer);
        names.any(|(kind, channel)| !is_open(kind, channel))
    });
    let lost: Vec<u64> = lost.map(|peer| peer.id).collect();
    lost.iter().for_each(|id| kill(call, *id));
}

/// Closes a connection; that of the caller after its reply.
fn kill(call: &mut Call<'_>, id: u64) {
    if id == call.session.id {
        call.session.closing = true;
        call.session.authenticated = false;
        call.session.note_mode();
    } else {
        call.shared.kill(id);
    }
}

fn delete(call: &mut Call<'_>, names: &[&[u8]]) -> Result<(), Refusal> {
    if names.contains(&DEFAULT) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    let mut deleted = 0;
    for name in names {
        if call.shared.acl.remove(name) {
            deleted += 1;
            kill_clients(call, name);
        }
    }
    call.reply().count(deleted);
    Ok(())
}

fn kill_clients(call: &mut Call<'_>, name: &[u8]) {
    let peers = call.shared.peers.values();
    let ids = peers.filter(|peer| peer.user() == name).map(|peer| peer.id);
    let ids: Vec<u64> = ids.collect();
    ids.iter().for_each(|id| kill(call, *id));
}

fn get_user(call: &mut Call<'_>, name: &[u8]) {
    let Some(user) = call.shared.acl.user(name).cloned() else {
        return call.reply().null();
    };
    let mut reply = call.reply();
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords.len());
    for password in &user.passwords {
        reply.bulk(password.as_bytes());
    }
    describe(&mut reply, &user.selectors[0]);
    reply.bulk(b"selectors");
    reply.array(user.selectors.len() - 1);
    for selector in &user.selectors[1..] {
        reply.map(3);
        describe(&mut reply, selector);
    }
}

fn describe(reply: &mut Reply<'_>, selector: &Selector) {
    for (name, text) in [
        ("commands", selector.commands_text()),
        ("keys", selector.keys_text()),
        ("channels", selector.channels_text()),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(&text);
    }
}

fn list(call: &mut Call<'_>, only_names: bool) {
    let users = call.shared.acl.users();
    let users = users.map(|(name, user)| match only_names {
        true => name.clone(),
        false => [b"user ", &**name, b" ", &user.text()].concat(),
    });
    let users: Vec<Vec<u8>> = users.collect();
    let mut reply = call.reply();
    reply.array(users.len());
    users.iter().for_each(|user| reply.bulk(user));
}

/// The name of the file of users.
fn file(shared: &Shared) -> Result<std::path::PathBuf, Refusal> {
    let file = shared.acl.file.clone();
    Ok(file.ok_or("ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.")?)
}

fn load(call: &mut Call<'_>) -> Result<(), Refusal> {
    let path = file(call.shared)?;
    let name = path.display().to_string();
    let text = std::fs::read(&path)
        .map_err(|error| format!("ERR Error loading ACLs, opening file '{name}': {error}"))?;
    let gone = call.shared.acl.load(&name, &text);
    let gone = gone.map_err(|error| format!("ERR {error}"))?;
    gone.iter().for_each(|name| kill_clients(call, name));
    call.reply().ok();
    Ok(())
}

/// Writes the file anew under another name first, so that it is never incomplete.
fn save(call: &mut Call<'_>) -> Result<(), Refusal> {
    let path = file(call.shared)?;
    let mut text = Vec::new();
    for (name, user) in call.shared.acl.users() {
        text.extend([b"user ", &**name, b" ", &user.text(), b"\n"].concat());
    }
    let mut other = path.clone().into_os_string();
    other.push(format!(".tmp-{}", std::process::id()));
    let saved = std::fs::write(&other, text).and_then(|()| std::fs::rename(&other, &path));
    if let Err(error) = saved {
        let _ = std::fs::remove_file(&other);
        let warnings = &mut call.shared.warnings;
        warnings.warn(|| format!("the users cannot be saved: {error}"));
        return Err("ERR There was an error trying to save the ACLs. Please check the server logs for more information".into());
    }
    call.reply().ok();
    Ok(())
}

/// Lists the categories, or the commands of one that this server has.
fn categories(reply: &mut Reply<'_>, names: &[&[u8]]) -> Result<(), Refusal> {
    let [name] = names else {
        reply.array(CATEGORIES.len());
        CATEGORIES
            .iter()
            .for_each(|name| reply.bulk(name.as_bytes()));
        return Ok(());
    };
    let found = category(&String::from_utf8_lossy(name));
    let found =
        found.ok_or_else(|| Refusal::from([b"ERR Unknown category '", shown(name, 128), b"'"]))?;
    let items = each().map(|known| known.item);
    let items: Vec<&str> = items
        .filter(|item| item.is_in(found))
        .map(|item| item.name)
        .collect();
    reply.array(items.len());
    items.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

fn generate(call: &mut Call<'_>, bits: &[&[u8]]) -> Result<(), Refusal> {
    let bits = bits.first().map_or(Ok(256), |bits| integer(bits))?;
    if !(1..=MOST_BITS).contains(&bits) {
        return Err(format!("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to {MOST_BITS}").into());
    }
    let digits = usize::try_from((bits + 3) / 4).unwrap_or(0);
    let text: String = (0..digits.div_ceil(2))
        .map(|_| format!("{:02x}", rand::random::<u8>()))
        .collect();
    call.reply().bulk(&text.as_bytes()[..digits]);
    Ok(())
}

fn log(call: &mut Call<'_>, count: &[&[u8]]) -> Result<(), Refusal> {
    let count = match count {
        [word] if is(word, "RESET") => {
            call.shared.acl.log.entries.clear();
            call.reply().ok();
            return Ok(());
        }
        [count] => usize::try_from(integer(count)?).unwrap_or(0),
        _ => 10,
    };
    let now = call.now();
    let mut reply = Reply {
        out: call.out,
        protocol: call.session.protocol,
    };
    let entries = &call.shared.acl.log.entries;
    reply.array(entries.len().min(count));
    for entry in entries.iter().take(count) {
        reply.map(7);
        reply.bulk(b"count");
        reply.integer(entry.count);
        for (name, value) in [
            ("reason", entry.denial.name().as_bytes()),
            ("context", entry.context.as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(value);
        }
        reply.bulk(b"age-seconds");
        reply.double(now.saturating_sub(entry.at_ms) as f64 / 1_000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
    }
    Ok(())
}
