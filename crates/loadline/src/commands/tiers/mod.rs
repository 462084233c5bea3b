//! `loadline tiers`: which tier of a cache pays for an object.

mod blocks;
mod load;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use loadline_load::runner::Rounds;
use loadline_load::values::ValueSize;
use loadline_measure::doctor::{self, Class, Evidence, Finding};
use loadline_measure::record::{self, CaseId, Mode, Record, SubjectKind};
use loadline_report::findings;

use super::surroundings;
use crate::args::TiersArgs;
use crate::exit::Failure;
use crate::fingerprint;
use crate::plan::{self, Arm, ArmOp, Case, TierGroup, TierStage, TiersPlan};
use crate::progress::Progress;
use crate::recording::{self, Origin, RanArm, TierFacts};
use crate::session::{self, Recorded, Session, Shell};
use crate::spelling::Target;
use crate::subjects::tier::{Bench, OpenPlace, PartSums, Pool, TierSubject};
use crate::systems::Opened;
use crate::trace;
use crate::units::nanoseconds;
use crate::workload;
use blocks::{Blocks, Detailed};

pub(super) fn run(args: &TiersArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve_tiers(args, &surroundings())?;
    session::execute(
        "tiers",
        &args.results,
        &plan.describe(),
        |shell| {
            let mut facts = TierFacts {
                plan: &plan,
                memory_bytes: 0,
                given: plan.source.given(),
                ran: Vec::new(),
                curve: None,
                load: None,
            };
            let mut recorded = measure(&plan, shell, &mut facts)?;
            recording::conclude_tiers(&mut recorded.record, &facts);
            Ok(recorded.refuse_errors())
        },
        |_, _, _| {},
    )
}

fn measure(
    plan: &TiersPlan,
    shell: &Shell,
    facts: &mut TierFacts<'_>,
) -> Result<Recorded, Failure> {
    session::record(shell, &plan.base, plan.to_json(), |session| {
        session.with_targets(|session, opened| {
            let blocks: usize = plan
                .stages
                .iter()
                .map(|stage| stage.arms.len() * rounds_of(plan, stage) as usize)
                .chain(
                    plan.load
                        .iter()
                        .map(|load| Walk::load_blocks(load, plan.places.len())),
                )
                .sum();
            let progress = Arc::new(session.progress(blocks as u64));
            progress.say("making the objects");
            let case = &plan.base.cases[0];
            let pool = Arc::new(Pool::make(&plan.source, plan.objects, plan.base.seed)?);
            facts.memory_bytes = pool.object(0).bytes();
            if let Some(trace) = &plan.trace {
                progress.say(&format!("following {}", trace.display()));
                facts.curve = Some(trace::follow(trace, facts.memory_bytes)?);
            }
            let places = places(plan, opened, session)?;
            let walk = Walk {
                plan,
                opened,
                bench: Bench {
                    pool,
                    places: Arc::new(places),
                    prefix: case.prefix(&session.run_id),
                    seed: plan.base.seed,
                },
                progress: Arc::clone(&progress),
            };
            for stage in &plan.stages {
                if shell.interrupted() {
                    break;
                }
                let machine = fingerprint::Counters::read();
                walk.stage(stage, session, &mut facts.ran)?;
                note_machine(&mut session.record, stage.group.name(), &machine);
            }
            if let Some(load) = &plan.load {
                let machine = fingerprint::Counters::read();
                let (ran, broken) = walk.load(load, session)?;
                facts.load = ran;
                note_machine(&mut session.record, "load", &machine);
                broken.map_or(Ok(()), Err)?;
            }
            progress.finish();
            Ok(())
        })
    })
}

/// Opens the paths to all tiers.
fn places(
    plan: &TiersPlan,
    opened: &[Opened],
    session: &mut Session<'_>,
) -> Result<Vec<OpenPlace>, Failure> {
    let mut places = Vec::with_capacity(plan.places.len());
    for place in &plan.places {
        let place = OpenPlace::open(place, &opened[place.target], &plan.base)?;
        if let Some(link) = place.link() {
            session.record.links.push(link.clone());
            session
                .record
                .doctor
                .extend(findings(doctor::examine_link(link)));
        }
        places.push(place);
    }
    Ok(places)
}

/// Adds what the machine did during a stage: tasks that waited for a CPU, and CPU time that the host took.
fn note_machine(record: &mut Record, stage: &str, machine: &fingerprint::Counters) {
    let observed = machine.since();
    session::note_steal(record, &observed);
    let evidence = Evidence::of_scope(stage.to_owned(), 0, observed);
    let found = findings(doctor::examine(&evidence)).into_iter();
    let of_machine = |finding: &Finding| finding.rule.class() == Class::Machine;
    record.doctor.extend(found.filter(of_machine));
}

/// The rounds of a stage: those without a verdict have half as many.
fn rounds_of(plan: &TiersPlan, stage: &TierStage) -> u32 {
    if matches!(stage.group, TierGroup::Tiers | TierGroup::Reproduce) {
        plan.base.rounds
    } else {
        plan.base.rounds.div_ceil(2)
    }
}

impl Detailed for TierSubject {
    type Details = PartSums;

    fn take_details(&mut self) -> Option<PartSums> {
        self.take_parts()
    }
}

/// The common values of the stages of a run.
struct Walk<'w> {
    plan: &'w TiersPlan,
    opened: &'w [Opened],
    bench: Bench,
    progress: Arc<Progress>,
}

