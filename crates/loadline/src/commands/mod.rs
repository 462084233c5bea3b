//! The commands: one file each. This file lists them and dispatches.

mod agent;
mod baseline;
mod capacity;
mod clean;
mod client;
mod clients;
mod compare;
mod completions;
mod connections;
mod doctor;
mod driver;
mod engine;
mod engines;
mod failover;
mod gate;
mod joint;
mod judging;
mod link;
mod manifest;
mod merge;
mod modes;
mod prove;
mod report;
mod run;
mod serve;
mod store;
mod tiers;

use std::process::ExitCode;

use crate::args::Command;
use crate::plan::Surroundings;
use crate::suites;
use crate::systems::servers;

/// Executes a command.
pub(crate) fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Capacity(args) => capacity::run(&args),
        Command::Clean(args) => clean::run(&args),
        Command::Modes(args) => modes::run(&args),
        Command::Tiers(args) => tiers::run(&args),
        Command::Engines(args) => engines::run(&args),
        Command::Clients(args) => clients::run(&args),
        Command::Failover(args) => failover::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Compare(args) => compare::run(*args),
        Command::Baseline(args) => baseline::run(args),
        Command::Gate(args) => gate::run(&args),
        Command::Prove(args) => prove::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Agents(args) => manifest::run(args),
        Command::Merge(args) => merge::run(&args),
        Command::Link(args) => link::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Embedded(args) => serve::run_slowed(&args),
        Command::Store(args) => store::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => completions::man(&args),
        Command::Client(args) => client::run(&args),
        Command::Connections => connections::run(),
        Command::Driver => driver::run(),
        Command::Engine(args) => engine::run(&args),
        Command::Tidy(args) => {
            servers::tidy(&args.name)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Child(args) => {
            let random = args.random.as_deref();
            let disk = args.disk.as_deref();
            Err(servers::become_child(args.parent, random, args.memory, disk, &args.program).into())
        }
    }
}

/// The environment of a plan, with all suites.
fn surroundings() -> Surroundings {
    Surroundings::detect(&suites::ALL)
}
