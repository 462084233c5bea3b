//! The pictures of tiers: the ladder of their times, and the map of where a tier pays.

use loadline_measure::record::{Case, Record, TierCost, Tiers, Waterfall};
use loadline_measure::tiers::Part;
use loadline_measure::words;

use super::{mean, tier};
use crate::document::{Block, DecisionMap, Ladder, MapPoint, Plot, Rung, Section};

/// Groups of parts, with a colour each.
const GROUPS: [&str; 6] = [
    "codec",
    "client",
    "network and system calls",
    "server",
    "embedded store",
    "rest, or not divided",
];
const REST: usize = 5;
/// The lines of the map.
const RATIOS: [f64; 4] = [0.2, 0.5, 0.8, 0.95];

pub(super) fn section(record: &Record, tiers: &Tiers) -> Option<Section> {
    if tiers.costs.is_empty() {
        return None;
    }
    let mut rows: Vec<Rung> = Vec::new();
    let in_memory = [
        (tiers.cases.hit, "memory: hit"),
        (tiers.cases.deep_copy, "memory: deep copy"),
    ];
    for (id, label) in in_memory {
        let case = id.and_then(|id| record.case(id));
        rows.extend(case.map(|case| rung(case, label)));
    }
    rows.extend(tiers.costs.iter().map(|cost| tier_rung(tiers, cost)));
    rows.push(recompute_rung(record, tiers));
    rows.sort_by(|one, other| one.ns.total_cmp(&other.ns));
    let mut points: Vec<MapPoint> = Vec::new();
    for (place, cost) in tiers.costs.iter().enumerate() {
        points.push(MapPoint {
            label: tier(tiers, cost),
            title: format!(
                "{}: hit {}, recompute {}",
                tier(tiers, cost),
                words::duration(cost.get_ns),
                words::duration(tiers.object.recompute_ns)
            ),
            colour: place,
            get_ns: cost.get_ns,
            p99_ns: cost.get_ns_p99.map(|ns| ns as f64),
        });
    }
    let ladder = Ladder {
        caption: "Tier ladder: mean time, divided by the shares of its parts (line: fastest to p99, dot: median)".into(),
        key: GROUPS.iter().enumerate().map(|(colour, name)| (colour, (*name).to_owned())).collect(),
        rows,
    };
    let map = DecisionMap {
        caption: "Decision map: a tier pays at the hit ratio of a diagonal if its mark is above it (vertical axis: time to recompute; a write is assumed to take as long as a read; line: to p99)".into(),
        recompute_ns: tiers.object.recompute_ns,
        ratios: RATIOS.to_vec(),
        points,
    };
    Section::new(
        "Tier ladder and decision map",
        vec![
            Block::Plot(Plot::Ladder(ladder)),
            Block::Plot(Plot::Map(map)),
        ],
    )
}

/// A rung without parts.
fn rung(case: &Case, label: &str) -> Rung {
    let times = &case.response_time_ns;
    let ns = mean(case);
    Rung {
        title: format!("{label}, {}", words::duration(ns)),
        label: label.to_owned(),
        ns,
        min_ns: times.min.map(|ns| ns as f64),
        p50_ns: times.p50.map(|ns| ns as f64),
        p99_ns: times.p99.map(|ns| ns as f64),
        parts: vec![(REST, 1.0)],
    }
}

fn recompute_rung(record: &Record, tiers: &Tiers) -> Rung {
    let case = tiers.cases.recompute.and_then(|id| record.case(id));
    let measured = case.map(|case| rung(case, "recompute: this object"));
    let ns = tiers.object.recompute_ns;
    measured.unwrap_or_else(|| Rung {
        label: "recompute, as given".into(),
        title: format!("recompute, as given, {}", words::duration(ns)),
        ns,
        min_ns: None,
        p50_ns: None,
        p99_ns: None,
        parts: vec![(REST, 1.0)],
    })
}

fn tier_rung(tiers: &Tiers, cost: &TierCost) -> Rung {
    let label = tier(tiers, cost);
    Rung {
        title: format!("{label}: hit {}", words::duration(cost.get_ns)),
        label,
        ns: cost.get_ns,
        min_ns: cost.get_ns_min.map(|ns| ns as f64),
        p50_ns: cost.get_ns_p50.map(|ns| ns as f64),
        p99_ns: cost.get_ns_p99.map(|ns| ns as f64),
        parts: tiers
            .waterfall(cost)
            .map_or_else(|| vec![(REST, 1.0)], shares),
    }
}

/// The shares of the groups of parts, as colours.
fn shares(waterfall: &Waterfall) -> Vec<(usize, f64)> {
    let is_embedded = waterfall.network_ns.is_none();
    let mut groups = [0.0; GROUPS.len()];
    for (part, ns) in waterfall.parts() {
        let group = match part {
            Part::Encode | Part::Decode => 0,
            Part::Server => 3,
            _ if is_embedded => 4,
            // Sending and receiving are system calls: the client's own part is what the table says it is.
            Part::Network | Part::Write | Part::Read => 2,
            _ => 1,
        };
        groups[group] += ns;
    }
    groups[REST] = waterfall.unattributed_ns.max(0.0);
    let all: f64 = groups.iter().sum::<f64>().max(1.0);
    let shares = groups.iter().enumerate();
    shares.map(|(colour, ns)| (colour, ns / all)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client's own 190 ns were drawn as a third of the bar, because sending and receiving counted as the client's.
    #[test]
    fn system_calls_are_not_drawn_as_the_client() {
        let waterfall = Waterfall {
            client_ns: Some(190.0),
            write_ns: Some(30_000.0),
            read_ns: Some(10_000.0),
            network_ns: Some(50_000.0),
            server_ns: Some(9_810.0),
            ..Waterfall::default()
        };
        let shares = shares(&waterfall);
        assert!(shares[1].1 < 0.01, "{shares:?}");
        assert!((shares[2].1 - 0.9).abs() < 0.01, "{shares:?}");
    }
}
