//! The blocks of a sweep's cells. Calls to the server run on a separate thread: a call without a reply
//! waits as long as the client does, and after an interrupt that thread is abandoned.

use std::sync::Arc;
use std::time::Duration;

use loadline_load::Control;
use loadline_load::pacing::Stop;
use loadline_load::runner::{self, Measured, Rounds, Subject};

use crate::exit::Failure;
use crate::interrupt::unless_given_up;
use crate::plan::{Case, Mode};
use crate::subjects::client::{self, CodecCost};
use crate::subjects::{failure, load_block};
use crate::systems::client::Connector;

/// A cell: a mode with a size, and the requested number of operations in a sweep over counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) mode: Mode,
    pub(super) size: u32,
    pub(super) ops_asked: Option<u64>,
}

/// The results of a cell.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) measured: Measured,
    pub(super) codec: Option<CodecCost>,
}

/// Cells whose blocks run in interleaved rounds, after a short warm-up of each.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    pub(super) connector: Connector,
    pub(super) case: Case,
    pub(super) prefix: String,
    pub(super) seed: u64,
    pub(super) cells: Vec<Cell>,
    pub(super) lengths: Lengths,
}

/// Length of the blocks of a cell, one per round.
#[derive(Debug, Clone)]
pub(super) struct Lengths {
    /// Operations of each, if they are counted; otherwise the time ends a block.
    pub(super) ops: Vec<Option<u64>>,
    /// Time limit for all of them together.
    pub(super) time: Duration,
}

impl Blocks {
    /// Runs the blocks and returns the results of each cell, or `None` after an interrupt if the server did not
    /// answer.
    ///
    /// # Errors
    /// If a connection cannot be opened, or the connection to the server is lost.
    pub(super) fn run(self, control: &Arc<Control>) -> Result<Option<Vec<Seen>>, Failure> {
        let own = Arc::clone(control);
        unless_given_up(control, move || self.measure(&own))
    }

    fn measure(&self, control: &Control) -> Result<Vec<Seen>, Failure> {
        let broken = |error| failure(&self.case.name, &error);
        let mut subjects = Vec::with_capacity(self.cells.len());
        for cell in &self.cells {
            let mut subject = client::open(
                &self.connector,
                &self.case,
                cell.mode,
                cell.size,
                &self.prefix,
                load_block(&self.case, self.seed),
            )?;
            let warm_up = Stop {
                ops: Some(u64::from(cell.size).max(10)),
                duration: Some(self.lengths.time / 4),
            };
            subject.block(warm_up, self.seed, control).map_err(broken)?;
            // The cost of the warm-up is not part of the results.
            subject.take_codec_cost();
            subjects.push(subject);
        }
        let Lengths { ops, time } = &self.lengths;
        let each = *time / ops.len().max(1) as u32;
        let stops = ops.iter().map(|ops| Stop {
            ops: *ops,
            duration: Some(each),
        });
        let rounds = Rounds {
            stops: stops.collect(),
            warmup: Duration::ZERO,
            order: self.seed,
            seed: self.seed,
        };
        let mut runnable: Vec<&mut dyn Subject> = subjects
            .iter_mut()
            .map(|subject| subject as &mut dyn Subject)
            .collect();
        let no_end = |_: &[Measured]| false;
        let measured = runner::run(&mut runnable, &rounds, control, &mut |_| {}, &no_end)
            .map_err(|error| broken(error.into()))?;
        let seen = measured
            .into_iter()
            .zip(&subjects)
            .map(|(measured, subject)| Seen {
                measured,
                codec: subject.take_codec_cost(),
            });
        Ok(seen.collect())
    }
}
