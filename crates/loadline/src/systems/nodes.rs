//! The nodes of a cluster, queried one by one: role, setup, and activity.

use std::time::Instant;

use loadline_measure::doctor::{ClusterNode, Observed, SETTINGS};

use super::watch::{PERSISTENCE, persistence_of, swapped_bytes};
use super::{Access, Opened};
use crate::exit::Failure;
use crate::systems::admin::{Admin, Info};

/// A node that is queried directly.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Its address.
    pub(crate) address: String,
    pub(crate) is_master: bool,
    /// Whether it is on this machine.
    pub(crate) is_local: bool,
    pub(crate) admin: Admin,
    /// Its INFO at the start.
    pub(crate) info: Info,
    since: Instant,
}

impl Opened {
    /// Connects to the nodes of a cluster, masters first; returns none if the target is not a cluster. A replica
    /// that does not answer is left out.
    ///
    /// # Errors
    /// If a master does not answer.
    pub(crate) fn nodes_asked(&self) -> Result<Vec<Asked>, Failure> {
        let Access::Cluster(cluster) = &self.access else {
            return Ok(Vec::new());
        };
        let masters = cluster.cluster.masters();
        let nodes = cluster.cluster.nodes();
        let asked = nodes.iter().filter_map(|node| {
            let (endpoint, _) = cluster.endpoints(node);
            let address = format!("{}:{}", node.host(), node.port());
            let is_master = masters.contains(node);
            let is_local = endpoint.server().is_local();
            let opened = Admin::open(&endpoint.named(format!("{}, node {address}", self.name)));
            let asked = opened.and_then(|mut admin| {
                Ok(Asked {
                    address,
                    is_master,
                    is_local,
                    info: admin.info(&[])?,
                    admin,
                    since: Instant::now(),
                })
            });
            Some(asked).filter(|asked| is_master || asked.is_ok())
        });
        asked.collect()
    }
}

impl Opened {
    /// Suffix of the scopes of findings about single nodes.
    pub(crate) fn node_names(&self) -> Vec<String> {
        let Access::Cluster(cluster) = &self.access else {
            return Vec::new();
        };
        let nodes = cluster.cluster.nodes();
        nodes
            .iter()
            .map(|node| format!("node {}:{}", node.host(), node.port()))
            .collect()
    }
}

impl Asked {
    /// The state that the rules about clusters examine.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn describe(&mut self) -> Result<ClusterNode, Failure> {
        let mut settings = std::collections::BTreeMap::new();
        let names = PERSISTENCE.iter().map(|(name, _)| *name);
        for name in SETTINGS.into_iter().chain(names) {
            if let Some(value) = self.admin.setting(name)? {
                settings.insert(name.to_owned(), value);
            }
        }
        let (slots, moving_slots) = self.admin.own_slots()?.unzip();
        Ok(ClusterNode {
            name: self.address.clone(),
            is_master: self.is_master,
            version: self.info.get("redis_version").map(ToOwned::to_owned),
            slots,
            moving_slots,
            settings,
        })
    }

    /// The activity since the first query, which only the node itself reports.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn seen(&mut self, is_ours: bool) -> Result<Observed, Failure> {
        let stats = self.admin.info(&["stats"])?;
        let evicted = |info: &Info| info.number("evicted_keys");
        let mut persistence = Vec::new();
        for (name, off) in PERSISTENCE {
            let value = self.admin.setting(name)?;
            persistence.extend(persistence_of(name, off, value));
        }
        let other_clients = if is_ours {
            None
        } else {
            self.admin.other_clients(self.since.elapsed())?
        };
        Ok(Observed {
            persistence,
            evicted_keys: evicted(&stats)
                .zip(evicted(&self.info))
                .map(|(after, before)| after.saturating_sub(before)),
            swapped_bytes: self.is_local.then(|| swapped_bytes(&self.info)).flatten(),
            other_clients,
            ..Observed::default()
        })
    }
}
