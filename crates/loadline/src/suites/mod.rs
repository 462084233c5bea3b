//! Suites: bundles of cases, with the jobs that some of them need. A new suite is a file here and a line in
//! [`ALL`].

pub(crate) mod manager;

use crate::workload::Bundle;

pub(crate) use manager::hold_connections;

/// All that `--workload` can name.
pub(crate) static ALL: [Bundle; 2] = [manager::MANAGER, manager::MANAGER_CLASSIC];
