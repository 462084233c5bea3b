//! `loadline completions`, and the manual pages: both generated from the definition of the command line.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::args::{Cli, CompletionsArgs, ManArgs, ShellArg};
use crate::exit::Failure;
use crate::files;

pub(super) fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let shell = match args.shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "loadline", &mut script);
    files::print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for each public command.
pub(super) fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command();
    command.build();
    clap_mangen::generate_to(command, &args.dir).map_err(|error| {
        let dir = args.dir.display();
        Failure::bad_file(format!("{dir}: cannot write the manual pages: {error}."))
    })?;
    Ok(ExitCode::SUCCESS)
}
