//! The expected duration of a comparison of clients.

use std::time::Duration;

use super::{ClientsPlan, Driver, DriverMode, Length};
use crate::plan::Estimate;

/// Starting the server.
const SERVER: Duration = Duration::from_millis(500);
/// Starting a driver in a language that is interpreted or compiled at run time, on average: those in Java take two seconds.
const START: Duration = Duration::from_millis(350);
/// Starting a program.
const START_COMPILED: Duration = Duration::from_millis(50);
const COMPILED: [&str; 3] = ["C", "Go", "Rust"];
/// Counting the system calls of a driver.
const SYSTEM_CALLS: Duration = Duration::from_millis(150);
/// Opening connections of a driver and measuring their memory.
const CONNECTIONS: Duration = Duration::from_millis(700);
/// All faults of a further client: nine times its start, since they run together with those of others. Those of one
/// client take as long as its longest run, or its patience if it waits for longer.
const FAULTS_STARTS: u32 = 9;
/// Of the patience for a call that waits, the part that most clients do not use: their runs take six seconds.
const UNUSED_PATIENCE: Duration = Duration::from_millis(1_200);

impl ClientsPlan {
    /// The expected duration. `None` if the plan has a number of operations, whose time depends on the clients.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        let Length::Time(length) = self.base.cases[0].length else {
            return None;
        };
        let able = |mode: DriverMode| {
            let drivers = self.drivers.iter();
            drivers.filter(move |driver| driver.modes.contains(&mode))
        };
        // A warm-up can go on until the client is steady.
        let block = self.base.warmup * 6 / 5 + length;
        let each = |driver: &Driver, block: Duration, work: Duration| {
            let one = Estimate::about(block).and(Estimate::of_work(start(driver) + work));
            one.times(self.protocols(driver).count() as u32)
        };
        let rows = self.ops.iter().flat_map(|op| able(op.mode));
        let rows = rows.map(|driver| each(driver, block, SYSTEM_CALLS));
        let mut all = rows.fold(Estimate::of_work(SERVER), Estimate::and);
        if self.with_connections {
            let holding = able(DriverMode::Sync).filter(|driver| driver.connections);
            all = holding
                .map(|driver| each(driver, Duration::ZERO, CONNECTIONS))
                .fold(all, Estimate::and);
        }
        if self.with_faults {
            let clients = able(DriverMode::Faults);
            let further = clients.skip(1).map(|driver| start(driver) * FAULTS_STARTS);
            let waiting = Estimate::about(self.patience - UNUSED_PATIENCE);
            all = all.and(waiting).and(Estimate::of_work(further.sum()));
        }
        Some(all)
    }
}

fn start(driver: &Driver) -> Duration {
    match COMPILED.contains(&driver.language.as_str()) {
        true => START_COMPILED,
        false => START,
    }
}
