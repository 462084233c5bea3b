//! `loadline`: a performance lab for Redis and for everything a team uses around it or instead of
//! it. See `docs/architecture.md` for the layout.

mod args;
mod codec;
mod commands;
mod competition;
mod descriptors;
mod diagnosis;
mod exit;
mod files;
mod fingerprint;
mod framing;
mod interrupt;
mod object;
mod pinning;
mod plan;
mod printer;
mod progress;
mod recording;
mod secret;
mod session;
mod slowdown;
mod spelling;
mod subjects;
mod suggest;
mod suites;
mod systems;
mod trace;
mod units;
mod workload;

use std::ffi::OsString;
use std::panic;
use std::process::ExitCode;

use args::Cli;
use exit::Exit;

fn main() -> ExitCode {
    let words = meant(std::env::args_os().collect());
    let cli = match Cli::read(words.clone()) {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&words, &error),
    };
    // A panic prints its own report where it happens; what is left is to end with the right code.
    match panic::catch_unwind(|| commands::dispatch(cli.command)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            files::complain(&format!("{error:#}"));
            exit::of(&error).into()
        }
        Err(_) => {
            files::complain(
                "This is a fault of loadline itself, and not of what was measured. Please report it with the lines above.",
            );
            Exit::Internal.into()
        }
    }
}

/// Meaning of the words on the command line: without any, `run` with the default cases.
fn meant(words: Vec<OsString>) -> Vec<OsString> {
    match words.len() {
        0 | 1 => vec!["loadline".into(), "run".into()],
        _ => words,
    }
}

/// Help and version are answers; anything else that clap says is a usage error.
fn not_parsed(words: &[OsString], error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        // Clap quotes what it cannot read, and that may be a URL with a password: one with blanks or quotes in it
        // is known only by the whole word.
        let text = words
            .iter()
            .fold(args::refusal(words, error), |text, word| {
                let word = word.to_string_lossy();
                if word.contains("://") {
                    text.replace(&*word, &secret::redact_argument(&word))
                } else {
                    text
                }
            });
        files::write_error(&secret::redact(&text));
        Exit::Usage.into()
    } else {
        match files::print(&error.render().to_string()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.exit().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_arguments_run_the_default_cases() {
        let cli = Cli::read(meant(vec!["loadline".into()])).unwrap();
        let args::Command::Run(run) = cli.command else {
            panic!("{:?}", cli.command)
        };
        assert!(run.targets.is_empty() && run.load.workload.is_empty());
        assert_eq!(meant(vec!["loadline".into(), "--help".into()]).len(), 2);
    }
}
