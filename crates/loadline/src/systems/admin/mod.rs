//! A run's administration of a server: facts about it, checks that it supports the workload, and the removal
//! of the run's keys.

mod clients;
mod rights;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use loadline_client::Error;
use loadline_client::blocking::Connection;
use loadline_resp::{Frame, OwnedReply};

use super::connect::{Endpoint, command, reply_of, shown_text};
use super::hints::hint;
use crate::exit::Failure;
use clients::{active_others, memory_of_others, monitors};

pub(crate) use clients::named_clients;
pub(crate) use rights::{Refusals, refusals};

/// The number of keys per step of the clean-up.
const SCAN_COUNT: &str = "1000";
/// A connection for everything but the load.
#[derive(Debug)]
pub(crate) struct Admin {
    name: String,
    connection: Connection,
    /// Commands that the server refused, with their errors.
    refused: BTreeMap<&'static str, String>,
}

/// The content of INFO.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Info(BTreeMap<String, String>);

impl Admin {
    /// Connects to a server.
    ///
    /// # Errors
    /// The failure for a server that is unavailable, does not reply, or refuses the login.
    pub(crate) fn open(endpoint: &Endpoint) -> Result<Self, Failure> {
        let name = endpoint.name();
        let opened = endpoint.open_first();
        let connection = opened.map_err(|(error, advice)| {
            let said = error.to_string();
            let advice = advice.or_else(|| hint(&said)).unwrap_or(
                "Check that a server is running there and that this machine can reach it.",
            );
            Failure::unavailable(format!("{name} cannot be used: {said}.\n{advice}"))
        })?;
        let mut admin = Self {
            name,
            connection,
            refused: BTreeMap::new(),
        };
        // A server that is still loading its data accepts connections.
        match admin.call(&["PING"])? {
            refusal if refusal.is_error() => Err(admin.unexpected("PING", &refusal)),
            _ => Ok(admin),
        }
    }

    /// INFO with `sections`, such as `server` or `commandstats`; the default sections if there are none.
    ///
    /// # Errors
    /// If the server does not answer. Without INFO, the result is empty.
    pub(crate) fn info(&mut self, sections: &[&str]) -> Result<Info, Failure> {
        let reply = self.ask("INFO", &[&["INFO"], sections].concat())?;
        Ok(Info::parse(
            reply
                .as_bytes()
                .filter(|_| !reply.is_error())
                .unwrap_or_default(),
        ))
    }

    /// The number of keys in all databases that the server reports.
    ///
    /// # Errors
    /// If the server does not answer or does not report it.
    pub(crate) fn key_count(&mut self) -> Result<u64, Failure> {
        let selected = match self.call(&["DBSIZE"])? {
            Frame::Integer(keys) => u64::try_from(keys).unwrap_or(0),
            other => return Err(self.unexpected("DBSIZE", &other)),
        };
        Ok(self.info(&["keyspace"])?.key_count().max(selected))
    }

    /// The subset of `commands` that the server does not have.
    ///
    /// # Errors
    /// If the server does not answer. A server that cannot list its commands is assumed to have all of them;
    /// loading then reports an unknown one.
    pub(crate) fn missing_commands(&mut self, commands: &[String]) -> Result<Vec<String>, Failure> {
        let mut request = vec!["COMMAND", "INFO"];
        request.extend(commands.iter().map(String::as_str));
        let Frame::Array(known) = self.call(&request)? else {
            return Ok(Vec::new());
        };
        if known.len() != commands.len() {
            return Ok(Vec::new());
        }
        let is_missing = |reply: &OwnedReply| {
            reply.is_null() || matches!(reply, Frame::Array(about) if about.is_empty())
        };
        Ok(commands
            .iter()
            .zip(&known)
            .filter(|(_, reply)| is_missing(reply))
            .map(|(name, _)| name.clone())
            .collect())
    }

    /// The value of the setting `name`, if the server reports it.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(crate) fn setting(&mut self, name: &str) -> Result<Option<String>, Failure> {
        let text = |reply: &OwnedReply| {
            reply
                .as_bytes()
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        Ok(match self.ask("CONFIG GET", &["CONFIG", "GET", name])? {
            Frame::Array(pair) => pair.get(1).and_then(text),
            Frame::Map(pairs) => pairs.first().and_then(|(_, value)| text(value)),
            _ => None,
        })
    }

