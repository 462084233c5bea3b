//! Ratios of like with like for the claims of the write-up.

use super::{Engines, Operation, SocketShare, class, paired, socket_share};
use crate::compare::Paired;
use crate::record::{Case, SubjectKind};

/// The operations that the write-up compares with Redis.
const CLAIMED: [Operation; 2] = [Operation::Put, Operation::Get];

/// The claimed operations in one class of durability.
#[derive(Debug, Clone, PartialEq)]
pub struct Claims<'c> {
    /// The class.
    pub class: &'c str,
    /// Our store in the process over the server across a socket.
    pub in_process: Vec<Claim>,
    /// The socket's share of the time of each operation on the server, if the rounds show it; empty without `in_process`.
    pub sockets: Vec<(Operation, f64)>,
    /// Our server over the server: both across a socket.
    pub behind_sockets: Vec<Claim>,
}

/// The comparison of an engine of ours with the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The operation.
    pub operation: Operation,
    /// The comparison over their common rounds.
    pub by: Paired,
}

impl Engines {
    /// The ratios of the claimed operations within each class of durability: in the process, and behind the same kind of
    /// socket.
    #[must_use]
    pub fn claims<'c>(&self, cases: &'c [Case]) -> Vec<Claims<'c>> {
        let mut classes: Vec<&str> = Vec::new();
        for case in cases {
            if case.subject.kind != SubjectKind::NullServer && !classes.contains(&class(case)) {
                classes.push(class(case));
            }
        }
        let of_class = |class: &'c str| {
            let is_store = |case: &Case| case.subject.kind == SubjectKind::Store;
            let is_served = |case: &Case| case.subject.kind == SubjectKind::Embedded;
            let in_process = self.claims_of(cases, class, is_store);
            let sockets = match in_process.is_empty() {
                true => Vec::new(),
                false => self.sockets(cases, class),
            };
            Claims {
                class,
                in_process,
                sockets,
                behind_sockets: self.claims_of(cases, class, is_served),
            }
        };
        classes.into_iter().map(of_class).collect()
    }

    /// The claimed operations, each with the cases of one value size in a class.
    fn claimed<'c>(
        &self,
        cases: &'c [Case],
        name: &str,
    ) -> Vec<(Operation, Vec<&'c Case>, Option<&'c Case>)> {
        let groups = self.groups(cases);
        let of = |operation: Operation| {
            let group = groups.iter().find(|group| {
                group.operation == operation && class(&cases[group.cases[0]]) == name
            })?;
            let server = group.server(cases).map(|place| &cases[place]);
            let of_group = group.cases.iter().map(|place| &cases[*place]).collect();
            Some((operation, of_group, server))
        };
        CLAIMED.into_iter().filter_map(of).collect()
    }

    fn claims_of(
        &self,
        cases: &[Case],
        class: &str,
        is_ours: impl Fn(&Case) -> bool,
    ) -> Vec<Claim> {
        let claimed = self.claimed(cases, class).into_iter();
        let claims = claimed.filter_map(|(operation, group, server)| {
            let ours = group.into_iter().find(|case| is_ours(case))?;
            let by = paired(server?, ours)?;
            Some(Claim { operation, by })
        });
        claims.collect()
    }

    fn sockets(&self, cases: &[Case], class: &str) -> Vec<(Operation, f64)> {
        let claimed = self.claimed(cases, class).into_iter();
        let shares =
            claimed.filter_map(
                |(operation, _, server)| match socket_share(cases, server?)? {
                    SocketShare::Of(share) => Some((operation, share)),
                    SocketShare::Inseparable => None,
                },
            );
        shares.collect()
    }
}
