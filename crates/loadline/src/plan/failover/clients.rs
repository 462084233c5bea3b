//! The clients that are compared.

use loadline_measure::failover::Topology;

use crate::exit::Failure;
use crate::plan::{Driver, DriverMode, drivers_called};

/// The client of this project, which the program itself drives.
const OURS: &str = "loadline";

/// The drivers of `words`, each once.
///
/// # Errors
/// A usage error for an unknown driver, one without runs with faults, or a topology that drivers cannot
/// follow; and if one is not installed.
pub(super) fn resolve(words: &[String], topology: &Topology) -> Result<Vec<Driver>, Failure> {
    let mut chosen: Vec<Driver> = Vec::new();
    for word in words {
        let called = match word.as_str() {
            OURS => vec![Driver::built_in()?],
            word => drivers_called("--client", word, None)?,
        };
        for driver in called {
            if !driver.modes.contains(&DriverMode::Faults) {
                let name = driver.name;
                return Err(Failure::usage(format!(
                    "--client {word}: the driver of {name} does not support runs with faults."
                )));
            }
            let moves = matches!(topology, Topology::Sentinel | Topology::Cluster);
            if moves && !driver.follows.contains(topology) {
                let name = driver.name;
                return Err(Failure::usage(format!(
                    "--client {word}: the driver of {name} does not follow `{topology}`."
                )));
            }
            if !driver.is_installed() {
                return Err(driver.not_installed());
            }
            if chosen.iter().all(|known| known.name != driver.name) {
                chosen.push(driver);
            }
        }
    }
    Ok(chosen)
}
