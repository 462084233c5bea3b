//! The tiers that the options are about.

use loadline_measure::record::{TierCost, TierSides};

use super::{MeasuredCases, MeasuredTier};
use crate::object::{Encoding, Format};

impl MeasuredCases<'_> {
    pub(super) fn sides(&self, tiers: &[MeasuredTier], costs: &[TierCost]) -> TierSides {
        let plan = self.facts.plan;
        let target = |tier: &MeasuredTier| plan.places[tier.place].target;
        let of_server = |tier: &MeasuredTier| Some(tier.place) == plan.server();
        let server = tiers.iter().position(of_server);
        let tiles = Format::plain(Encoding::ProtobufTiles);
        let is_far = |tier: &MeasuredTier| {
            server.is_some_and(|server| {
                let server = &tiers[server];
                tier.cost.latency_ns > 0
                    && tier.format == server.format
                    && target(tier) == target(server)
            })
        };
        let places = || 0..tiers.len();
        let sides = TierSides {
            server,
            tiles: places()
                .find(|place| of_server(&tiers[*place]) && tiers[*place].format == tiles),
            far: places().filter(|place| is_far(&tiers[*place])).collect(),
            embedded: None,
        };
        let stores = places().filter(|place| plan.is_embedded(tiers[*place].place));
        sides.with_fastest(stores, costs)
    }
}
