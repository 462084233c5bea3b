//! Cases of records that were written before their answers had identifiers of cases: they are found by the names that those
//! versions wrote. Later names do not matter here.

use super::{CodecCases, TierCases, TierCost, TierSides, Tiers};
use crate::record::{Case, CaseId, SubjectKind};

impl Tiers {
    /// Adds the identifiers of cases to an answer that has none.
    pub(crate) fn find_former_cases(&mut self, cases: &[Case]) {
        let is_former =
            self.cases == TierCases::default() && self.costs.iter().all(|cost| cost.get.is_none());
        if !is_former {
            return;
        }
        let found = Named(cases);
        self.cases = found.cases();
        for cost in &mut self.costs {
            let codec = cost.codec.as_deref();
            cost.get = found.first("tiers", "get", Some(&cost.subject), codec);
        }
        for waterfall in &mut self.waterfalls {
            let (subject, codec) = (Some(waterfall.subject.as_str()), waterfall.codec.as_deref());
            waterfall.case = found.first("tiers", &waterfall.operation, subject, codec);
        }
        self.sides = sides(&self.costs, cases);
    }
}

/// The tiers that the options are about, by the kinds of their subjects and by names.
fn sides(costs: &[TierCost], cases: &[Case]) -> TierSides {
    let kind = |cost: &TierCost| Some(&cases.get(cost.get?.0)?.subject.kind);
    let is_server = |cost: &TierCost| {
        let others = [
            SubjectKind::Application,
            SubjectKind::Engine,
            SubjectKind::NullServer,
        ];
        kind(cost).is_some_and(|kind| !others.contains(kind))
    };
    let server = costs.iter().position(is_server);
    let places = |is: &dyn Fn(&TierCost) -> bool| -> Vec<usize> {
        let places = 0..costs.len();
        places.filter(|place| is(&costs[*place])).collect()
    };
    let (mut tiles, mut far) = (None, Vec::new());
    if let Some(server) = server.map(|place| &costs[place]) {
        let is_tiles = |cost: &TierCost| {
            cost.subject == server.subject && cost.codec.as_deref() == Some("protobuf-tiles")
        };
        tiles = costs.iter().position(is_tiles);
        far = places(&|cost| {
            cost.latency_ns > 0
                && cost.codec == server.codec
                && cost.subject.starts_with(&server.subject)
        });
    }
    let stores = places(&|cost| kind(cost) == Some(&SubjectKind::Engine));
    let sides = TierSides {
        server,
        tiles,
        far,
        embedded: None,
    };
    sides.with_fastest(stores.into_iter(), costs)
}

/// The cases of a record, which are found by names.
struct Named<'c>(&'c [Case]);

impl Named<'_> {
    fn group<'n>(&'n self, group: &'n str) -> impl Iterator<Item = (CaseId, &'n Case)> {
        let cases = self.0.iter().enumerate();
        cases
            .filter(move |(_, case)| case.scenario.suite.as_deref() == Some(group))
            .map(|(place, case)| (CaseId(place), case))
    }

    /// The first case with these names, of any subject or codec if none is given.
    fn first(
        &self,
        group: &str,
        operation: &str,
        subject: Option<&str>,
        codec: Option<&str>,
    ) -> Option<CaseId> {
        let is_it = |(_, case): &(CaseId, &Case)| {
            case.scenario.workload == operation
                && subject.is_none_or(|subject| case.subject.name == subject)
                && (codec.is_none() || case.scenario.codec.as_deref() == codec)
        };
        self.group(group).find(is_it).map(|(id, _)| id)
    }

    fn cases(&self) -> TierCases {
        let single = |operation| self.first("tiers", operation, None, None);
        let encodes = self.group("codecs");
        let encodes = encodes.filter(|(_, case)| case.scenario.workload == "encode");
        let codecs = encodes.map(|(encode, case)| CodecCases {
            encode,
            decode: self.first("codecs", "decode", None, case.scenario.codec.as_deref()),
        });
        TierCases {
            recompute: single("recompute"),
            hit: single("hit"),
            deep_copy: single("deep copy"),
            cached: single("get through the cache"),
            codecs: codecs.collect(),
            set_up: self.group("set-up").map(|(id, _)| id).collect(),
        }
    }
}