    /// All settings that the server reports.
    ///
    /// # Errors
    /// If the server does not answer, refuses or reports none.
    pub(crate) fn settings(&mut self) -> Result<BTreeMap<String, String>, Failure> {
        let reply = self.ask("CONFIG GET", &["CONFIG", "GET", "*"])?;
        let text = |reply: &OwnedReply| {
            let bytes = reply.as_bytes().unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        let settings: BTreeMap<String, String> = match &reply {
            Frame::Array(words) => {
                let pairs = words.chunks_exact(2);
                pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
            }
            Frame::Map(pairs) => {
                let pairs = pairs.iter();
                pairs
                    .map(|(name, value)| (text(name), text(value)))
                    .collect()
            }
            refusal => return Err(self.unexpected("CONFIG GET", refusal)),
        };
        if settings.is_empty() {
            return Err(Failure::unavailable(format!(
                "{}: CONFIG GET reported no settings.",
                self.name
            )));
        }
        Ok(settings)
    }

    /// Lets the server execute no commands of its clients for a number of milliseconds.
    ///
    /// # Errors
    /// If the server refuses that or does not answer.
    pub(crate) fn pause(&mut self, milliseconds: &str) -> Result<(), Failure> {
        match self.call(&["CLIENT", "PAUSE", milliseconds, "ALL"])? {
            refusal if refusal.is_error() => Err(self.unexpected("CLIENT PAUSE", &refusal)),
            _ => Ok(()),
        }
    }

    /// The number of other clients that were active within the last `within`, if the server reports it.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(crate) fn other_clients(&mut self, within: Duration) -> Result<Option<u64>, Failure> {
        let list = self.clients()?;
        Ok(list.map(|list| active_others(&list, within)))
    }

