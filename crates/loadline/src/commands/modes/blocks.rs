//! The blocks of a sweep's cells. Calls to the server run on a separate thread: a call without a reply
//! waits as long as the client does, and after an interrupt that thread is abandoned.

use std::panic;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use loadline_load::Control;
use loadline_load::pacing::Stop;
use loadline_load::runner::{self, Measured, Rounds, Subject};

use crate::exit::{Exit, Failure};
use crate::plan::{Case, Mode};
use crate::subjects::client::{self, CodecCost};
use crate::subjects::{failure, load_block};
use crate::targets::client::Connector;

/// How long a call that is under way may take after an interrupt to be part of what was measured.
const GRACE: Duration = Duration::from_secs(1);
/// How often the interrupt is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is measured of a mode: its size, and the operations asked for in a sweep over counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) mode: Mode,
    pub(super) size: u32,
    pub(super) ops_asked: Option<u64>,
}

/// What was seen of a cell.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) measured: Measured,
    pub(super) codec: Option<CodecCost>,
}

/// Cells whose blocks run in interleaved rounds, after a short one that warms each up.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    pub(super) connector: Connector,
    pub(super) case: Case,
    pub(super) prefix: String,
    pub(super) seed: u64,
    pub(super) cells: Vec<Cell>,
    pub(super) lengths: Lengths,
}

/// How long the blocks of a cell are, one for each round.
#[derive(Debug, Clone)]
pub(super) struct Lengths {
    /// Operations of each, where they are counted; without them only the time ends a block.
    pub(super) ops: Vec<Option<u64>>,
    /// The most time for all of them.
    pub(super) time: Duration,
}

/// The result of `calls`, on a separate thread; `None` if it did not end soon after an interrupt.
/// The thread then ends with this program.
///
/// # Errors
/// That of `calls`, and that there can be no thread.
pub(super) fn unless_given_up<T: Send + 'static>(
    control: &Control,
    calls: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<Option<T>, Failure> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = thread::Builder::new()
        .name("calls".into())
        // Nobody receives it any more once it was given up.
        .spawn(move || drop(sender.send(calls())))
        .map_err(|error| {
            Failure::new(Exit::Internal, format!("Cannot start a thread: {error}."))
        })?;
    let mut interrupted = None;
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(result) => return result.map(Some),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let panicked = thread.join().expect_err("it sends, or panics before");
                panic::resume_unwind(panicked);
            }
        }
        if control.interrupted() && interrupted.get_or_insert_with(Instant::now).elapsed() >= GRACE
        {
            return Ok(None);
        }
    }
}

impl Blocks {
    /// Runs the blocks and returns what was seen of each cell; nothing where an interrupt came and the
    /// server did not answer.
    ///
    /// # Errors
    /// That a connection cannot be opened, or that the server went away.
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
            // What the warm-up cost is no part of the figures.
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