impl Walk<'_> {
    /// Measures the arms of a stage in the same rounds, and adds them to the record.
    fn stage(
        &self,
        stage: &TierStage,
        session: &mut Session<'_>,
        ran: &mut Vec<RanArm>,
    ) -> Result<(), Failure> {
        let plan = &self.plan.base;
        let cases = stage
            .arms
            .iter()
            .map(|arm| self.case(arm))
            .collect::<Result<Vec<Case>, Failure>>()?;
        let blocks = Blocks {
            title: stage.group.name().to_owned(),
            names: stage.arms.iter().map(|arm| self.title(arm)).collect(),
            rounds: Rounds {
                stops: (0..rounds_of(self.plan, stage))
                    .map(|round| plan.block(&cases[0], round))
                    .collect(),
                warmup: plan.warmup,
                order: plan.seed,
                seed: plan.seed,
            },
            progress: Arc::clone(&self.progress),
        };
        self.progress
            .say(&format!("{}: writing the objects", stage.group.name()));
        let (bench, arms, own) = (self.bench.clone(), stage.arms.clone(), cases.clone());
        let measured = blocks.run(&session.shell.control, move || {
            bench.load(&arms)?;
            let arms = arms.iter().zip(&own);
            arms.map(|(arm, case)| bench.open(arm, case)).collect()
        })?;
        let record = &mut session.record;
        for (place, (blocks, parts)) in measured.measured.iter().zip(measured.details).enumerate() {
            if blocks.blocks.is_empty() {
                continue;
            }
            let (arm, case) = (&stage.arms[place], &cases[place]);
            let mut entry = recording::case_of(case, plan, self.origin(arm), blocks);
            self.describe(&mut entry, arm, stage);
            record.doctor.extend(recording::examine_errors(&entry));
            ran.push(RanArm {
                group: stage.group,
                arm: *arm,
                case: CaseId(record.cases.len()),
                parts,
            });
            record.cases.push(entry);
        }
        measured.broken.map_or(Ok(()), Err)
    }

    /// The case of an arm.
    fn case(&self, arm: &Arm) -> Result<Case, Failure> {
        let template = &self.plan.base.cases[0];
        let name = arm.step.name();
        let command = if matches!(arm.step, ArmOp::Tier(_, op) if op.reads()) {
            "GET {key}"
        } else {
            "SET {key} {value}"
        };
        let bytes = self.bench.pool.mean_bytes(arm.format)? as u64;
        Ok(Case {
            name: format!("{} {name}", self.subject(arm)),
            workload: workload::over_strings(name, "tiers", &[command]),
            batch: (arm.batch > 1).then_some(arm.batch),
            value_size: ValueSize::Fixed(bytes.max(1)),
            ..template.clone()
        })
    }

    /// The title of an arm in the progress.
    fn title(&self, arm: &Arm) -> String {
        let (subject, step) = (self.subject(arm), arm.step.name());
        let mut title = match subject == step {
            true => subject,
            false => format!("{subject} {step}"),
        };
        if has_codec(arm) {
            title += &format!(", {}", arm.format);
        }
        if arm.batch > 1 {
            title += &format!(", {} objects", arm.batch);
        }
        title
    }

    /// The subject of an arm in reports.
    fn subject(&self, arm: &Arm) -> String {
        match arm.step {
            ArmOp::Recompute => "recompute".into(),
            ArmOp::Hit | ArmOp::DeepCopy => "memory".into(),
            ArmOp::Encode | ArmOp::Decode => "codec".into(),
            ArmOp::Null(place, _) => format!("null for {}", self.bench.places[place].name),
            ArmOp::Tier(place, _) | ArmOp::Setup(place, _) | ArmOp::Flawed(place, _) => {
                self.bench.places[place].name.clone()
            }
        }
    }

    fn origin(&self, arm: &Arm) -> Origin<'_> {
        let name = self.subject(arm);
        let of_ours = |kind| record::Subject {
            name: name.clone(),
            kind,
            target: name.clone(),
            version: None,
        };
        let (subject, target) = match (arm.step.place(), arm.step) {
            (Some(_), ArmOp::Null(..)) => (of_ours(SubjectKind::NullServer), &Target::Embedded),
            (Some(place), _) => {
                let opened = &self.opened[self.bench.places[place].target];
                let subject = record::Subject {
                    name: name.clone(),
                    ..recording::subject(opened)
                };
                (subject, &opened.target)
            }
            (None, _) => (of_ours(SubjectKind::Application), &Target::RAM),
        };
        let latency = arm
            .step
            .place()
            .map(|place| self.plan.places[place].latency);
        Origin {
            subject,
            target,
            threads: 1,
            is_direct: latency.is_none_or(|latency| latency == Duration::ZERO),
            is_throttled: false,
        }
    }

    /// Completes the conditions of a case.
    fn describe(&self, entry: &mut record::Case, arm: &Arm, stage: &TierStage) {
        let latency = arm
            .step
            .place()
            .map(|place| self.plan.places[place].latency);
        let scenario = &mut entry.scenario;
        scenario.suite = Some(stage.group.name().into());
        scenario.codec = has_codec(arm).then(|| arm.format.to_string());
        scenario.latency_ns = nanoseconds(latency.unwrap_or_default());
        if arm.batch > 1 && scenario.mode != Mode::Call {
            scenario.mode = Mode::Batch;
        }
    }
}

/// Whether a codec belongs to what an arm does.
fn has_codec(arm: &Arm) -> bool {
    match arm.step {
        ArmOp::Recompute | ArmOp::Hit | ArmOp::DeepCopy | ArmOp::Setup(..) => false,
        ArmOp::Tier(_, op) => op != plan::TierOp::Miss,
        ArmOp::Encode | ArmOp::Decode | ArmOp::Null(..) | ArmOp::Flawed(..) => true,
    }
}