    /// Connections that receive every command (`MONITOR`), if the server reports them.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(crate) fn monitors(&mut self) -> Result<Option<u64>, Failure> {
        Ok(self.clients()?.map(|list| monitors(&list)))
    }

    /// The slots that a node of a cluster serves, and those that are migrating to or from it, if it reports
    /// them.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(crate) fn own_slots(&mut self) -> Result<Option<(u64, u64)>, Failure> {
        let reply = self.call(&["CLUSTER", "NODES"])?;
        let table = reply.as_bytes().filter(|_| !reply.is_error());
        Ok(table.and_then(|table| own_slots(&String::from_utf8_lossy(table))))
    }

    /// The memory of the server for other clients in bytes, if it reports it.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(crate) fn memory_of_other_clients(&mut self) -> Result<Option<u64>, Failure> {
        let list = self.clients()?;
        Ok(list.and_then(|list| memory_of_others(&list)))
    }

    fn clients(&mut self) -> Result<Option<String>, Failure> {
        let reply = self.ask("CLIENT LIST", &["CLIENT", "LIST"])?;
        let list = reply.as_bytes().filter(|_| !reply.is_error());
        Ok(list.map(|list| String::from_utf8_lossy(list).into_owned()))
    }

    /// Passes every page of keys under `prefix` to `each`, until the end or `deadline`. Returns `false` at
    /// the deadline.
    ///
    /// # Errors
    /// If the server does not answer or refuses; the errors of `each`.
    pub(crate) fn walk(
        &mut self,
        prefix: &str,
        deadline: Instant,
        mut each: impl FnMut(&mut Self, &[Vec<u8>]) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        let pattern = format!("{}*", escaped(prefix));
        let mut cursor = b"0".to_vec();
        loop {
            let mut keys;
            (cursor, keys) = self.scan(&cursor, &pattern)?;
            // The server's pattern selects what is found; this check selects what is removed.
            keys.retain(|key| key.starts_with(prefix.as_bytes()));
            if !keys.is_empty() {
                each(self, &keys)?;
            }
            if cursor == b"0" {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
        }
    }

    /// Removes every key under `prefix`.
    ///
    /// # Errors
    /// If the server does not answer, refuses, or is not done by `deadline`.
    pub(crate) fn remove_prefix(
        &mut self,
        prefix: &str,
        deadline: Instant,
    ) -> Result<Pass, Failure> {
        let (mut pass, mut removal) = (Pass::default(), Removal::default());
        let is_through = self.walk(prefix, deadline, |admin, keys| {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            admin.remove(&mut removal, &keys, &mut pass)
        })?;
        if is_through {
            return Ok(pass);
        }
        Err(Failure::unavailable(format!(
            "{}: removing the keys under {prefix} took too long, and some are left.",
            self.name
        )))
    }

    fn scan(&mut self, cursor: &[u8], pattern: &str) -> Result<(Vec<u8>, Vec<Vec<u8>>), Failure> {
        let reply = self.call(&[
            b"SCAN",
            cursor,
            b"MATCH",
            pattern.as_bytes(),
            b"COUNT",
            SCAN_COUNT.as_bytes(),
        ])?;
        match &reply {
            Frame::Array(parts) => match &parts[..] {
                [Frame::Bulk(next), Frame::Array(keys)] => {
                    let names = keys
                        .iter()
                        .filter_map(|key| key.as_bytes().map(<[u8]>::to_vec))
                        .collect();
                    Ok((next.clone(), names))
                }
                _ => Err(self.unexpected("SCAN", &reply)),
            },
            _ => Err(self.unexpected("SCAN", &reply)),
        }
    }

    /// Removes `keys`, and adapts to refusals of the server.
    fn remove(
        &mut self,
        removal: &mut Removal,
        keys: &[&[u8]],
        pass: &mut Pass,
    ) -> Result<(), Failure> {
        let verb = removal.verb;
        let together = if removal.one_by_one { 1 } else { keys.len() };
        let commands: Vec<_> = keys
            .chunks(together)
            .map(|keys| command(&[&[verb.as_bytes()], keys].concat()))
            .collect();
        for reply in self.connection.run(&commands) {
            match &reply_of(reply).map_err(|error| self.silent(verb, &error))? {
                Frame::Integer(count) => pass.removed += u64::try_from(*count).unwrap_or(0),
                // Keys that this call has already removed count as missing when the command is repeated.
                refusal if removal.learn(refusal) => return self.remove(removal, keys, pass),
                refusal if is_elsewhere(refusal) => pass.moving += 1,
                other => return Err(self.unexpected(verb, other)),
            }
        }
        Ok(())
    }

    /// The commands that the server refused so far, with their errors.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&str, &str)> {
        let refused = self.refused.iter();
        refused.map(|(command, reason)| (*command, reason.as_str()))
    }

    /// Calls `command`, and records a refusal under `name`.
    fn ask(&mut self, name: &'static str, command: &[&str]) -> Result<OwnedReply, Failure> {
        let reply = self.call(command)?;
        if let Some(reason) = reply.error_text() {
            self.refused.insert(name, shown_text(reason));
        }
        Ok(reply)
    }

    fn call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Result<OwnedReply, Failure> {
        reply_of(self.connection.run(command(words))).map_err(|error| {
            let name = shown_text(words.first().map(AsRef::as_ref).unwrap_or_default());
            self.silent(&name, &error)
        })
    }

    fn silent(&self, command: &str, error: &Error) -> Failure {
        Failure::unavailable(format!("{}: no reply to {command}: {error}.", self.name))
    }

    fn unexpected(&self, command: &str, reply: &OwnedReply) -> Failure {
        let said = match reply.error_text() {
            Some(text) => format!("answered `{}`", shown_text(text)),
            None => "sent a reply of an unexpected type".into(),
        };
        let failure = Failure::unavailable(format!("{}: {command} {said}.", self.name));
        match hint(&said) {
            Some(hint) => failure.followed_by(hint),
            None => failure,
        }
    }
}

/// The result of one removal of keys from a server.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pass {
    /// Removed keys.
    pub(crate) removed: u64,
    /// Keys, or groups of keys, that are migrating to another node.
    pub(crate) moving: u64,
}

