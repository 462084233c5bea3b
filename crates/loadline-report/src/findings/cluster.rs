//! Differences between the nodes of a cluster.

use loadline_measure::doctor::{ClusterFlaw, Grouped};

pub(super) fn evidence(flaw: &ClusterFlaw) -> String {
    match flaw {
        ClusterFlaw::Versions(versions) => {
            format!("The nodes run different versions: {}.", by_node(versions))
        }
        ClusterFlaw::Settings(settings) => {
            let each = settings.iter();
            let each = each.map(|(name, values)| format!("{name} is {}", by_node(values)));
            let each: Vec<String> = each.collect();
            format!("The masters have different settings: {}.", each.join("; "))
        }
        ClusterFlaw::Slots { most, least } => format!(
            "The slots are spread unevenly: {} serves {} and {} {}.",
            most.0, most.1, least.0, least.1
        ),
        ClusterFlaw::Moving(nodes) => {
            let nodes = nodes
                .iter()
                .map(|(name, count)| format!("{name} ({count})"));
            let nodes: Vec<String> = nodes.collect();
            format!("Slots are migrating to or from {}.", nodes.join(" and "))
        }
    }
}

pub(super) fn advice(flaw: &ClusterFlaw) -> &'static str {
    match flaw {
        ClusterFlaw::Versions(_) => {
            "Use one version on all nodes: the figures mix the versions and depend on which master holds which keys."
        }
        ClusterFlaw::Settings(_) => {
            "Use the same settings on all masters (CONFIG SET), or expect tails caused by one of them."
        }
        ClusterFlaw::Slots { .. } => {
            "Rebalance (redis-cli --cluster rebalance): a measurement loads all masters equally, but an application sends most to the largest."
        }
        ClusterFlaw::Moving(_) => {
            "Wait for the migration to finish (redis-cli --cluster check): until then, requests for their keys can be redirected."
        }
    }
}

fn by_node(groups: &Grouped) -> String {
    let each = groups.iter().map(|(value, nodes)| {
        let value = if value.is_empty() { "empty" } else { value };
        format!("{value} ({})", nodes.join(", "))
    });
    each.collect::<Vec<_>>().join(" and ")
}
