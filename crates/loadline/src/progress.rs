//! Progress of a run: a line that changes in a terminal, plain lines elsewhere, nothing where
//! quiet is wanted. It goes to standard error, so that a report can be piped.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::printer::Printer;

/// A plain line is written each time this share of the steps is done, in percent.
const PLAIN_EVERY_PERCENT: u64 = 20;
/// Interval at which the changing line is redrawn while a step lasts.
const TICK: Duration = Duration::from_millis(200);

/// Shows how far a run has come.
#[derive(Debug)]
pub(crate) struct Progress {
    kind: Kind,
    steps: u64,
    done: AtomicU64,
}

#[derive(Debug)]
enum Kind {
    Hidden,
    Plain,
    Live(ProgressBar),
}

impl Progress {
    /// A run of `steps` blocks.
    pub(crate) fn start(printer: &Printer, steps: u64) -> Self {
        let kind = if printer.quiet {
            Kind::Hidden
        } else if printer.live {
            let style =
                ProgressStyle::with_template("{bar:24} {percent:>3} %, {eta} left  {wide_msg}")
                    .expect("the template is a constant");
            let bar = ProgressBar::new(steps).with_style(style);
            bar.enable_steady_tick(TICK);
            Kind::Live(bar)
        } else {
            Kind::Plain
        };
        Self {
            kind,
            steps,
            done: AtomicU64::new(0),
        }
    }

    /// Says what happens now.
    pub(crate) fn say(&self, what: &str) {
        match &self.kind {
            Kind::Hidden => {}
            Kind::Plain => plain(what),
            Kind::Live(bar) => bar.set_message(what.to_owned()),
        }
    }

    /// Says what stays to be read.
    pub(crate) fn note(&self, what: &str) {
        match &self.kind {
            Kind::Hidden => {}
            Kind::Plain => plain(what),
            Kind::Live(bar) => bar.println(format!("loadline: {what}")),
        }
    }

    /// Says which block begins; too often for plain lines.
    pub(crate) fn begin(&self, what: &str) {
        if let Kind::Live(bar) = &self.kind {
            bar.set_message(what.to_owned());
        }
    }

    /// Notes that a block is done.
    pub(crate) fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        match &self.kind {
            Kind::Hidden => {}
            Kind::Plain => {
                if let Some(percent) = milestone(done, self.steps) {
                    plain(&format!("measured {percent} %"));
                }
            }
            Kind::Live(bar) => bar.inc(1),
        }
    }

    /// Notes that `steps` steps are done.
    pub(crate) fn advance(&self, steps: u64) {
        (0..steps).for_each(|_| self.step());
    }

    /// Sets the total number of finished steps, for steps that are not counted one by one.
    pub(crate) fn reach(&self, steps: u64) {
        while self.done.load(Ordering::Relaxed) < steps.min(self.steps) {
            self.step();
        }
    }

    /// Takes the changing line away.
    pub(crate) fn finish(&self) {
        if let Kind::Live(bar) = &self.kind {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The percentage to report when step `done` of `steps` has just ended, where it is a round one.
fn milestone(done: u64, steps: u64) -> Option<u64> {
    let mark = |done: u64| done * 100 / steps.max(1) / PLAIN_EVERY_PERCENT;
    (done > 0 && mark(done) > mark(done - 1)).then(|| mark(done) * PLAIN_EVERY_PERCENT)
}

/// A closed standard error is no reason to end a run.
fn plain(what: &str) {
    let _ = writeln!(std::io::stderr(), "loadline: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_are_few_and_end_at_the_end() {
        let shown = |steps| {
            (1..=steps)
                .filter_map(|done| milestone(done, steps))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(80), [20, 40, 60, 80, 100]);
        assert_eq!(shown(3), [20, 60, 100]);
        assert_eq!(shown(1), [100]);
    }
}
