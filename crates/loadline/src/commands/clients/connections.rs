//! Memory of a connection, in the process of the client and in the server.

use loadline_load::Control;
use loadline_load::pacing::Stop;

use super::way::{config, way_to};
use super::{Comparison, able};
use crate::exit::Failure;
use crate::plan::{DriverMode, Op};
use crate::session::Session;
use crate::subjects::Admins;
use crate::systems::Opened;
use crate::systems::drivers::{Broken, Running};
use crate::systems::engines::resident_bytes;

/// Connections that are opened first, so that pools of threads and of memory are there.
const WARM: u64 = 100;
/// Connections that are measured.
const MEASURED: u64 = 200;
/// Operations before.
const OPS: u64 = 1_000;
const OP: Op = Op {
    is_set: false,
    mode: DriverMode::Sync,
    size: 1,
};

/// Bytes per connection.
struct Bytes {
    client: Option<f64>,
    server: Option<f64>,
}

impl Comparison<'_> {
    /// Measures the memory of connections of each driver that was measured, if this run started the server, and adds it to its
    /// cases.
    ///
    /// # Errors
    /// If the server cannot be reached. A driver that fails is a finding.
    pub(super) fn connections(
        &self,
        session: &mut Session<'_>,
        target: &Opened,
    ) -> Result<(), Failure> {
        if !self.plan.with_connections {
            return Ok(());
        }
        let (admins, address) = way_to(target)?;
        let case = &self.plan.base.cases[0];
        for (driver, resp) in able(self.plan, OP) {
            let is_broken = self.broken.contains(&(driver.name.clone(), resp));
            if !driver.connections || is_broken || session.shell.interrupted() {
                continue;
            }
            self.progress
                .say(&format!("connections of {}", driver.name));
            let prefix = case.prefix(&session.run_id);
            let mut config = config(&address, driver, resp, OP, case, prefix);
            config.rate = 0;
            let running = Running::launch(driver, &config, None)?;
            let record = &mut session.record;
            match measure(running, &admins, &session.shell.control) {
                Ok(bytes) => {
                    let rows = self.clients.rows.iter();
                    for row in rows.filter(|row| row.driver == driver.name) {
                        let case = &mut record.cases[row.case];
                        if case.scenario.resp == u64::from(resp) {
                            case.cost.client_bytes_per_connection = bytes.client;
                            case.cost.server_bytes_per_connection = bytes.server;
                        }
                    }
                }
                Err(failure) => {
                    let text = failure.to_string().replace('\n', " ");
                    let sentence =
                        format!("Connections of {} were not measured: {text}", driver.name);
                    record.findings.push(sentence);
                }
            }
        }
        Ok(())
    }
}

fn measure(mut running: Running, admins: &Admins, control: &Control) -> Result<Bytes, Failure> {
    let process = running.pid().to_string();
    let mut open = || -> Result<_, Broken> {
        running.connected(control)?;
        running.block(Stop::after_ops(OPS), 1, control)?;
        running.open(WARM, control)?;
        let before = (resident_bytes(&process), server_bytes(admins));
        running.open(MEASURED, control)?;
        let after = (resident_bytes(&process), server_bytes(admins));
        Ok((before, after))
    };
    let opened = open();
    let (before, after) = opened.map_err(|broken| running.failure(broken))?;
    let each = |before: Option<u64>, after: Option<u64>| {
        let grown = after?.saturating_sub(before?);
        Some(grown as f64 / MEASURED as f64)
    };
    Ok(Bytes {
        client: each(before.0, after.0),
        server: each(before.1, after.1),
    })
}

/// The memory of its clients, by the server's own count; `None` if it has none.
fn server_bytes(admins: &Admins) -> Option<u64> {
    let mut admins = admins.borrow_mut();
    admins.first_mut()?.memory_of_other_clients().ok()?
}
