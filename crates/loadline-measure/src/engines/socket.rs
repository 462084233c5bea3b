//! The socket's share of the time of a server.

use super::{Engines, Operation};
use crate::interval::{self, ALPHA};
use crate::quantile::median;
use crate::record::{Case, Scenario, SubjectKind};

impl Engines {
    /// The socket's share of the time of a read on the first server, in the first class for which it is known.
    #[must_use]
    pub fn socket_share_of_reads(&self, cases: &[Case]) -> Option<f64> {
        let groups = self.groups(cases);
        let mut reads = groups
            .iter()
            .filter(|group| group.operation == Operation::Get);
        reads.find_map(|group| {
            let server = &cases[group.server(cases)?];
            match socket_share(cases, server)? {
                SocketShare::Of(share) => Some(share),
                SocketShare::Inseparable => None,
            }
        })
    }
}

/// Whether the two scenarios are the same operation on the same data.
fn is_alike(one: &Scenario, other: &Scenario) -> bool {
    one.workload == other.workload
        && one.durability == other.durability
        && one.value_bytes == other.value_bytes
}

/// The socket's share of the time of an operation on a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SocketShare {
    /// The share, from 0 to 1: the median over the rounds.
    Of(f64),
    /// The rounds do not show that the server takes longer than the null server.
    Inseparable,
}

/// The socket's share of the time of an operation on `server`: the time of the null server for the same operation
/// over that of `server`, in the common rounds. `None` for an engine in the process and for a server behind a Unix
/// socket, if the null server was not measured, and if the rounds are implausible or too few for an interval.
#[must_use]
pub fn socket_share(cases: &[Case], server: &Case) -> Option<SocketShare> {
    let is_server = matches!(
        server.subject.kind,
        SubjectKind::SpawnedServer | SubjectKind::Embedded
    );
    // The null server listens on TCP, so it says nothing about servers on other sockets.
    if !is_server {
        return None;
    }
    let null = cases.iter().find(|case| {
        case.subject.kind == SubjectKind::NullServer && is_alike(&case.scenario, &server.scenario)
    })?;
    let times = |case: &Case| -> Vec<f64> {
        let rounds = case.rounds.iter();
        rounds
            .map(|round| round.duration_ns as f64 / round.ops.max(1) as f64)
            .collect()
    };
    let (null, server) = (times(null), times(server));
    let shares = null.iter().zip(&server);
    let shares: Vec<f64> = shares
        .map(|(null, server)| null / server.max(1.0))
        .collect();
    let share = median(&shares).filter(|share| (0.0..=1.2).contains(share))?;
    // Too few rounds have no interval.
    let most = interval::of_median(&shares, ALPHA)?.hi;
    Some(if most >= 1.0 {
        SocketShare::Inseparable
    } else {
        SocketShare::Of(share)
    })
}
