//! A measured cluster: its nodes, and their administration.

use loadline_client::cluster::{Builder, Node};
use loadline_client::commands::dbsize;
use loadline_client::{Error, Tls, blocking};
use loadline_measure::record;
use loadline_resp::Protocol;

use super::admin::{Admin, Info};
use super::client;
use super::connect::Endpoint;
use super::hints::hint;
use super::link::Path;
use super::servers::ClusterChild;
use super::tls;
use crate::exit::Failure;
use crate::plan::Plan;
use crate::spelling::{Address, Server};

/// A measured cluster.
#[derive(Debug)]
pub(crate) struct ClusterAccess {
    pub(crate) name: String,
    /// The client configuration, directly and through a link.
    direct: Builder,
    linked: Builder,
    /// TLS trust of connections to its nodes, directly and through a link.
    tls: Tls,
    linked_tls: Tls,
    /// The login of its nodes.
    login: Server,
    pub(crate) cluster: blocking::Cluster,
    protocol: Protocol,
    /// One hash tag per master, whose slot it served when the run began.
    pub(crate) tags: Vec<String>,
    /// The link in the path, with one entrance per node.
    path: Option<Path>,
    /// The first master, which is queried for versions and settings.
    pub(crate) admin: Admin,
    /// Its INFO before the run.
    pub(crate) info: Info,
    children: Option<ClusterChild>,
}

impl ClusterAccess {
    /// Connects to the cluster of these nodes.
    ///
    /// # Errors
    /// If none of them answers or belongs to a cluster.
    pub(crate) fn open(
        name: &str,
        seeds: &[Server],
        children: Option<ClusterChild>,
        plan: &Plan,
    ) -> Result<Self, Failure> {
        let unreachable = |error: Error| unreachable(name, &error);
        let first = &seeds[0];
        let trust = |hosts: &[&str]| match first.tls {
            true => tls::trust(&plan.tls, hosts),
            false => Ok(Tls::default()),
        };
        let tls = trust(&[])?;
        let direct = client::cluster(seeds, &tls, plan.protocol).map_err(unreachable)?;
        let cluster = direct.clone().open_blocking().map_err(unreachable)?;
        let master = cluster.masters().swap_remove(0);
        let endpoint = Endpoint::new(server(first, &master), plan.protocol, tls.clone());
        let mut admin = Admin::open(&endpoint)?;
        let info = admin.info(&[])?;
        let known = cluster.nodes();
        let nodes: Vec<Server> = known.iter().map(|node| server(first, node)).collect();
        let hosts: Vec<&str> = known.iter().map(Node::host).collect();
        let linked_tls = trust(&hosts)?;
        Ok(Self {
            name: name.to_owned(),
            linked: client::cluster(seeds, &linked_tls, plan.protocol).map_err(unreachable)?,
            direct,
            tls,
            linked_tls,
            login: first.clone(),
            protocol: plan.protocol,
            tags: tags(&cluster),
            path: Path::open(&nodes, plan.latency, &plan.path, plan.seed)?,
            cluster,
            admin,
            info,
            children,
        })
    }

    /// The link in the path with its measured accuracy, if there is one.
    pub(crate) fn link(&self) -> Option<&record::Link> {
        self.path.as_ref().map(|path| &path.measured)
    }

    /// The processes started for it by this run.
    pub(crate) fn children(&self) -> Vec<u32> {
        let children = self.children.as_ref();
        children.map(ClusterChild::pids).unwrap_or_default()
    }

    /// Connections to a node: directly, and through the link if there is one. A node that joined after the link
    /// was set up has no entrance and is reached directly.
    pub(crate) fn endpoints(&self, node: &Node) -> (Endpoint, Endpoint) {
        let server = server(&self.login, node);
        let routes = self.path.as_ref().map_or(&[][..], Path::routes);
        let entrance = routes.iter().find(|(own, _)| *own == server.address);
        let further = Server {
            address: entrance
                .map_or(&server.address, |(_, entrance)| entrance)
                .clone(),
            ..server.clone()
        };
        let endpoint = |server, tls: &Tls| Endpoint::new(server, self.protocol, tls.clone());
        (
            endpoint(server, &self.tls),
            endpoint(further, &self.linked_tls),
        )
    }

