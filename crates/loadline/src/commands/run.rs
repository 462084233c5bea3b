//! `loadline run`: measures targets.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context;
use loadline_load::Control;
use loadline_load::runner::{self, Event, Measured, Rounds, Subject};
use loadline_measure::doctor::Evidence;
use loadline_measure::record::{Record, Run};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::args::RunArgs;
use crate::descriptors;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::fingerprint;
use crate::link;
use crate::plan::{self, Case, Plan, Surroundings};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::recording;
use crate::secret;
use crate::subjects::{Opened, Watch, failure};

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve(args, &Surroundings::look())?;
    if args.dry_run {
        files::print(&plan.to_text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let printer = Printer::new(&args.display);
    let control = Control {
        interrupt: interrupt()?,
        ..Control::default()
    };
    let record = measure(&plan, &printer, &control)?;
    plan.outputs.write(&record)?;
    if !printer.quiet && !plan.outputs.use_stdout() {
        files::print(&loadline_report::text(&record, &printer.text_options()))?;
    }
    exit_code(&record)
}

/// Set when the run is to end: Ctrl-C, or a polite kill.
pub(super) fn interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .context("signals cannot be caught")?;
    }
    Ok(flag)
}

pub(super) fn exit_code(record: &Record) -> anyhow::Result<ExitCode> {
    if record.run.cut_short {
        return Ok(Exit::Interrupted.into());
    }
    let errors = record.errors();
    if errors > 0 {
        let kinds: Vec<String> = record
            .cases
            .iter()
            .flat_map(|case| {
                case.errors.iter().map(|(kind, count)| {
                    format!(
                        "{count} {kind} in {}, {}",
                        case.subject.name, case.scenario.workload
                    )
                })
            })
            .collect();
        return Err(Failure::unavailable(format!("{errors} operations failed: {}.\nThe figures count them, so they are no measure of success.", kinds.join("; "))).into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the targets, measures every case on all of them, and puts the record together. Keys are
/// removed whatever happens in between.
fn measure(plan: &Plan, printer: &Printer, control: &Control) -> Result<Record, Failure> {
    let begun = Instant::now();
    let most = plan
        .cases
        .iter()
        .map(|case| u64::from(case.connections))
        .max()
        .unwrap_or(0);
    descriptors::make_room(most * plan.targets.len() as u64)?;
    let run_id = plan::new_run_id();
    let mut record = Record::new(
        header(&run_id, plan.seed, plan.to_json()),
        fingerprint::read(),
    );
    let mut opened = plan
        .targets
        .iter()
        .map(|target| Opened::open(target, plan))
        .collect::<Result<Vec<_>, _>>()?;
    record.environment.servers = opened.iter_mut().map(fingerprint::server).collect();
    record.links = opened.iter().filter_map(Opened::link).cloned().collect();
    record.doctor = record.links.iter().filter_map(link::finding).collect();
    let blocks = opened.len() * plan.cases.len() * plan.rounds as usize;
    let progress = Progress::start(printer, blocks as u64);
    let mut result = Ok(());
    for case in &plan.cases {
        result = measure_case(
            case,
            plan,
            &run_id,
            &mut opened,
            control,
            &progress,
            &mut record,
        );
        if result.is_err() || control.interrupted() {
            break;
        }
    }
    progress.finish();
    let cleaned = opened
        .iter_mut()
        .map(|target| target.clean_up(&run_id))
        .collect::<Vec<_>>();
    result?;
    cleaned.into_iter().collect::<Result<Vec<_>, _>>()?;
    fingerprint::noise(&mut record);
    record.run.cut_short = control.interrupted();
    record.run.duration_ns = Some(begun.elapsed().as_nanos() as u64);
    recording::conclude(&mut record);
    Ok(record)
}

/// What stands at the head of a record.
pub(super) fn header(run_id: &str, seed: u64, plan: serde_json::Value) -> Run {
    Run {
        id: run_id.to_owned(),
        started_at: jiff::Timestamp::now().to_string(),
        command: secret::command_line(std::env::args_os()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed,
        plan,
        cut_short: false,
        duration_ns: None,
    }
}

fn measure_case(
    case: &Case,
    plan: &Plan,
    run_id: &str,
    opened: &mut [Opened],
    control: &Control,
    progress: &Progress,
    record: &mut Record,
) -> Result<(), Failure> {
    for target in opened.iter_mut() {
        progress.say(&format!("{}: loading {}", case.name, target.name));
        target.load(case, run_id, plan.seed, control)?;
    }
    if control.interrupted() {
        return Ok(());
    }
    let watches: Vec<Watch> = opened.iter_mut().map(Opened::watch).collect();
    let (begun, stalled_us) = (Instant::now(), fingerprint::cpu_stall_us());
    let measured = run_rounds(case, plan, run_id, opened, control, progress)?;
    let pressure = cpu_pressure(begun, stalled_us);
    let around: Vec<Evidence> = opened
        .iter_mut()
        .zip(&watches)
        .map(|(target, watch)| Evidence {
            cpu_pressure: pressure,
            ..target.seen_since(watch)
        })
        .collect();
    add_cases(case, plan, opened, &measured, around, record)
}

fn run_rounds(
    case: &Case,
    plan: &Plan,
    run_id: &str,
    opened: &[Opened],
    control: &Control,
    progress: &Progress,
) -> Result<Vec<Measured>, Failure> {
    let mut subjects = opened
        .iter()
        .map(|target| target.subject(case, run_id, plan.seed))
        .collect::<Result<Vec<_>, _>>()?;
    let names: Vec<&str> = opened.iter().map(|target| target.name.as_str()).collect();
    let rounds = Rounds {
        stops: (0..plan.rounds)
            .map(|round| case.block(round, plan.rounds))
            .collect(),
        warmup: plan.warmup,
        seed: plan.seed,
    };
    let mut subjects: Vec<&mut dyn Subject> = subjects
        .iter_mut()
        .map(|subject| &mut **subject as &mut dyn Subject)
        .collect();
    progress.say(&format!("{}: measuring {}", case.name, names.join(" and ")));
    runner::run(&mut subjects, &rounds, control, &mut |event| match event {
        Event::WarmUp { subject } => {
            progress.begin(&format!("{}: {} is warmed up", case.name, names[subject]));
        }
        Event::Begin { subject, round } => progress.begin(&format!(
            "{}: {}, round {} of {}",
            case.name,
            names[subject],
            round + 1,
            plan.rounds
        )),
        Event::End => progress.step(),
    })
    .map_err(|error| failure(&case.name, &error))
}

/// The share of the time since `begun` in which some task waited for a CPU; `stalled_us` was read
/// then.
fn cpu_pressure(begun: Instant, stalled_us: Option<u64>) -> Option<f64> {
    let stalled_us = fingerprint::cpu_stall_us()?.checked_sub(stalled_us?)?;
    Some(stalled_us as f64 / begun.elapsed().as_micros().max(1) as f64)
}

fn add_cases(
    case: &Case,
    plan: &Plan,
    opened: &[Opened],
    measured: &[Measured],
    around: Vec<Evidence>,
    record: &mut Record,
) -> Result<(), Failure> {
    let first = record.cases.len();
    for ((target, measured), around) in opened.iter().zip(measured).zip(around) {
        if measured.blocks.is_empty() {
            continue;
        }
        let entry = recording::case(case, plan, target, measured);
        record
            .doctor
            .extend(recording::examine(&entry, case, measured, around));
        record.cases.push(entry);
    }
    let last = record.cases.len();
    for b in first + 1..last {
        recording::compare(record, first, b)
            .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    }
    Ok(())
}
