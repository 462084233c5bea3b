//! CONFIG: the settings of Redis that tools query, with the values that apply here.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use loadline_store::Durability;

use super::glob::glob;
use super::numbers::integer;
use super::refusal::{Refusal, lower, no_such_form, wrong_number};
use super::{Call, Words, is};
use crate::listen::KEEP_ALIVE;
use crate::notify::Classes;
use crate::persistence::Persistence;
use crate::settings::{ClientLimit, Eviction, NAMES, Settings, Unit, memory_bytes};
use crate::state::DATABASES;
use crate::stats::{Gone, Stats};
use crate::tls::{ClientCertificates, Tls, TlsFiles};

/// The names of the setting for the size of listpacks in lists.
const LIST_SIZE: [&str; 2] = ["list-max-listpack-size", "list-max-ziplist-size"];

/// The name of the eviction setting.
const POLICY: &str = "maxmemory-policy";

/// The name of the setting for the memory of all clients.
const CLIENTS: &str = "maxmemory-clients";

/// The name of the setting for the limits of outputs.
const OUTPUT: &str = "client-output-buffer-limit";

/// The name of the setting for the password of the default user.
const PASSWORD: &str = "requirepass";

/// The name of the setting for the channels of new users.
const CHANNELS: &str = "acl-pubsub-default";

/// The name of the setting for the slow log.
const SLOWER: &str = "slowlog-log-slower-than";

/// The name of the setting for keyspace notifications.
const EVENTS: &str = "notify-keyspace-events";

/// The name of the setting for the durability.
const FSYNC: &str = "appendfsync";

/// The interval of `everysec`.
const EVERY_SECOND: Duration = Duration::from_secs(1);

/// The settings with their values.
fn settings(call: &Call<'_>) -> Vec<(&'static str, String)> {
    let numbers = [
        ("databases", DATABASES as u64),
        ("maxclients", call.shared.max_clients as u64),
        ("port", u64::from(call.shared.port)),
        ("tls-port", u64::from(call.shared.tls_port)),
        ("proto-max-bulk-len", 512 << 20),
        ("tcp-keepalive", KEEP_ALIVE.as_secs()),
    ];
    let persistence = call.shared.persistence.as_ref();
    let words = [
        (FSYNC, persistence.map_or("no", Persistence::appendfsync)),
        (
            "appendonly",
            if persistence.is_some() { "yes" } else { "no" },
        ),
        ("cluster-enabled", "no"),
        ("enable-debug-command", call.shared.debug_command.name()),
        (POLICY, call.shared.settings.eviction.name()),
        (PASSWORD, call.shared.acl.password()),
        (
            CHANNELS,
            if call.shared.acl.all_channels {
                "allchannels"
            } else {
                "resetchannels"
            },
        ),
        ("save", ""),
    ];
    let numbers = numbers.map(|(name, number)| (name, number.to_string()));
    let words = words.map(|(name, word)| (name, word.to_owned()));
    let file = call.shared.acl.file.as_ref();
    let file = file.map_or(String::new(), |file| file.display().to_string());
    let tls = call.shared.tls.as_ref();
    let tls = tls_settings(tls.map(|tls| &tls.files));
    let dir = persistence.map(|persistence| ("dir", persistence.dir.display().to_string()));
    let mut values = call.shared.settings.clone();
    let list_size = values.list_max_listpack_size;
    let slower = values.slowlog_log_slower_than;
    let changeable = NAMES.map(|(name, _, place)| (name, place(&mut values).to_string()));
    numbers
        .into_iter()
        .chain(words)
        .chain(dir)
        .chain(tls)
        .chain([("aclfile", file)])
        .chain(LIST_SIZE.map(|name| (name, list_size.to_string())))
        .chain([(SLOWER, slower.to_string())])
        .chain([(EVENTS, call.shared.settings.notified.text())])
        .chain([(OUTPUT, call.shared.settings.output_limits.text())])
        .chain([(CLIENTS, call.shared.settings.maxmemory_clients.text())])
        .chain(changeable)
        .collect()
}

pub(super) fn config(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match words {
        [_, word] if is(word, "RESETSTAT") => {
            let shared = &mut *call.shared;
            let commands = shared.stats.calls.len();
            let gone = Gone {
                expired: shared.expired(),
                evicted: shared.evicted(),
            };
            shared.stats = Stats::new(commands, gone, shared.now);
            call.reply().ok();
            Ok(())
        }
        [_, word] if is(word, "REWRITE") => {
            Err("ERR The server is running without a config file".into())
        }
        [_, word, pairs @ ..] if is(word, "SET") => set(call, pairs),
        [_, word, patterns @ ..] if is(word, "GET") => {
            get(call, patterns);
            Ok(())
        }
        _ => Err(no_such_form(words)),
    }
}

