//! The settings of a running server, for servers of our own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Child;
use crate::exit::Failure;
use crate::plan::{Plan, TlsFiles};
use crate::spelling::{
    Address, Configuration, Copied, Program, Server, Setting, Target, is_left_out,
};
use crate::suggest;
use crate::systems::admin::Admin;
use crate::systems::connect::Endpoint;
use crate::systems::tls;

/// Settings by name.
type Settings = BTreeMap<String, String>;

/// Settings whose values are groups of words, each group on a line of its own, with the words in a group.
const GROUPED: [(&str, usize); 2] = [("save", 2), ("client-output-buffer-limit", 4)];
/// Settings whose values are several words on one line.
const SEVERAL_WORDS: [&str; 3] = [
    "latency-tracking-info-percentiles",
    "shutdown-on-sigint",
    "shutdown-on-sigterm",
];
/// Settings that servers of our own have without a configuration, in which they differ from the defaults of the program.
const STATED: [&str; 2] = ["appendonly", "save"];

/// A server and its settings.
#[derive(Debug, Default)]
struct Known {
    version: Option<String>,
    settings: Settings,
}

/// The settings of a running server that a program with its defaults lacks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Difference {
    /// Settings to give to the program.
    settings: Settings,
    /// Names of those that are ours.
    left_out: Vec<String>,
    /// Names that the program does not know.
    unknown: Vec<String>,
}

/// Reads the settings of the running server that `plan` names, if it names one, and gives them to its targets. Returns
/// sentences about what they have and what was left out.
///
/// # Errors
/// If the server does not answer or refuses CONFIG GET, if a program does not start, and a usage error for a change of a
/// setting that the program does not have.
pub(crate) fn copy_settings(
    plan: &mut Plan,
    interrupt: &AtomicBool,
) -> Result<Vec<String>, Failure> {
    let Some(server) = plan.settings_of.clone() else {
        return Ok(Vec::new());
    };
    let theirs = known(&endpoint(server, plan)?).map_err(|failure| {
        failure.followed_by(
            "Managed servers often refuse CONFIG. Write the settings into a file, and compare spawn:redis-server?config=FILE.",
        )
    })?;
    let mut sentences = Vec::new();
    let mut ours: Option<(Program, Known)> = None;
    for target in &mut plan.targets {
        let Target::Spawn(program) = target else {
            continue;
        };
        let Some(Configuration::Copied(copied)) = &mut program.config else {
            continue;
        };
        let plain = Program {
            path: program.path.clone(),
            config: None,
        };
        let defaults = match ours.take().filter(|(known, _)| *known == plain) {
            Some((_, known)) => known,
            None => {
                let child = Child::spawn(&plain, None, interrupt)?;
                let known = known(&Endpoint::local(child.server()))?;
                let difference = difference(&theirs.settings, &known.settings);
                sentences.extend(difference.sentences(&copied.of, &plain, &theirs, &known));
                known
            }
        };
        give(copied, &theirs.settings, &defaults.settings)?;
        ours = Some((plain, defaults));
    }
    Ok(sentences)
}

fn endpoint(server: Server, plan: &Plan) -> Result<Endpoint, Failure> {
    let files: &TlsFiles = &plan.tls;
    let trust = match &server.address {
        Address::Tcp { .. } if server.tls => tls::trust(files, &[])?,
        _ => Default::default(),
    };
    Ok(Endpoint::new(server, plan.protocol, trust))
}

fn known(endpoint: &Endpoint) -> Result<Known, Failure> {
    let mut admin = Admin::open(endpoint)?;
    let info = admin.info(&["server"])?;
    Ok(Known {
        version: info.get("redis_version").map(ToOwned::to_owned),
        settings: admin.settings()?,
    })
}

/// Completes `copied`.
///
/// # Errors
/// A usage error for a change of a setting that is not among `ours`.
fn give(copied: &mut Copied, theirs: &Settings, ours: &Settings) -> Result<(), Failure> {
    let unknown = |change: &&Setting| !ours.contains_key(&change.name);
    if let Some(change) = copied.changes.iter().find(unknown) {
        let hint = suggest::hint(&change.name, ours.keys().map(String::as_str));
        return Err(Failure::usage(format!(
            "--like-config: the program here has no setting `{}`{hint}",
            change.name
        )));
    }
    let settings = difference(theirs, ours).settings;
    copied.text = Arc::from(text(&settings, &copied.changes).into_bytes());
    Ok(())
}

/// Compares the settings of a server with those of a program of ours that has no configuration.
fn difference(theirs: &Settings, ours: &Settings) -> Difference {
    let mut found = Difference::default();
    for name in STATED {
        let value = ours.get(name).cloned().unwrap_or_default();
        found.settings.insert(name.to_owned(), value);
    }
    for (name, value) in theirs {
        match ours.get(name) {
            Some(own) if own == value => {}
            _ if is_left_out(name) => found.left_out.push(name.clone()),
            None => found.unknown.push(name.clone()),
            Some(_) => drop(found.settings.insert(name.clone(), value.clone())),
        }
    }
    found
}

