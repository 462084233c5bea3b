//! Usage errors: messages of the parser of the command line, in our form.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};

use super::Cli;
use crate::spelling::Target;
use crate::suggest::closest;

/// Names of the arguments that take a target.
const TARGETS: [&str; 6] = ["TARGET", "A", "CANDIDATE", "ENGINE", "TIER", "TOPOLOGY"];

/// Flags of redis-benchmark, redis-cli and redis-server, and what is written instead in commands that have the argument named
/// second.
const OTHERS: [(&str, &str, &str); 15] = [
    (
        "-a",
        "target",
        "redis://:PASSWORD@HOST:PORT, or --password-file",
    ),
    ("-a", "password-file", "`--password-file`"),
    ("-c", "connections", "`--connections`"),
    ("-d", "value-size", "`--value-size`"),
    ("-n", "ops", "`--ops`"),
    ("-p", "target", "the port in the target: redis://HOST:PORT"),
    ("-p", "listen", "the port in `--listen ADDR:PORT`"),
    ("-P", "pipeline", "`--pipeline`"),
    ("-r", "keys", "`--keys`"),
    ("-t", "workload", "`--workload`"),
    (
        "--host",
        "target",
        "the host in the target: redis://HOST:PORT",
    ),
    ("--bind", "listen", "the address in `--listen ADDR:PORT`"),
    (
        "--port",
        "target",
        "the port in the target: redis://HOST:PORT",
    ),
    ("--port", "listen", "the port in `--listen ADDR:PORT`"),
    (
        "--tls",
        "target",
        "the scheme of the target: rediss://HOST:PORT",
    ),
];

/// Commands without `--agents`, each with the reason.
const ALONE: [(&str, &str); 6] = [
    (
        "modes",
        "the client's calls are measured within one process",
    ),
    ("tiers", "the tiers of a cache belong to one process"),
    ("engines", "engines are measured within one process"),
    (
        "clients",
        "the programs of all clients share the rounds of one machine",
    ),
    (
        "failover",
        "the servers, their faults and the writers share the clock of one machine",
    ),
    ("prove", "the gate is proved on one machine"),
];

/// The message for `words`, which the parser refused with `error`: one line that says what is wrong, and one
/// that says where to look.
pub(crate) fn refusal(words: &[OsString], error: &Error) -> String {
    let (path, command) = meant(words);
    let reason = match error.kind() {
        ErrorKind::InvalidSubcommand => unknown_command(&path, &command, error),
        ErrorKind::UnknownArgument => unknown_argument(&command, error),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            format!("`{path}` needs a command: {}.", names(&command))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => invalid_value(error),
        _ => first_paragraph(error),
    };
    format!("loadline: {reason}\nSee `{path} --help`.")
}

/// The command that `words` name, as it is written, and as it is defined.
fn meant(words: &[OsString]) -> (String, Command) {
    let (mut path, mut command) = ("loadline".to_owned(), Cli::command());
    // A command knows nothing of its own arguments before it is built.
    command.build();
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        let Some(next) = command.find_subcommand(word).cloned() else {
            break;
        };
        path = format!("{path} {word}");
        command = next;
    }
    (path, command)
}

fn unknown_command(path: &str, command: &Command, error: &Error) -> String {
    let name = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
    if path == "loadline" && (name.contains("://") || Target::parse(name).is_ok()) {
        return format!(
            "`{name}` is a target, not a command; to measure it, use `loadline run {name}`."
        );
    }
    match closest(name, visible(command)) {
        Some(meant) => format!("unknown command `{name}`; did you mean `{meant}`?"),
        None => format!(
            "unknown command `{name}`; the commands are {}.",
            names(command)
        ),
    }
}

fn unknown_argument(command: &Command, error: &Error) -> String {
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let digits = argument.strip_prefix('-').unwrap_or_default();
    if digits.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("invalid value `{argument}`: no value can be negative.");
    }
    let alone = ALONE.iter().find(|(name, _)| *name == command.get_name());
    if let Some((name, why)) = alone.filter(|_| argument == "--agents") {
        return format!(
            "--agents: `{name}` has one load generator, because {why}; several execute `run`, `capacity`, `compare`, `baseline` or `gate`."
        );
    }
    let instead = OTHERS
        .iter()
        .find(|(other, needed, _)| *other == argument && has(command, needed));
    if let Some((_, _, ours)) = instead {
        return format!("unknown argument `{argument}`; here, it is {ours}.");
    }
    let meant = text(error, ContextKind::SuggestedArg)
        .filter(|name| closest(argument, [*name]).is_some())
        .map(|name| format!("; did you mean `{name}`?"));
    let meant = meant.unwrap_or_else(|| ".".into());
    format!("unknown argument `{argument}`{meant}")
}

/// Whether `command` has an argument that is written `--name`, or one that takes a target, if that is the name.
fn has(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|argument| {
        let values = argument.get_value_names().unwrap_or_default();
        let takes_target = || values.iter().any(|value| TARGETS.contains(&value.as_str()));
        match name {
            "target" => argument.is_positional() && takes_target(),
            _ => argument.get_long() == Some(name),
        }
    })
}

