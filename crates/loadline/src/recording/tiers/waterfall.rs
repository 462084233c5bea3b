//! Where the time of an operation on a tier goes.

use loadline_measure::quantile::median;
use loadline_measure::record::{Case, Waterfall};

use super::{MeasuredCases, RanArm};
use crate::plan::{ArmOp, TierGroup, TierOp};
use crate::subjects::tier::PartSums;

impl MeasuredCases<'_> {
    /// The waterfalls of all reads and writes that were measured in parts.
    pub(super) fn waterfalls(&self) -> Vec<Waterfall> {
        let parted = self.group(TierGroup::Tiers).filter_map(|ran| {
            let ArmOp::Tier(place, parted) = ran.arm.step else {
                return None;
            };
            let operation = match parted {
                TierOp::GetParts => TierOp::Get,
                TierOp::SetParts => TierOp::Set,
                _ => return None,
            };
            let null = self.arm(TierGroup::Tiers, ArmOp::Null(place, parted), None, 1);
            let null = null.filter(|null| !null.parts.is_empty());
            self.waterfall(ran, (place, operation), null)
        });
        parted.collect()
    }

    fn waterfall(
        &self,
        parted: &RanArm,
        (place, operation): (usize, TierOp),
        null: Option<&RanArm>,
    ) -> Option<Waterfall> {
        let (format, blocks) = (Some(parted.arm.format), &parted.parts[..]);
        // The null server has a case of the same operation, and none without clocks in between.
        let ran = self.arm(TierGroup::Tiers, ArmOp::Tier(place, operation), format, 1)?;
        let plain = self.case_of(ran);
        let part = |of: fn(&PartSums) -> f64| median_of(blocks, |sums| sums.each(of(sums)));
        let writes = operation == TierOp::Set;
        let known = Waterfall {
            subject: plain.subject.name.clone(),
            case: Some(ran.case),
            operation: operation.name().into(),
            codec: plain.scenario.codec.clone(),
            whole_ns: median_of(blocks, PartSums::whole_ns)?,
            encode_ns: part(|sums| sums.encode).filter(|_| writes),
            decode_ns: part(|sums| sums.decode).filter(|_| !writes),
            ..Waterfall::default()
        };
        let Some(null) = null else {
            let rests = blocks.iter().filter(|sums| sums.ops > 0);
            let rests = rests.map(|sums| sums.whole_ns() - own_ns(sums));
            let waterfall = Waterfall {
                write_ns: part(|sums| sums.write).filter(|_| writes),
                read_ns: part(|sums| sums.read).filter(|_| !writes),
                ..known
            };
            return Some(waterfall.with_rests(&rests.collect::<Vec<_>>()));
        };
        let (null_case, null_blocks) = (self.case_of(null), &null.parts[..]);
        let command = plain.parts_ns.server.map(|ns| ns as f64);
        // The server's work beyond receiving and sending the same bytes. Of a server elsewhere, only its own count of
        // the command is known.
        let beyond = server_cpu(plain)
            .zip(server_cpu(null_case))
            .map(|(server, null)| (server - null).max(0.0));
        let waterfall = Waterfall {
            client_ns: part(|sums| sums.client),
            write_ns: part(|sums| sums.write),
            network_ns: median_of(null_blocks, PartSums::wait_ns),
            server_ns: beyond.or(command),
            server_command_ns: command,
            read_ns: part(|sums| sums.read),
            parse_ns: part(|sums| sums.parse),
            ..known
        };
        let (both, cases) = ((blocks, null_blocks), (plain, null_case));
        Some(waterfall.with_rests(&rests(both, cases, beyond.or(command))))
    }
}

/// The parts of an operation that the client performs.
fn own_ns(sums: &PartSums) -> f64 {
    sums.each(sums.encode + sums.client + sums.write + sums.read + sums.parse + sums.decode)
}

/// The rest of each round: of the operation, less its parts, the wait for the null server, and the work of the server in the
/// same round, or `server` where rounds do not know it.
fn rests(
    (blocks, null_blocks): (&[PartSums], &[PartSums]),
    (plain, null_case): (&Case, &Case),
    server: Option<f64>,
) -> Vec<f64> {
    let rounds = plain.rounds.iter().zip(&null_case.rounds);
    let beyond = rounds.map(|(plain, null)| {
        let both = plain.server_cpu_ns_per_op.zip(null.server_cpu_ns_per_op);
        let of_round = both.map(|(server, null)| (server - null).max(0.0));
        of_round.or(server).unwrap_or(0.0)
    });
    let both = blocks.iter().zip(null_blocks).zip(beyond);
    both.filter(|((sums, null), _)| sums.ops > 0 && null.ops > 0)
        .map(|((sums, null), server)| sums.whole_ns() - own_ns(sums) - null.wait_ns() - server)
        .collect()
}

fn median_of(blocks: &[PartSums], of: impl Fn(&PartSums) -> f64) -> Option<f64> {
    let values = blocks.iter().filter(|sums| sums.ops > 0).map(of);
    median(&values.collect::<Vec<_>>())
}

/// The CPU time of the server per operation: the median over the rounds.
fn server_cpu(case: &Case) -> Option<f64> {
    let rounds = case.rounds.iter();
    let known: Option<Vec<f64>> = rounds.map(|round| round.server_cpu_ns_per_op).collect();
    median(&known?)
}