/// Whether a node of a cluster reports that a key is migrating.
fn is_elsewhere(refusal: &OwnedReply) -> bool {
    let text = refusal.error_text().unwrap_or_default();
    let codes: [&[u8]; 3] = [b"MOVED ", b"ASK ", b"TRYAGAIN"];
    codes.iter().any(|code| text.starts_with(code))
}

/// The server's way of removing keys.
#[derive(Debug)]
struct Removal {
    /// UNLINK, or DEL for a server without it.
    verb: &'static str,
    /// Whether keys are removed one at a time: a node of a cluster takes several keys only in one slot.
    one_by_one: bool,
}

impl Default for Removal {
    fn default() -> Self {
        Self {
            verb: "UNLINK",
            one_by_one: false,
        }
    }
}

impl Removal {
    /// Whether `refusal` suggests another way of removing keys, which is then used.
    fn learn(&mut self, refusal: &OwnedReply) -> bool {
        let starts = |with: &[u8]| {
            let text = refusal.error_text();
            text.is_some_and(|text| text.starts_with(with))
        };
        if self.verb == "UNLINK" && (starts(b"ERR unknown command") || starts(b"NOPERM")) {
            self.verb = "DEL";
            true
        } else if !self.one_by_one && starts(b"CROSSSLOT") {
            self.one_by_one = true;
            true
        } else {
            false
        }
    }
}

impl Info {
    /// Parses INFO: lines of `name:value`, and headings after `#`.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let pairs = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.trim_end().split_once(':'));
        Self(
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// The value of `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of `name` as an integer.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// The keys of all databases (section `keyspace`).
    pub(crate) fn key_count(&self) -> u64 {
        let is_database = |name: &str| {
            name.strip_prefix("db")
                .is_some_and(|number| number.parse::<u32>().is_ok())
        };
        let databases = self.0.iter().filter(|(name, _)| is_database(name));
        databases
            .filter_map(|(_, value)| field(value, "keys")?.parse::<u64>().ok())
            .sum()
    }

    /// The CPU time that the server reports.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let seconds = |name| {
            self.get(name)?
                .parse::<f64>()
                .ok()
                .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        };
        Some(Duration::from_secs_f64(
            seconds("used_cpu_user")? + seconds("used_cpu_sys")?,
        ))
    }

    /// Calls of each command and their reported time (section `commandstats`).
    pub(crate) fn commands(&self) -> impl Iterator<Item = (&str, CommandStat)> {
        self.0.iter().filter_map(|(name, value)| {
            Some((name.strip_prefix("cmdstat_")?, CommandStat::parse(value)?))
        })
    }
}

/// The server's statistics of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandStat {
    /// The number of calls.
    pub(crate) calls: u64,
    /// Their total time, if the server reports it.
    pub(crate) time: Option<Duration>,
}

impl CommandStat {
    fn parse(value: &str) -> Option<Self> {
        let calls = field(value, "calls")?.parse().ok()?;
        Some(Self {
            calls,
            time: field(value, "usec")
                .and_then(|usec| usec.parse().ok())
                .map(Duration::from_micros),
        })
    }
}

/// The slots in a node's own line of CLUSTER NODES: those that it serves, such as `0-5460 7000`, and
/// migrating ones, such as `[93-<-id]`.
fn own_slots(table: &str) -> Option<(u64, u64)> {
    let is_own = |line: &&str| {
        let flags = line.split(' ').nth(2).unwrap_or_default();
        flags.split(',').any(|flag| flag == "myself")
    };
    let (mut served, mut moving) = (0, 0);
    for slots in table.lines().find(is_own)?.split_whitespace().skip(8) {
        if slots.starts_with('[') {
            moving += 1;
            continue;
        }
        let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        served += last.checked_sub(first)? + 1;
    }
    Some((served, moving))
}

/// The field `name` of a value in the form `calls=1,usec=2`.
fn field<'v>(value: &'v str, name: &str) -> Option<&'v str> {
    value
        .split(',')
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// `prefix` with the special characters of glob patterns escaped.
fn escaped(prefix: &str) -> String {
    let mut out = String::with_capacity(prefix.len());
    for c in prefix.chars() {
        if "*?[]\\^".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests;