fn get(call: &mut Call<'_>, patterns: &[&[u8]]) {
    let asked = |name: &str| {
        patterns
            .iter()
            .any(|pattern| glob(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    let mut found = settings(call);
    found.retain(|(name, _)| asked(name));
    let mut reply = call.reply();
    reply.map(found.len());
    for (name, value) in &found {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

/// Changes all given settings or none. Settings outside [`NAMES`] accept only their current value.
fn set(call: &mut Call<'_>, pairs: &[&[u8]]) -> Result<(), Refusal> {
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_number("config|set"));
    }
    let fixed = settings(call);
    let mut changed = call.shared.settings.clone();
    let (mut durability, mut password, mut all_channels) = (None, None, None);
    let mut tls = NewFiles::of(call.shared.tls.as_ref());
    for (place, pair) in pairs.chunks_exact(2).enumerate() {
        let name = lower(pair[0]);
        let refuse = |why: &str| refusal(&name, why);
        let mut before = pairs.chunks_exact(2).take(place);
        if before.any(|other| lower(other[0]) == name) {
            let typed = String::from_utf8_lossy(pair[0]);
            return Err(refusal(&typed, "duplicate parameter").into());
        }
        if set_plain(&mut changed, &name, pair[1]).map_err(|why| refuse(&why))?
            || tls.set(&name, pair[1]).map_err(refuse)?
        {
            continue;
        }
        if name == FSYNC
            && let Some(persistence) = &call.shared.persistence
        {
            let current = persistence.log.durability();
            durability = Some(fsync(pair[1], current).map_err(refuse)?);
            continue;
        }
        if name == PASSWORD {
            password = Some(String::from_utf8_lossy(pair[1]).into_owned());
            continue;
        }
        if name == CHANNELS {
            all_channels = Some(channels(pair[1]).map_err(refuse)?);
            continue;
        }
        let value = fixed.iter().find(|(known, _)| *known == name);
        let (_, value) = value.ok_or_else(|| {
            format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
        })?;
        if value.as_bytes() != pair[1] {
            return Err(refuse(&format!("it is always '{value}' here")).into());
        }
    }
    // Nothing is changed if they cannot be used.
    if let Some(read) = tls.read()? {
        call.shared.tls = Some(read);
    }
    call.shared.set(changed);
    let acl = &mut call.shared.acl;
    acl.all_channels = all_channels.unwrap_or(acl.all_channels);
    if let Some(password) = password {
        acl.set_password(&password);
    }
    if let Some((durability, persistence)) = durability.zip(call.shared.persistence.as_mut()) {
        persistence.set_durability(durability);
    }
    call.reply().ok();
    Ok(())
}

/// The settings of encrypted connections.
const TLS: [&str; 4] = [
    "tls-cert-file",
    "tls-key-file",
    "tls-ca-cert-file",
    "tls-auth-clients",
];

/// Their values; those of Redis without such connections.
fn tls_settings(files: Option<&TlsFiles>) -> [(&'static str, String); 4] {
    let path =
        |path: Option<&PathBuf>| path.map_or(String::new(), |path| path.display().to_string());
    let clients = files.map_or_else(ClientCertificates::default, |files| files.clients);
    let mut named = ClientCertificates::NAMES.iter();
    let named = named.find(|(_, known)| *known == clients);
    let [certificate, key, authorities, asked] = TLS;
    [
        (certificate, path(files.map(|files| &files.certificate))),
        (key, path(files.map(|files| &files.key))),
        (
            authorities,
            path(files.and_then(|files| files.authorities.as_ref())),
        ),
        (
            asked,
            named.map_or(String::new(), |(name, _)| (*name).to_owned()),
        ),
    ]
}

/// The certificates as CONFIG SET changes them.
#[derive(Debug)]
struct NewFiles {
    tls: Option<Tls>,
    /// The name of a setting that is set, whether or not its value is new: the files can have changed.
    named: Option<String>,
}

impl NewFiles {
    fn of(tls: Option<&Tls>) -> Self {
        Self {
            tls: tls.cloned(),
            named: None,
        }
    }

    /// Sets one of the settings, and says whether `name` is one that can be set.
    fn set(&mut self, name: &str, given: &[u8]) -> Result<bool, &'static str> {
        let Some(place) = TLS.iter().position(|known| *known == name) else {
            return Ok(false);
        };
        let Some(Tls { files, .. }) = &mut self.tls else {
            return Ok(false);
        };
        let path = || PathBuf::from(OsStr::from_bytes(given));
        match place {
            0 => files.certificate = path(),
            1 => files.key = path(),
            2 => files.authorities = (!given.is_empty()).then(path),
            _ => {
                let word = lower(given);
                let named = ClientCertificates::NAMES.iter();
                let named = named.clone().find(|(known, _)| *known == word);
                files.clients = named
                    .ok_or("argument(s) must be one of the following: no, yes, optional")?
                    .1;
            }
        }
        self.named = Some(name.to_owned());
        Ok(true)
    }

    /// The certificates with the content of the files, if a setting was set.
    fn read(self) -> Result<Option<Tls>, Refusal> {
        let Some((mut tls, name)) = self.tls.zip(self.named) else {
            return Ok(None);
        };
        let read = (tls.read)(&tls.files).map_err(|why| {
            let why = why.replace('\n', " ");
            refusal(&name, &format!("Unable to update TLS configuration. {why}"))
        });
        tls.config = read?;
        Ok(Some(tls))
    }
}

/// Sets a setting that is a value and nothing else, and says whether `name` is one.
///
/// # Errors
/// The reason why the value is refused.
fn set_plain(changed: &mut Settings, name: &str, given: &[u8]) -> Result<bool, String> {
    let whole = || integer(given).map_err(|_| "argument couldn't be parsed into an integer");
    if let Some((_, unit, place)) = NAMES.iter().find(|(known, ..)| *known == name) {
        *place(changed) = value(given, *unit)?;
    } else if LIST_SIZE.contains(&name) {
        changed.list_max_listpack_size = whole()?;
    } else {
        match name {
            POLICY => changed.eviction = policy(given)?,
            SLOWER => changed.slowlog_log_slower_than = whole()?.max(-1),
            EVENTS => changed.notified = Classes::parse(given)?,
            OUTPUT => changed.output_limits.parse(given)?,
            CLIENTS => changed.maxmemory_clients = ClientLimit::parse(given)?,
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn refusal(name: &str, why: &str) -> String {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
}

/// Whether new users can use all channels.
fn channels(word: &[u8]) -> Result<bool, &'static str> {
    match lower(word).as_str() {
        "allchannels" => Ok(true),
        "resetchannels" => Ok(false),
        _ => Err("argument(s) must be one of the following: allchannels, resetchannels"),
    }
}

/// The durability that a value of `appendfsync` names. An interval that the server was started with stays as it is.
fn fsync(word: &[u8], current: Durability) -> Result<Durability, &'static str> {
    match lower(word).as_str() {
        "always" => Ok(Durability::Always),
        "everysec" if matches!(current, Durability::Interval(_)) => Ok(current),
        "everysec" => Ok(Durability::Interval(EVERY_SECOND)),
        "no" => Ok(Durability::Process),
        _ => Err("argument(s) must be one of the following: everysec, always, no"),
    }
}

/// Reads the name of a policy. The error lists the names in the order of Redis.
fn policy(word: &[u8]) -> Result<Eviction, String> {
    let word = lower(word);
    let named = Eviction::NAMES.iter().find(|(name, _)| *name == word);
    named.map(|(_, policy)| *policy).ok_or_else(|| {
        let names = Eviction::NAMES.map(|(name, _)| name).join(", ");
        format!("argument(s) must be one of the following: {names}")
    })
}

fn value(word: &[u8], unit: Unit) -> Result<u64, &'static str> {
    match unit {
        Unit::Memory => memory_bytes(word).ok_or("argument must be a memory value"),
        Unit::Count | Unit::Small => {
            let number =
                integer(word).map_err(|_| "argument couldn't be parsed into an integer")?;
            let (most, limits) = match unit {
                Unit::Small => (
                    i32::MAX.into(),
                    "argument must be between 0 and 2147483647 inclusive",
                ),
                Unit::Count | Unit::Memory => (
                    i64::MAX,
                    "argument must be between 0 and 9223372036854775807 inclusive",
                ),
            };
            let number = Some(number).filter(|number| *number <= most);
            let number = number.and_then(|number| u64::try_from(number).ok());
            number.ok_or(limits)
        }
    }
}
