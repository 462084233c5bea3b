//! Rules about a cluster as a whole: differences between its nodes.

use std::collections::BTreeMap;

use super::{Finding, Rule, Severity};

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
pub fn examine_cluster(scope: &str, nodes: &[ClusterNode]) -> Vec<Finding> {
    let findings = [
        versions(nodes),
        settings(nodes),
        slots(nodes),
        moving(nodes),
    ];
    let findings = findings.into_iter().flatten();
    findings
        .map(|finding| Finding {
            scope: scope.to_owned(),
            ..finding
        })
        .collect()
}

fn versions(nodes: &[ClusterNode]) -> Option<Finding> {
    let by_version = |masters_only: bool| {
        let nodes = nodes.iter().filter(|node| node.is_master || !masters_only);
        grouped(nodes.filter_map(|node| Some((node.version.as_deref()?, node.name.as_str()))))
    };
    let all = by_version(false);
    (all.len() > 1).then(|| {
        let among_masters = by_version(true).len() > 1;
        finding(
            Rule::ClusterVersions,
            if among_masters {
                Severity::Warning
            } else {
                Severity::Info
            },
            format!("The nodes run different versions: {}.", told(&all)),
            "Use one version on all nodes: the figures mix the versions and depend on which master holds which keys.",
        )
    })
}

fn settings(nodes: &[ClusterNode]) -> Option<Finding> {
    let different = ALIKE.iter().filter_map(|setting| {
        let masters = nodes.iter().filter(|node| node.is_master);
        let values = grouped(masters.filter_map(|node| {
            let value = node.settings.get(*setting)?;
            Some((value.as_str(), node.name.as_str()))
        }));
        (values.len() > 1).then(|| format!("{setting} is {}", told(&values)))
    });
    let different: Vec<String> = different.collect();
    (!different.is_empty()).then(|| {
        finding(
            Rule::ClusterSettings,
            Severity::Warning,
            format!("The masters have different settings: {}.", different.join("; ")),
            "Use the same settings on all masters (CONFIG SET), or expect tails caused by one of them.",
        )
    })
}

fn slots(nodes: &[ClusterNode]) -> Option<Finding> {
    let masters = nodes.iter().filter(|node| node.is_master);
    let slots = masters.filter_map(|node| Some((node.slots?, node.name.as_str())));
    let (least, most) = (slots.clone().min()?, slots.max()?);
    (most.0 as f64 > least.0 as f64 * UNEVEN).then(|| {
        finding(
            Rule::ClusterSlots,
            Severity::Warning,
            format!(
                "The slots are spread unevenly: {} serves {} and {} {}.",
                most.1, most.0, least.1, least.0
            ),
            "Rebalance (redis-cli --cluster rebalance): a measurement loads all masters equally, but an application sends most to the largest.",
        )
    })
}

fn moving(nodes: &[ClusterNode]) -> Option<Finding> {
    let moving = nodes.iter().filter_map(|node| {
        let count = node.moving_slots.filter(|count| *count > 0)?;
        Some(format!("{} ({count})", node.name))
    });
    let moving: Vec<String> = moving.collect();
    (!moving.is_empty()).then(|| {
        finding(
            Rule::ClusterMoving,
            Severity::Warning,
            format!("Slots are migrating to or from {}.", moving.join(" and ")),
            "Wait for the migration to finish (redis-cli --cluster check): until then, requests for their keys can be redirected.",
        )
    })
}

/// The nodes grouped by their answer.
fn grouped<'n>(said: impl Iterator<Item = (&'n str, &'n str)>) -> BTreeMap<&'n str, Vec<&'n str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (what, node) in said {
        groups.entry(what).or_default().push(node);
    }
    groups
}

fn told(groups: &BTreeMap<&str, Vec<&str>>) -> String {
    let each = groups.iter().map(|(what, nodes)| {
        let what = if what.is_empty() { "empty" } else { *what };
        format!("{what} ({})", nodes.join(", "))
    });
    each.collect::<Vec<_>>().join(" and ")
}

fn finding(rule: Rule, severity: Severity, evidence: String, what_to_do: &str) -> Finding {
    Finding {
        rule,
        severity,
        scope: String::new(),
        evidence,
        what_to_do: what_to_do.to_owned(),
    }
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

    #[test]
    fn each_difference_is_found_and_names_its_nodes() {
        type Change = fn(&mut [ClusterNode]);
        let table: [(&str, Severity, Change, &str); 6] = [
            (
                "LL030",
                Severity::Warning,
                |nodes| nodes[1].version = Some("6.2.6".to_owned()),
                "6.2.6 (b:1) and 7.0.15 (a:1, c:1, d:1)",
            ),
            (
                "LL030",
                Severity::Info,
                |nodes| nodes[3].version = Some("6.2.6".to_owned()),
                "6.2.6 (d:1) and 7.0.15 (a:1, b:1, c:1)",
            ),
            (
                "LL031",
                Severity::Warning,
                |nodes| {
                    nodes[2].settings.insert("appendonly".into(), "yes".into());
                },
                "appendonly is no (a:1, b:1) and yes (c:1)",
            ),
            (
                "LL031",
                Severity::Warning,
                |nodes| {
                    for (node, value) in nodes.iter_mut().zip(["", "900 1", "", ""]) {
                        node.settings.insert("save".into(), value.into());
                    }
                },
                "save is empty (a:1, c:1) and 900 1 (b:1)",
            ),
            (
                "LL032",
                Severity::Warning,
                |nodes| nodes[1].slots = Some(6_100),
                "b:1 serves 6100 and a:1 5461",
            ),
            (
                "LL033",
                Severity::Warning,
                |nodes| nodes[0].moving_slots = Some(2),
                "to or from a:1 (2)",
            ),
        ];
        for (rule, severity, change, evidence) in table {
            let mut nodes = cluster();
            change(&mut nodes);
            let found = examine_cluster("cluster", &nodes);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(
                (
                    found[0].rule.as_str(),
                    found[0].severity,
                    found[0].scope.as_str()
                ),
                (rule, severity, "cluster")
            );
            assert!(
                found[0].evidence.contains(evidence),
                "{}",
                found[0].evidence
            );
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
