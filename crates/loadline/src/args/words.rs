//! The words of a command that its agents, or later runs of its baseline, repeat.

use clap::{ArgAction, ArgMatches, Args};

use super::{
    AgentsArgs, AgentsCommand, AgentsCommandArgs, BaselineArgs, BaselineCommand, BaselineSaveArgs,
    CapacityArgs, Command, GateArgs, ManifestArgs, ManifestCommand, MeasureArgs,
};

/// Flags that the agents of a launcher get apart from those that say what is measured. None names a file.
const FURTHER: [&str; 16] = [
    "critical",
    "degraded",
    "force",
    "join-timeout",
    "lease",
    "limit",
    "max-time",
    "policy",
    "quiet",
    "runs",
    "slo",
    "strict",
    "verbose",
    "warning",
    "work-critical",
    "work-warning",
];

impl Command {
    /// Keeps the words that were typed.
    pub(super) fn note_words(&mut self, matches: &ArgMatches) {
        match self {
            Self::Run(run) => note(&mut run.agents, matches),
            Self::Capacity(capacity) => note(&mut capacity.agents, matches),
            Self::Compare(compare) => note(&mut compare.agents, matches),
            Self::Baseline(baseline) => of_baseline(baseline, matches),
            Self::Agents(AgentsCommandArgs {
                command: AgentsCommand::Manifest(manifest),
            }) => {
                if let Some((_, of_manifest)) = matches.subcommand() {
                    of_agents(manifest, of_manifest);
                }
            }
            _ => {}
        }
    }
}

fn of_baseline(baseline: &mut BaselineArgs, matches: &ArgMatches) {
    match (&mut baseline.command, matches.subcommand()) {
        (BaselineCommand::Save(save), Some((_, matches))) => note(&mut save.agents, matches),
        (BaselineCommand::Add(add), Some((_, matches))) => note(&mut add.agents, matches),
        _ => {}
    }
}

fn of_agents(manifest: &mut ManifestArgs, matches: &ArgMatches) {
    let matches = matches.subcommand().map_or(matches, |(_, matches)| matches);
    match &mut manifest.command {
        None => note(&mut manifest.measured.agents, matches),
        Some(ManifestCommand::Capacity(capacity)) => note(&mut capacity.agents, matches),
        Some(ManifestCommand::Compare(compare)) => note(&mut compare.agents, matches),
        Some(ManifestCommand::Baseline(baseline)) => of_baseline(baseline, matches),
        Some(ManifestCommand::Gate(gate)) => note(&mut gate.agents, matches),
    }
}

fn note(agents: &mut AgentsArgs, matches: &ArgMatches) {
    agents.words = typed::<MeasureArgs>(matches);
    let mut further = typed::<GateArgs>(matches);
    further.extend(typed::<CapacityArgs>(matches));
    further.extend(typed::<BaselineSaveArgs>(matches));
    further.retain(|word| {
        let name = word.trim_start_matches("--");
        let name = name.split_once('=').map_or(name, |(name, _)| name);
        FURTHER.contains(&name)
    });
    further.sort_unstable();
    further.dedup();
    agents.further = further;
}

/// The flags of `A` in `matches`, as they would be typed again.
fn typed<A: Args>(matches: &ArgMatches) -> Vec<String> {
    let all = A::augment_args(clap::Command::new("words"));
    let mut words = Vec::new();
    for arg in all.get_arguments() {
        let id = arg.get_id().as_str();
        // A command can have a part of these arguments.
        let typed = matches.try_contains_id(id).is_ok()
            && matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
        let Some(long) = arg.get_long().filter(|_| typed) else {
            continue;
        };
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            words.push(format!("--{long}"));
            continue;
        }
        for value in matches.get_raw(id).into_iter().flatten() {
            words.push(format!("--{long}={}", value.to_string_lossy()));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags that no agent of a launcher gets as they were typed: those by which agents meet, which the launcher states itself, and
    /// those about files and the terminal of the machine where the manifest is printed.
    const KEPT_BACK: [&str; 13] = [
        "agents",
        "color",
        "coordinator",
        "csv",
        "dry-run",
        "html",
        "json",
        "junit",
        "markdown",
        "profile",
        "rank",
        "run",
        "secret-file",
    ];

    fn flags<A: Args>() -> Vec<String> {
        let all = A::augment_args(clap::Command::new("words"));
        let flags = all.get_arguments().filter_map(|arg| arg.get_long());
        flags.map(str::to_owned).collect()
    }

    #[test]
    fn every_flag_of_a_command_with_agents_is_passed_on_or_kept_back_on_purpose() {
        let measured = flags::<MeasureArgs>();
        let all = [
            flags::<GateArgs>(),
            flags::<CapacityArgs>(),
            flags::<BaselineSaveArgs>(),
        ];
        let mut rest = all.concat();
        rest.retain(|flag| !measured.contains(flag) && !FURTHER.contains(&flag.as_str()));
        rest.sort_unstable();
        rest.dedup();
        assert_eq!(rest, KEPT_BACK);
    }
}