    /// The current slot map of the cluster.
    ///
    /// # Errors
    /// If none of its nodes answers.
    pub(crate) fn look_again(&self) -> Result<blocking::Cluster, Failure> {
        let opened = self.direct.clone().open_blocking();
        opened.map_err(|error| Failure::unavailable(format!("{}: {error}.", self.name)))
    }

    /// The client configuration, through `path` if there is a link to each node.
    pub(crate) fn through(&self, path: Option<&Path>) -> Builder {
        let routes = path.map_or(&[][..], Path::routes);
        let nodes = routes.iter().filter_map(|(own, instead)| {
            let (own, instead) = (client::node(own)?, client::node(instead)?);
            Some((own, instead))
        });
        let builder = path.map_or(&self.direct, |_| &self.linked);
        nodes.fold(builder.clone(), |builder, (own, instead)| {
            builder.reach(own, instead)
        })
    }

    /// Its masters, followed by their replicas.
    pub(crate) fn nodes(&self) -> Vec<Server> {
        let nodes = self.cluster.nodes();
        nodes.iter().map(|node| server(&self.login, node)).collect()
    }

    /// The number of keys on its masters.
    ///
    /// # Errors
    /// If a master does not answer.
    pub(crate) fn key_count(&mut self) -> Result<u64, Failure> {
        let counted = self.cluster.run(dbsize());
        counted.map_err(|error| Failure::unavailable(format!("{}: DBSIZE: {error}.", self.name)))
    }
}

/// The failure that a cluster cannot be reached.
pub(crate) fn unreachable(name: &str, error: &Error) -> Failure {
    let said = error.to_string();
    let advice = hint(&said)
        .unwrap_or("Name a node of a running cluster; a single server is redis://HOST:PORT.");
    Failure::unavailable(format!("{name} cannot be used: {said}.\n{advice}"))
}

/// A node as a server, with the credentials of `login`.
pub(crate) fn server(login: &Server, node: &Node) -> Server {
    Server {
        address: Address::Tcp {
            host: node.host().to_owned(),
            port: node.port(),
        },
        ..login.clone()
    }
}

/// Candidate hash tags; every slot has at least one among them.
const TAGS: u32 = 1_000_000;

/// A hash tag for each master, in a slot that it serves. All tags have the same length, so that operations have
/// the same size on every master.
fn tags(cluster: &blocking::Cluster) -> Vec<String> {
    let mut wanted = cluster.masters();
    let mut tags = Vec::with_capacity(wanted.len());
    let mut candidates = (0..TAGS).map(tag);
    while !wanted.is_empty() {
        let tag = candidates
            .next()
            .expect("a master serves a slot, and every slot has a tag");
        let owner = cluster.master_of(&tag);
        let place = wanted.iter().position(|one| Some(one) == owner.as_ref());
        if let Some(place) = place {
            wanted.swap_remove(place);
            tags.push(tag);
        }
    }
    tags
}

fn tag(number: u32) -> String {
    format!("{number:06}")
}

#[cfg(test)]
mod tests {
    use loadline_client::cluster::{SLOTS, slot_of};

    use super::*;

    #[test]
    fn every_slot_has_a_tag() {
        let mut missing = vec![true; SLOTS.into()];
        for number in 0..TAGS {
            missing[usize::from(slot_of(tag(number).as_bytes()))] = false;
        }
        assert_eq!(missing.iter().filter(|slot| **slot).count(), 0);
        let key = |tag: &str| format!("loadline:run:strings:{{{tag}}}:0001");
        assert_eq!(slot_of(key("000042").as_bytes()), slot_of(b"000042"));
    }
}
