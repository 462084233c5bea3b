//! What was typed and cannot be: what the parser of the command line says, in our form.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};

use super::Cli;

/// Commands that the documents speak of and that do not exist yet.
const NOT_BUILT: [&str; 4] = ["tiers", "engines", "clients", "failover"];

/// What is wrong with `words`, which the parser refused with `error`: one line that says it, and one
/// that says where to look.
pub(crate) fn refusal(words: &[OsString], error: &Error) -> String {
    let (path, command) = meant(words);
    let reason = match error.kind() {
        ErrorKind::InvalidSubcommand => unknown_command(&path, &command, error),
        ErrorKind::UnknownArgument => unknown_argument(error),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            format!("`{path}` needs a command: {}.", names(&command))
        }
        _ => first_paragraph(error),
    };
    format!("loadline: {reason}\n`{path} --help` says what can be written.")
}

/// How far `words` name a command, as it is written, and that command.
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
    if path == "loadline" && NOT_BUILT.contains(&name) {
        return format!("`loadline {name}` is not built yet.");
    }
    format!(
        "there is no command `{name}`; there are {}.",
        names(command)
    )
}

fn unknown_argument(error: &Error) -> String {
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let digits = argument.strip_prefix('-').unwrap_or_default();
    if digits.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("`{argument}`: nothing here can be negative.");
    }
    let suggestion = text(error, ContextKind::SuggestedArg)
        .map(|name| format!("; is `{name}` meant?"))
        .unwrap_or_else(|| ".".into());
    format!("there is no argument `{argument}` here{suggestion}")
}

/// What the parser says before it goes on to tips and usage, on one line.
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
    let shown = command
        .get_subcommands()
        .filter(|known| !known.is_hide_set());
    shown.map(Command::get_name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        refusal(&words, &Cli::read(words.clone()).unwrap_err())
    }

    #[test]
    fn it_says_what_and_where_to_look_in_two_lines() {
        for (words, said) in [
            (
                &["x", "run", "--ops", "0"][..],
                "loadline: invalid value '0' for '--ops <N>': it must be at least 1.\n`loadline run --help` says what can be written.",
            ),
            (
                &["x", "run", "--color", "blue"],
                "loadline: invalid value 'blue' for '--color <WHEN>' [possible values: auto, always, never].\n`loadline run --help` says what can be written.",
            ),
            (
                &["x", "run", "--ops", "-5"],
                "loadline: `-5`: nothing here can be negative.\n`loadline run --help` says what can be written.",
            ),
            (
                &["x", "run", "--pipline", "5"],
                "loadline: there is no argument `--pipline` here; is `--pipeline` meant?\n`loadline run --help` says what can be written.",
            ),
            (
                &["x", "gate"],
                "loadline: the following required arguments were not provided: <BASELINE>.\n`loadline gate --help` says what can be written.",
            ),
            (
                &["x", "baseline"],
                "loadline: `loadline baseline` needs a command: save, add, show.\n`loadline baseline --help` says what can be written.",
            ),
            (
                &["x", "tiers", "--help"],
                "loadline: `loadline tiers` is not built yet.\n`loadline --help` says what can be written.",
            ),
            (
                &["x", "benchmark"],
                "loadline: there is no command `benchmark`; there are run, capacity, modes, doctor, compare, baseline, gate, prove, clean, report, serve, help.\n`loadline --help` says what can be written.",
            ),
        ] {
            assert_eq!(refused(words), said);
        }
    }
}
