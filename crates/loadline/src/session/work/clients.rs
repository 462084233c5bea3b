//! Instructions that the client executes per operation, in every call mode of a sweep.

use std::ffi::OsString;
use std::time::Instant;

use loadline_load::Control;
use loadline_measure::record::{Case, Record};
use loadline_measure::work::Work;

use super::{BUDGET, MOST_PASSES, PASSES, Session, add, can_count, is_settled, uncounted};
use crate::exit::Failure;
use crate::plan::{Mode, ModesPlan};
use crate::progress::Progress;
use crate::subjects::CountedClient;
use crate::systems::Opened;

/// Counts the client's instructions in each measured mode, against the target as it is now, and adds them to the
/// first cell of the mode in the record. `words` are the arguments of the sweep. Must be called on the main
/// thread, because a child process is started.
///
/// # Errors
/// If counts were requested and valgrind is missing. Every other problem becomes a sentence in the record.
pub(crate) fn count(
    session: &mut Session<'_>,
    plan: &ModesPlan,
    opened: &Opened,
    words: Vec<OsString>,
    progress: &Progress,
) -> Result<(), Failure> {
    let control = &*session.shell.control;
    let Some(is_asked) = session.plan.schedule.instructions.is_asked() else {
        return Ok(());
    };
    let cells = cells(plan, &session.record);
    if cells.is_empty() || control.interrupted() {
        return Ok(());
    }
    if !can_count(is_asked, &mut session.record)? {
        return Ok(());
    }
    progress.say("counting instructions of the client");
    let deadline = (!is_asked).then(|| Instant::now() + BUDGET);
    let counted = CountedClient::start(opened, &session.run_id, words, control)
        .and_then(|client| count_cells(client, &cells, deadline, control, &mut session.record));
    session.record.not_counted = match counted {
        _ if control.interrupted() => None,
        Ok(done) if done < cells.len() => Some(format!(
            "Instructions of the client were counted for {done} of {} call modes in {} seconds; `--instructions valgrind` counts all.",
            cells.len(),
            BUDGET.as_secs()
        )),
        Ok(_) => None,
        Err(failure) => Some(format!(
            "Instructions of the client were not counted: {failure}"
        )),
    };
    Ok(())
}

/// Counts cells until the deadline, and returns the number of counted ones.
fn count_cells(
    mut client: CountedClient,
    cells: &[Cell],
    deadline: Option<Instant>,
    control: &Control,
    record: &mut Record,
) -> Result<usize, Failure> {
    let uncounted = uncounted(client.callgrind(), std::env::current_exe().ok())?;
    for (done, cell) in cells.iter().enumerate() {
        let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_late || control.interrupted() {
            return Ok(done);
        }
        let work = passes(&mut client, cell, uncounted.clone(), control)?;
        record.cases[cell.entry].client_work = Some(work);
    }
    Ok(cells.len())
}

/// An operation in a call mode.
struct Cell {
    /// Index of the operation in the plan.
    case: usize,
    mode: Mode,
    /// Index of its first cell in the record.
    entry: usize,
}

/// Each operation in each measured mode. Added latency does not change the instructions of the client.
fn cells(plan: &ModesPlan, record: &Record) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (case, operation) in plan.base.cases.iter().enumerate() {
        let codec = operation.codec.map(|codec| codec.to_string());
        for &mode in &plan.modes {
            let is_of = |entry: &Case| {
                let scenario = &entry.scenario;
                scenario.ops_asked.is_some()
                    && scenario.workload == operation.workload.name
                    && scenario.codec == codec
                    && scenario.mode.as_str() == mode.name()
            };
            if let Some(entry) = record.cases.iter().position(is_of) {
                cells.push(Cell { case, mode, entry });
            }
        }
    }
    cells
}

/// Adds passes of one cell to `work` until they agree.
fn passes(
    client: &mut CountedClient,
    cell: &Cell,
    mut work: Work,
    control: &Control,
) -> Result<Work, Failure> {
    client.turn_to(cell.case, cell.mode, control)?;
    for pass in 0..MOST_PASSES {
        if (pass >= PASSES && is_settled(&work)) || control.interrupted() {
            break;
        }
        let (counts, profile) = client.pass(control)?;
        add(&mut work, counts, &profile);
    }
    Ok(work)
}
