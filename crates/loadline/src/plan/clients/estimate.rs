//! The expected duration of a comparison of clients.

use std::time::Duration;

use super::{ClientsPlan, DriverMode, Length};
use crate::plan::Estimate;

/// Starting the server.
const SERVER: Duration = Duration::from_millis(500);
/// Starting a driver, on average: those in Java take two seconds.
const START: Duration = Duration::from_millis(350);
/// Counting the system calls of a driver.
const SYSTEM_CALLS: Duration = Duration::from_millis(270);
/// Opening connections of a driver and measuring their memory.
const CONNECTIONS: Duration = Duration::from_millis(700);
/// All faults of a further client. They run together with those of others, and those of one client take its patience.
const FAULTS: Duration = Duration::from_millis(3_400);

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
        let rows = self.ops.iter().flat_map(|op| able(op.mode));
        let rows: usize = rows.map(|driver| self.protocols(driver).count()).sum();
        // A warm-up can go on until the client is steady.
        let row = START + self.base.warmup * 6 / 5 + length + SYSTEM_CALLS;
        let mut all = SERVER + row * rows as u32;
        if self.base.targets[0].is_started() {
            let holding = able(DriverMode::Sync).filter(|driver| driver.connections);
            let holding: usize = holding.map(|driver| self.protocols(driver).count()).sum();
            all += (START + CONNECTIONS) * holding as u32;
        }
        if self.with_faults {
            let clients = able(DriverMode::Faults).count() as u32;
            all += self.patience + FAULTS * clients.saturating_sub(1);
        }
        Some(Estimate::about(all))
    }
}
