//! Rules about a cluster as a whole: differences between its nodes.

use std::collections::BTreeMap;

use super::Severity;
use super::flaw::{ClusterFlaw, Diagnosis, Grouped};

/// Settings that masters should have in common, by their names in `CONFIG GET`.
const ALIKE: [&str; 7] = [
    "save",
    "appendonly",
    "appendfsync",
    "maxmemory",
    "maxmemory-policy",
    "io-threads",
    "slowlog-log-slower-than",
];
/// The largest ratio of the slots of two masters without a finding.
const UNEVEN: f64 = 1.1;

/// A node of a cluster. Values that were not read are `None` or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its address.
    pub name: String,
    /// Whether it is a master with slots or a replica.
    pub is_master: bool,
    /// The version of its program.
    pub version: Option<String>,
    /// Number of slots that it serves.
    pub slots: Option<u64>,
    /// Number of slots that are moving to it or from it.
    pub moving_slots: Option<u64>,
    /// Its settings.
    pub settings: BTreeMap<String, String>,
}

/// Applies the rules about nodes to the cluster `scope`.
#[must_use]
pub fn examine_cluster(scope: &str, nodes: &[ClusterNode]) -> Vec<Diagnosis> {
    let flaws = [
        versions(nodes),
        settings(nodes),
        slots(nodes),
        moving(nodes),
    ];
    let flaws = flaws.into_iter().flatten();
    flaws
        .map(|(severity, flaw)| Diagnosis::new(scope, severity, flaw))
        .collect()
}

fn versions(nodes: &[ClusterNode]) -> Option<(Severity, ClusterFlaw)> {
    let by_version = |masters_only: bool| {
        let nodes = nodes.iter().filter(|node| node.is_master || !masters_only);
        grouped(nodes.filter_map(|node| Some((node.version.as_deref()?, node.name.as_str()))))
    };
    let all = by_version(false);
    let severity = if by_version(true).len() > 1 {
        Severity::Warning
    } else {
        Severity::Info
    };
    (all.len() > 1).then_some((severity, ClusterFlaw::Versions(all)))
}

fn settings(nodes: &[ClusterNode]) -> Option<(Severity, ClusterFlaw)> {
    let different = ALIKE.iter().filter_map(|setting| {
        let masters = nodes.iter().filter(|node| node.is_master);
        let values = grouped(masters.filter_map(|node| {
            let value = node.settings.get(*setting)?;
            Some((value.as_str(), node.name.as_str()))
        }));
        (values.len() > 1).then(|| ((*setting).to_owned(), values))
    });
    let different: Vec<(String, Grouped)> = different.collect();
    (!different.is_empty()).then_some((Severity::Warning, ClusterFlaw::Settings(different)))
}

fn slots(nodes: &[ClusterNode]) -> Option<(Severity, ClusterFlaw)> {
    let masters = nodes.iter().filter(|node| node.is_master);
    let slots = masters.filter_map(|node| Some((node.slots?, node.name.as_str())));
    let (least, most) = (slots.clone().min()?, slots.max()?);
    let named = |(slots, name): (u64, &str)| (name.to_owned(), slots);
    (most.0 as f64 > least.0 as f64 * UNEVEN).then(|| {
        let (most, least) = (named(most), named(least));
        (Severity::Warning, ClusterFlaw::Slots { most, least })
    })
}

fn moving(nodes: &[ClusterNode]) -> Option<(Severity, ClusterFlaw)> {
    let moving = nodes.iter().filter_map(|node| {
        let count = node.moving_slots.filter(|count| *count > 0)?;
        Some((node.name.clone(), count))
    });
    let moving: Vec<(String, u64)> = moving.collect();
    (!moving.is_empty()).then_some((Severity::Warning, ClusterFlaw::Moving(moving)))
}

