//! `loadline modes`: calls a server in every mode, under every latency.

mod blocks;
mod evidence;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use loadline_load::Control;
use loadline_measure::doctor::{Observed, examine_link};
use loadline_measure::record::{self, Answer, Record};
use loadline_report::findings;

use crate::args::ModesArgs;
use crate::commands::surroundings;
use crate::exit::Failure;
use crate::interrupt::unless_given_up;
use crate::pinning::Pinning;
use crate::plan::{self, Case, Mode, ModesPlan};
use crate::progress::Progress;
use crate::recording;
use crate::session::{self, Recorded, Shell};
use crate::subjects;
use crate::subjects::client;
use crate::systems::client::Connector;
use crate::systems::link::Path;
use crate::systems::{Opened, Refusals};
use crate::units::latency_words;
use blocks::{Blocks, Cell, Lengths, Seen};
use evidence::Look;

pub(super) fn run(args: &ModesArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::resolve_modes(args, &surroundings())?;
    session::execute(
        "modes",
        &args.results,
        &plan.describe(),
        |shell| Ok(measure(&plan, shell)?.refuse_errors()),
        |_, _, _| {},
    )
}

/// Measures the sweep.
fn measure(plan: &ModesPlan, shell: &Shell) -> Result<Recorded, Failure> {
    session::record(shell, &plan.base, plan.to_json(), |session| {
        session.record.answer = Answer::Sweep;
        session.record.run.plan["pinned"] = session.pinning.is_some().into();
        session.with_targets(|session, opened| {
            let cells = plan.latencies.len() * plan.base.cases.len() * (plan.counts.len() + 2);
            let progress = session.progress(cells as u64);
            if let Some(extrapolation) = plan.extrapolation() {
                progress.note(&extrapolation);
            }
            let needs = |case: &Case| {
                plan.modes
                    .iter()
                    .flat_map(|mode| mode.needs(&case.workload))
                    .collect::<Vec<_>>()
            };
            let needs: Vec<String> = plan.base.cases.iter().flat_map(needs).collect();
            let swept = Sweep {
                plan,
                refusals: opened[0].refusals(&[], &needs)?,
                run_id: &session.run_id,
                control: &shell.control,
                progress: &progress,
                pinning: session.pinning.as_ref(),
            }
            .run(&mut opened[0], &mut session.record);
            let counted = swept.and_then(|()| {
                session::count_clients(session, plan, &opened[0], own_words(), &progress)
            });
            progress.finish();
            counted
        })
    })
}

/// The arguments of this command as they were typed.
fn own_words() -> Vec<OsString> {
    std::env::args_os().skip(2).collect()
}

/// The common values of the cells of a sweep.
struct Sweep<'s> {
    plan: &'s ModesPlan,
    /// The commands of the modes that the user has no right to run.
    refusals: Refusals,
    run_id: &'s str,
    control: &'s Arc<Control>,
    progress: &'s Progress,
    pinning: Option<&'s Pinning>,
}

/// One operation under one latency.
struct Setting<'s> {
    case: &'s Case,
    latency: Duration,
    connector: &'s Connector,
    prefix: String,
}