impl Difference {
    fn sentences(
        &self,
        of: &str,
        program: &Program,
        theirs: &Known,
        ours: &Known,
    ) -> impl Iterator<Item = String> {
        let is_other = |name: &&String| ours.settings.get(*name) != self.settings.get(*name);
        let other: Vec<&str> = self
            .settings
            .keys()
            .filter(is_other)
            .map(String::as_str)
            .collect();
        let have = if other.is_empty() {
            format!("{of} has the settings that {program} has when Loadline starts it.")
        } else {
            let names = other.join(", ");
            format!("Settings of {of} that {program} gets: {names}.")
        };
        let left_out = (!self.left_out.is_empty()).then(|| {
            format!(
                "Left out, because they concern its place, logins, TLS, replication or clustering: {}.",
                self.left_out.join(", ")
            )
        });
        let unknown = (!self.unknown.is_empty()).then(|| {
            let names = self.unknown.join(", ");
            format!("Left out, because {program} does not know them: {names}.")
        });
        let versions = match (&theirs.version, &ours.version) {
            (Some(theirs), Some(ours)) if theirs != ours => Some(format!(
                "{of} is of version {theirs}; {program} is of version {ours}."
            )),
            _ => None,
        };
        [Some(have), left_out, unknown, versions]
            .into_iter()
            .flatten()
    }
}

/// The settings as a configuration file; `changes` come last, because an older name of a setting can be among the
/// settings.
fn text(settings: &Settings, changes: &[Setting]) -> String {
    let is_changed = |name: &str| changes.iter().any(|change| change.name == name);
    let kept = settings.iter().filter(|(name, _)| !is_changed(name));
    let pairs = kept.map(|(name, value)| (name.as_str(), value.as_str()));
    let changed = changes
        .iter()
        .map(|change| (change.name.as_str(), change.value.as_str()));
    let lines = pairs
        .chain(changed)
        .flat_map(|(name, value)| lines(name, value));
    lines.collect()
}

fn lines(name: &str, value: &str) -> Vec<String> {
    let words: Vec<&str> = value.split_ascii_whitespace().collect();
    let group = GROUPED.iter().find(|(known, _)| *known == name);
    match group {
        Some((_, size)) if !words.is_empty() => words
            .chunks(*size)
            .map(|group| format!("{name} {}\n", group.join(" ")))
            .collect(),
        _ if SEVERAL_WORDS.contains(&name) && !words.is_empty() => {
            vec![format!("{name} {}\n", words.join(" "))]
        }
        _ => vec![format!("{name} {}\n", quoted(value))],
    }
}

/// `value` as a word of a configuration file.
fn quoted(value: &str) -> String {
    let mut out = String::from('"');
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect()
    }

    #[test]
    fn differences_are_given_and_places_are_left_out() {
        let theirs = settings(&[
            ("maxmemory", "9"),
            ("hz", "10"),
            ("port", "6379"),
            ("requirepass", "hunter2"),
            ("min-replicas-to-write", "1"),
            ("server-cpulist", "8-9"),
            ("new-setting", "1"),
        ]);
        let ours = settings(&[
            ("maxmemory", "0"),
            ("hz", "10"),
            ("port", "1"),
            ("appendonly", "no"),
            ("save", ""),
        ]);
        let found = difference(&theirs, &ours);
        let given = [("appendonly", "no"), ("maxmemory", "9"), ("save", "")];
        assert_eq!(found.settings, settings(&given));
        let left_out = [
            "min-replicas-to-write",
            "port",
            "requirepass",
            "server-cpulist",
        ];
        assert_eq!(found.left_out, left_out);
        assert_eq!(found.unknown, ["new-setting"]);
    }

    #[test]
    fn changes_come_last_and_replace_lines() {
        let settings = settings(&[
            ("save", "3600 1 300 100"),
            ("proc-title-template", "{title} \"x\"\n"),
            ("client-output-buffer-limit", "normal 0 0 0 slave 1 2 3"),
            ("latency-tracking-info-percentiles", "50 99"),
        ]);
        let change = Setting::parse("Save=").unwrap();
        let common = "client-output-buffer-limit normal 0 0 0\nclient-output-buffer-limit slave 1 2 3\n\
                      latency-tracking-info-percentiles 50 99\nproc-title-template \"{title} \\\"x\\\"\\x0a\"\n";
        assert_eq!(
            text(&settings, &[]),
            format!("{common}save 3600 1\nsave 300 100\n")
        );
        assert_eq!(text(&settings, &[change]), format!("{common}save \"\"\n"));
    }
}
