//! `loadline engines`: compares engines of one class of durability with each other and with Redis behind a socket.

use std::path::PathBuf;
use std::process::ExitCode;

use loadline_measure::Record;
use loadline_measure::doctor::{EnginesSetup, batched, examine_engines};
use loadline_measure::engines::{Engines, Footprint, Operation};
use loadline_measure::record::Answer;
use loadline_report::findings;

use super::surroundings;
use crate::args::EnginesArgs;
use crate::diagnosis;
use crate::exit::{Exit, Failure};
use crate::fingerprint;
use crate::plan::{self, EnginesPlan};
use crate::progress::Progress;
use crate::session::{self, Recorded, Session, Shell};
use crate::spelling::{Choice, Durability, Target};
use crate::systems::engines::{self, Data};

/// Memory, disk and recovery of an engine take about as long as this many blocks.
const FOOTPRINT_STEPS: u64 = 40;

pub(super) fn run(args: &EnginesArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve_engines(args, &surroundings())?;
    session::execute(
        "engines",
        &args.results,
        &plan.describe(),
        |shell| measure(&plan, shell),
        |_, _, _| {},
    )
}

/// Measures the engines, and adds the conclusions.
fn measure(plan: &EnginesPlan, shell: &Shell) -> Result<Recorded, Failure> {
    check_directories(plan)?;
    let mut footprints = Vec::new();
    let mut recorded = session::measure_stages(
        &plan.base,
        &plan.stages,
        plan.to_json(),
        shell,
        |stage| match plan.takes_footprints(stage) {
            true => stage.targets.len() as u64 * FOOTPRINT_STEPS,
            false => 0,
        },
        |session, progress| match plan.takes_footprints(session.plan) {
            true => take_footprints(session, progress, &mut footprints),
            false => Ok(()),
        },
    )?;
    let record = &mut recorded.record;
    record.findings.extend(plan.left_out.iter().cloned());
    let engines = Engines {
        reference: plan.reference.clone(),
        memory_bytes: Some(plan.memory_bytes),
        live_bytes: Some(plan.live_bytes()),
        transaction_per_read: plan.opening_transactions(),
        operations: Operation::of_cases(&record.cases),
        footprints,
        is_writeup: plan.cache.is_some(),
        ..Engines::default()
    };
    let setup = setup(plan, record, &engines);
    record.doctor.extend(findings(examine_engines(&setup)));
    record.answer = Answer::Engines(engines);
    Ok(recorded.refuse_errors())
}

/// Fails now, and not after minutes, if the directory for the files cannot be used.
fn check_directories(plan: &EnginesPlan) -> Result<(), Failure> {
    let targets = plan.stages.iter().flat_map(|stage| &stage.targets);
    for target in targets {
        if let Target::Engine(engine) = target {
            drop(engines::directory(engine)?);
        }
    }
    Ok(())
}

/// The input of the doctor: the disk, the data, the build, and which engines are behind a socket.
fn setup(plan: &EnginesPlan, record: &Record, engines: &Engines) -> EnginesSetup {
    let mut setup = EnginesSetup {
        live_bytes: plan.live_bytes(),
        memory_bytes: Some(plan.memory_bytes),
        spare_memory_bytes: fingerprint::spare_memory(),
        is_debug: cfg!(debug_assertions),
        socket_share: engines.socket_share_of_reads(&record.cases),
        batched: batched(&record.cases, &engines.operations),
        ..EnginesSetup::default()
    };
    let mut dirs: Vec<PathBuf> = Vec::new();
    for stage in &plan.stages {
        for target in &stage.targets {
            let Target::Engine(engine) = target else {
                continue;
            };
            if engine.choice == Choice::Null {
                continue;
            }
            let names = if engine.choice.is_server() {
                &mut setup.served
            } else {
                &mut setup.called
            };
            if !names.contains(&engine.to_string()) {
                names.push(engine.to_string());
            }
            if engine.durability != Durability::Memory && !dirs.contains(&engine.parent()) {
                dirs.push(engine.parent());
            }
            setup.syncs |= matches!(
                engine.durability,
                Durability::Interval(_) | Durability::Always
            );
        }
    }
    setup.places = dirs.iter().map(|dir| diagnosis::place(dir)).collect();
    setup
}

/// Measures memory, disk and recovery of each engine of the stage.
fn take_footprints(
    session: &mut Session<'_>,
    progress: &Progress,
    footprints: &mut Vec<Footprint>,
) -> Result<(), Failure> {
    let (plan, control) = (session.plan, &session.shell.control);
    let Some(case) = plan.cases.first() else {
        return Ok(());
    };
    let data = Data {
        keys: case.keys,
        value_size: case.value_size.clone(),
        seed: plan.seed,
    };
    for target in &plan.targets {
        let Target::Engine(engine) = target else {
            continue;
        };
        if control.interrupted() {
            break;
        }
        progress.say(&format!(
            "memory and disk of {engine}, {}",
            engine.durability
        ));
        match engines::footprint(engine, &data, &control.interrupt) {
            Ok(footprint) => footprints.extend(footprint),
            Err(failure) if failure.exit() == Exit::Interrupted => break,
            // The times of this engine were measured, and the other engines can still be measured.
            Err(failure) => session.record.findings.push(failure.to_string()),
        }
        progress.advance(FOOTPRINT_STEPS);
    }
    Ok(())
}