/// The nodes grouped by their answer.
fn grouped<'n>(said: impl Iterator<Item = (&'n str, &'n str)>) -> Grouped {
    let mut groups = Grouped::new();
    for (what, node) in said {
        groups
            .entry(what.to_owned())
            .or_default()
            .push(node.to_owned());
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Vec<ClusterNode> {
        let node = |(name, slots): (&str, Option<u64>)| ClusterNode {
            name: name.to_owned(),
            is_master: slots.is_some(),
            version: Some("7.0.15".to_owned()),
            slots,
            moving_slots: Some(0),
            settings: [("appendonly".to_owned(), "no".to_owned())].into(),
        };
        let parts = [("a:1", 5461), ("b:1", 5462), ("c:1", 5461)];
        let masters = parts.map(|(name, slots)| (name, Some(slots)));
        masters
            .into_iter()
            .chain([("d:1", None)])
            .map(node)
            .collect()
    }

    #[test]
    fn nodes_that_are_alike_have_no_findings() {
        assert_eq!(examine_cluster("cluster", &cluster()), []);
        assert_eq!(examine_cluster("cluster", &[]), []);
        assert_eq!(examine_cluster("cluster", &[ClusterNode::default()]), []);
    }

    fn by_node(groups: &[(&str, &[&str])]) -> Grouped {
        let owned = |(value, nodes): &(&str, &[&str])| {
            let nodes = nodes.iter().map(|&node| node.to_owned());
            ((*value).to_owned(), nodes.collect())
        };
        groups.iter().map(owned).collect()
    }

    #[test]
    fn each_difference_is_found_and_names_its_nodes() {
        type Change = fn(&mut [ClusterNode]);
        let setting =
            |name: &str, groups| ClusterFlaw::Settings(vec![(name.to_owned(), by_node(groups))]);
        let table: [(&str, Severity, Change, ClusterFlaw); 6] = [
            (
                "LL030",
                Severity::Warning,
                |nodes| nodes[1].version = Some("6.2.6".to_owned()),
                ClusterFlaw::Versions(by_node(&[
                    ("6.2.6", &["b:1"]),
                    ("7.0.15", &["a:1", "c:1", "d:1"]),
                ])),
            ),
            (
                "LL030",
                Severity::Info,
                |nodes| nodes[3].version = Some("6.2.6".to_owned()),
                ClusterFlaw::Versions(by_node(&[
                    ("6.2.6", &["d:1"]),
                    ("7.0.15", &["a:1", "b:1", "c:1"]),
                ])),
            ),
            (
                "LL031",
                Severity::Warning,
                |nodes| {
                    nodes[2].settings.insert("appendonly".into(), "yes".into());
                },
                setting("appendonly", &[("no", &["a:1", "b:1"]), ("yes", &["c:1"])]),
            ),
            (
                "LL031",
                Severity::Warning,
                |nodes| {
                    for (node, value) in nodes.iter_mut().zip(["", "900 1", "", ""]) {
                        node.settings.insert("save".into(), value.into());
                    }
                },
                setting("save", &[("", &["a:1", "c:1"]), ("900 1", &["b:1"])]),
            ),
            (
                "LL032",
                Severity::Warning,
                |nodes| nodes[1].slots = Some(6_100),
                ClusterFlaw::Slots {
                    most: ("b:1".to_owned(), 6_100),
                    least: ("a:1".to_owned(), 5_461),
                },
            ),
            (
                "LL033",
                Severity::Warning,
                |nodes| nodes[0].moving_slots = Some(2),
                ClusterFlaw::Moving(vec![("a:1".to_owned(), 2)]),
            ),
        ];
        for (rule, severity, change, flaw) in table {
            let mut nodes = cluster();
            change(&mut nodes);
            let found = examine_cluster("cluster", &nodes);
            assert_eq!(found, [Diagnosis::new("cluster", severity, flaw)]);
            assert_eq!(found[0].rule().as_str(), rule);
        }
    }

    #[test]
    fn permitted_differences_between_nodes_are_ignored() {
        let table: [fn(&mut [ClusterNode]); 4] = [
            // A replica has no slots, and may write to disk for its master.
            |nodes| {
                nodes[3].settings.insert("appendonly".into(), "yes".into());
            },
            |nodes| {
                nodes[2].settings.insert("port".into(), "7".into());
            },
            |nodes| nodes[1].slots = Some(6_000),
            |nodes| nodes[1].version = None,
        ];
        for (row, change) in table.into_iter().enumerate() {
            let mut nodes = cluster();
            change(&mut nodes);
            assert_eq!(examine_cluster("cluster", &nodes), [], "row {row}");
        }
    }
}