impl Sweep<'_> {
    fn run(&self, target: &mut Opened, record: &mut Record) -> Result<(), Failure> {
        for case in &self.plan.base.cases {
            self.modes(case, target, record)?;
        }
        self.load(target)?;
        for &latency in &self.plan.latencies {
            // Opening a link takes seconds, because it measures itself; skipped after an interrupt.
            if self.control.interrupted() {
                break;
            }
            let base = &self.plan.base;
            // The link's thread only runs when data is due, and then it must not wait for either end, so it may
            // use any CPU.
            let path = Pinning::apart(self.pinning, || {
                Path::open(&target.nodes(), latency, &base.path, base.seed)
            })?;
            if let Some(path) = &path {
                record.links.push(path.measured.clone());
                record.doctor.extend(findings(examine_link(&path.measured)));
            }
            let connector = target.connector(path.as_ref())?;
            for case in &self.plan.base.cases {
                let setting = Setting {
                    case,
                    latency,
                    connector: &connector,
                    prefix: case.prefix(self.run_id),
                };
                let look = Look::begin(target);
                let first = record.cases.len();
                self.counts(&setting, target, record)?;
                self.sizes(&setting, target, record)?;
                // After an interrupt, the server is not queried any more; it may not answer.
                if self.control.interrupted() {
                    return Ok(());
                }
                let declared = evidence::declared(self.plan, &case.workload);
                let added = latency_words(latency);
                let scope = format!("{}, {}, {added} added", target.name, case.name);
                let findings = look.end(target, &declared, scope, &record.cases[first..]);
                record.doctor.extend(findings);
            }
        }
        Ok(())
    }

    /// Loads the keys of every operation, without links.
    fn load(&self, target: &mut Opened) -> Result<(), Failure> {
        let mut spaces: Vec<&str> = Vec::new();
        for case in &self.plan.base.cases {
            let space = case.workload.space.as_str();
            let seed = self.plan.base.seed;
            if case.codec.is_none() && !target.target.is_cluster() {
                subjects::load(target, case, self.run_id, seed, self.control)?;
            } else if !spaces.contains(&space) {
                let (connector, prefix) = (target.connector(None)?, case.prefix(self.run_id));
                let (case, control) = (case.clone(), Arc::clone(self.control));
                unless_given_up(self.control, move || {
                    if case.codec.is_some() {
                        client::load_objects(&connector, &case, &prefix, seed, &control)
                    } else {
                        client::load_cluster(&connector, &case, &prefix, seed, &control)
                    }
                })?;
                spaces.push(space);
            }
        }
        Ok(())
    }

    /// The modes that the target supports; each other mode is reported once.
    fn modes(
        &self,
        case: &Case,
        target: &mut Opened,
        record: &mut Record,
    ) -> Result<Vec<Mode>, Failure> {
        let mut modes = Vec::new();
        for &mode in &self.plan.modes {
            let needs = mode.needs(&case.workload);
            let lacks = target.lacks(&needs)?;
            let mut refused = needs;
            refused.retain(|name| self.refusals.contains_key(name));
            let reason = mode.lacks_form(&case.workload);
            let reason = reason.or_else(|| self.plan.splits(mode)).or_else(|| {
                (!lacks.is_empty())
                    .then(|| format!("{} does not have {}", target.name, lacks.join(" and ")))
            });
            let reason = reason.or_else(|| {
                (!refused.is_empty()).then(|| {
                    let refused = refused.join(" and ");
                    format!("the user of {} has no right to run {refused}", target.name)
                })
            });
            let Some(reason) = reason else {
                modes.push(mode);
                continue;
            };
            let left_out = record::LeftOut {
                workload: case.workload.name.clone(),
                mode: mode.name().into(),
                reason,
            };
            if !record.left_out.contains(&left_out) {
                let sentence = format!("{mode} was left out: {}.", left_out.reason);
                if !record.findings.contains(&sentence) {
                    record.findings.push(sentence);
                }
                record.left_out.push(left_out);
            }
        }
        if modes.is_empty() {
            return Err(Failure::unavailable(format!(
                "{}: none of the modes is supported.\n{}",
                target.name,
                record.findings.join("\n")
            )));
        }
        Ok(modes)
    }

    /// Measures every mode with every count, until a count exceeds the budget.
    fn counts(
        &self,
        setting: &Setting<'_>,
        target: &mut Opened,
        record: &mut Record,
    ) -> Result<(), Failure> {
        let mut modes = self.modes(setting.case, target, record)?;
        for &count in &self.plan.counts {
            let most = u32::try_from(count).unwrap_or(u32::MAX);
            let cells: Vec<Cell> = modes
                .iter()
                .map(|&mode| Cell {
                    mode,
                    size: self.plan.size(mode).min(most),
                    ops_asked: Some(count),
                })
                .collect();
            if cells.is_empty() || self.control.interrupted() {
                self.progress.step();
                continue;
            }
            self.progress.begin(&format!(
                "{}, {} added: {count} operations",
                setting.case.name,
                latency_words(setting.latency)
            ));
            let lengths = Lengths {
                ops: self.plan.block_ops(count, setting.latency),
                time: self.plan.budget,
            };
            let measured = self.blocks(setting, &cells, lengths)?;
            for (cell, measured) in cells.iter().zip(&measured) {
                let ops = self.add(setting, *cell, target, measured, record);
                if ops < count {
                    modes.retain(|mode| *mode != cell.mode);
                }
            }
            self.progress.step();
        }
        Ok(())
    }

    /// Measures pipelines and batches of every size, to find the best size.
    fn sizes(
        &self,
        setting: &Setting<'_>,
        target: &mut Opened,
        record: &mut Record,
    ) -> Result<(), Failure> {
        let modes = self.modes(setting.case, target, record)?;
        for mode in [Mode::Pipeline, Mode::Batch] {
            if !modes.contains(&mode) || self.control.interrupted() {
                self.progress.step();
                continue;
            }
            self.progress.begin(&format!(
                "{}, {} added: {mode} by size",
                setting.case.name,
                latency_words(setting.latency)
            ));
            self.curve(setting, mode, target, record)?;
            self.progress.step();
        }
        Ok(())
    }

    /// Measures calls of `mode` of each size. All sizes run in the same rounds, so that they can be compared in
    /// pairs.
    fn curve(
        &self,
        setting: &Setting<'_>,
        mode: Mode,
        target: &Opened,
        record: &mut Record,
    ) -> Result<(), Failure> {
        let cell = |&size: &u32| Cell {
            mode,
            size,
            ops_asked: None,
        };
        let cells: Vec<Cell> = self.plan.sizes.iter().map(cell).collect();
        // All sizes share the time of two cells.
        let time = self.plan.budget / 2;
        let lengths = Lengths {
            ops: vec![None; self.plan.size_rounds as usize],
            time,
        };
        let measured = self.blocks(setting, &cells, lengths)?;
        for (cell, measured) in cells.iter().zip(&measured) {
            self.add(setting, *cell, target, measured, record);
        }
        Ok(())
    }

    /// Runs the blocks of cells; returns nothing if the server does not answer after an interrupt.
    fn blocks(
        &self,
        setting: &Setting<'_>,
        cells: &[Cell],
        lengths: Lengths,
    ) -> Result<Vec<Seen>, Failure> {
        let blocks = Blocks {
            connector: setting.connector.clone(),
            case: setting.case.clone(),
            prefix: setting.prefix.clone(),
            seed: self.plan.base.seed,
            cells: cells.to_vec(),
            lengths,
        };
        Ok(blocks.run(self.control)?.unwrap_or_default())
    }

    /// Adds a cell to the record and returns the number of measured operations.
    fn add(
        &self,
        setting: &Setting<'_>,
        cell: Cell,
        target: &Opened,
        seen: &Seen,
        record: &mut Record,
    ) -> u64 {
        if seen.measured.blocks.is_empty() {
            return 0;
        }
        let mut entry = recording::case(
            setting.case,
            &self.plan.base,
            target,
            &seen.measured,
            &Observed::default(),
        );
        if let Some(codec) = seen.codec {
            entry.parts_ns.encode = codec.encode_ns;
            entry.parts_ns.decode = codec.decode_ns;
            entry.cost.encoded_value_bytes = Some(codec.encoded_bytes);
        }
        entry.subject.name = format!("{}, {}", entry.subject.name, cell.mode);
        let is_async = cell.mode == Mode::Async;
        entry.scenario = record::Scenario {
            mode: cell.mode.name().into(),
            batch: if is_async { 1 } else { u64::from(cell.size) },
            in_flight: Some(u64::from(cell.size)),
            latency_ns: u64::try_from(setting.latency.as_nanos()).unwrap_or(u64::MAX),
            ops_asked: cell.ops_asked,
            // The number of client threads does not depend on the number of servers.
            threads: u64::from(setting.case.threads),
            ..entry.scenario
        };
        record.doctor.extend(recording::examine_errors(&entry));
        let ops = entry.ops;
        record.cases.push(entry);
        ops
    }
}