/// The argument, and what its value is not.
fn invalid_value(error: &Error) -> String {
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let name = argument.split_whitespace().next().unwrap_or_default();
    let value = text(error, ContextKind::InvalidValue).unwrap_or_default();
    let why = match (error.source(), error.get(ContextKind::ValidValue)) {
        (Some(source), _) => source.to_string(),
        (None, Some(ContextValue::Strings(valid))) if !valid.is_empty() => {
            let valid: Vec<String> = valid.iter().map(|one| format!("`{one}`")).collect();
            let (last, others) = valid.split_last().expect("it is not empty");
            let expected = match others {
                [] => last.clone(),
                _ => format!("{} or {last}", others.join(", ")),
            };
            format!("invalid value `{value}`: expected {expected}")
        }
        _ => return first_paragraph(error),
    };
    format!("{name}: {}.", why.trim_end_matches('.'))
}

/// The message of the parser without tips and usage, on one line.
fn first_paragraph(error: &Error) -> String {
    let text = error.render().to_string();
    let lines: Vec<&str> = text
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .map(str::trim)
        .collect();
    let line = lines.join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    format!("{}.", line.trim_end_matches('.'))
}

fn text(error: &Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

fn names(command: &Command) -> String {
    visible(command).collect::<Vec<_>>().join(", ")
}

/// The commands that users are to know.
fn visible(command: &Command) -> impl Iterator<Item = &str> {
    let all = command.get_subcommands();
    all.filter(|known| !known.is_hide_set())
        .map(Command::get_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        refusal(&words, &Cli::read(words.clone()).unwrap_err())
    }

    #[test]
    fn refusal_has_a_cause_and_a_hint_in_two_lines() {
        for (words, said) in [
            (
                &["x", "run", "--ops", "0"][..],
                "loadline: --ops: invalid count `0`: must be at least 1.\nSee `loadline run --help`.",
            ),
            (
                &["x", "run", "--color", "blue"],
                "loadline: --color: invalid value `blue`: expected `auto`, `always` or `never`.\nSee `loadline run --help`.",
            ),
            (
                &["x", "run", "--ops", "-5"],
                "loadline: invalid value `-5`: no value can be negative.\nSee `loadline run --help`.",
            ),
            (
                &["x", "run", "--pipline", "5"],
                "loadline: unknown argument `--pipline`; did you mean `--pipeline`?\nSee `loadline run --help`.",
            ),
            (
                &["x", "tiers", "--redis", "redis://localhost"],
                "loadline: unknown argument `--redis`.\nSee `loadline tiers --help`.",
            ),
            (
                &["x", "gate"],
                "loadline: the following required arguments were not provided: <BASELINE>.\nSee `loadline gate --help`.",
            ),
            (
                &["x", "baseline"],
                "loadline: `loadline baseline` needs a command: save, add, show.\nSee `loadline baseline --help`.",
            ),
            (
                &["x", "failover", "cluster", "--faults", "kill"],
                "loadline: unknown argument `--faults`; did you mean `--fault`?\nSee `loadline failover --help`.",
            ),
            (
                &["x", "capcity"],
                "loadline: unknown command `capcity`; did you mean `capacity`?\nSee `loadline --help`.",
            ),
            (
                &["x", "redis://localhost:6379"],
                "loadline: `redis://localhost:6379` is a target, not a command; to measure it, use `loadline run redis://localhost:6379`.\nSee `loadline --help`.",
            ),
            (
                &["x", "run", "--duration", "abc"],
                "loadline: --duration: invalid duration `abc`: expected a number with a unit, such as `250us`, `10ms` or `2s`.\nSee `loadline run --help`.",
            ),
            (
                &["x", "serve", "--listen", "6379"],
                "loadline: --listen: invalid address `6379`: expected an IP address and a port, such as `127.0.0.1:6379`.\nSee `loadline serve --help`.",
            ),
            (
                &["x", "benchmark"],
                "loadline: unknown command `benchmark`; the commands are run, capacity, modes, tiers, engines, clients, failover, doctor, compare, baseline, gate, prove, clean, report, agent, agents, merge, link, serve, store, completions, help.\nSee `loadline --help`.",
            ),
        ] {
            assert_eq!(refused(words), said);
        }
    }

    #[test]
    fn foreign_flag_is_answered_by_what_the_command_has_instead() {
        for (words, said) in [
            (
                &["x", "run", "-c", "50"][..],
                "loadline: unknown argument `-c`; here, it is `--connections`.\nSee `loadline run --help`.",
            ),
            (
                &["x", "serve", "--port", "6379"],
                "loadline: unknown argument `--port`; here, it is the port in `--listen ADDR:PORT`.\nSee `loadline serve --help`.",
            ),
            (
                &["x", "run", "--port", "6379"],
                "loadline: unknown argument `--port`; here, it is the port in the target: redis://HOST:PORT.\nSee `loadline run --help`.",
            ),
            (
                &["x", "doctor", "-n", "5"],
                "loadline: unknown argument `-n`.\nSee `loadline doctor --help`.",
            ),
        ] {
            assert_eq!(refused(words), said);
        }
    }
}
