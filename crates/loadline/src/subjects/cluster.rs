//! A cluster that is measured: its nodes, and what is done there beside the load.

use loadline_client::cluster::{Builder, Node};
use loadline_client::commands::{dbsize, scan, unlink};
use loadline_client::{Error, blocking};

use super::client;
use crate::admin::{Admin, Info};
use crate::connect::Endpoint;
use crate::exit::Failure;
use crate::link::Path;
use crate::plan::Plan;
use crate::servers::ClusterChild;
use crate::target::{Address, Server};
use crate::units::count_text;

/// Keys that a step of the clean-up looks at.
const SCAN_COUNT: u64 = 1_000;

/// A cluster that can be measured.
#[derive(Debug)]
pub(super) struct ClusterAccess {
    name: String,
    builder: Builder,
    /// How its nodes are logged in to.
    login: Server,
    cluster: blocking::Cluster,
    /// The first master, who speaks for all about versions and settings.
    pub(super) admin: Admin,
    /// What it said about itself before the run.
    pub(super) info: Info,
    _children: Option<ClusterChild>,
}

impl ClusterAccess {
    /// Reaches the cluster that these nodes belong to.
    ///
    /// # Errors
    /// That none of them answers, or is part of a cluster.
    pub(super) fn open(
        name: &str,
        seeds: &[Server],
        children: Option<ClusterChild>,
        plan: &Plan,
    ) -> Result<Self, Failure> {
        let unreachable =
            |error: Error| Failure::unavailable(format!("{name} cannot be measured: {error}."));
        let (first, others) = seeds.split_first().expect("a cluster has a node");
        let config = client::builder(first, &first.address)?.build();
        let mut builder = Builder::from_config(config.config().clone()).map_err(unreachable)?;
        for seed in others {
            if let Some(node) = node(&seed.address) {
                builder = builder.seed(node);
            }
        }
        let cluster = builder.clone().open_blocking().map_err(unreachable)?;
        let master = cluster.masters().swap_remove(0);
        let endpoint = Endpoint::new(server(first, &master), plan.protocol, None);
        let mut admin = Admin::open(&endpoint)?;
        let info = admin.info(&[])?;
        Ok(Self {
            name: name.to_owned(),
            builder,
            login: first.clone(),
            cluster,
            admin,
            info,
            _children: children,
        })
    }

    /// How its clients find it, through `path` where a link is in the way to each node.
    pub(super) fn through(&self, path: Option<&Path>) -> Builder {
        let routes = path.map_or(&[][..], Path::routes);
        let nodes = routes.iter().filter_map(|(own, instead)| {
            let (own, instead) = (node(own)?, node(instead)?);
            Some((own, instead))
        });
        nodes.fold(self.builder.clone(), |builder, (own, instead)| {
            builder.reach(own, instead)
        })
    }

    /// Its masters, and then their replicas.
    pub(super) fn nodes(&self) -> Vec<Server> {
        let nodes = self.cluster.nodes();
        nodes.iter().map(|node| server(&self.login, node)).collect()
    }

    /// How many keys its masters hold.
    ///
    /// # Errors
    /// That one of them does not answer.
    pub(super) fn key_count(&mut self) -> Result<u64, Failure> {
        let counted = self.cluster.run(dbsize());
        counted.map_err(|error| Failure::unavailable(format!("{}: DBSIZE: {error}.", self.name)))
    }

    /// Refuses a cluster that holds keys, as a server that does is refused.
    ///
    /// # Errors
    /// A usage error that names the flag which allows it, or that a node does not answer.
    pub(super) fn refuse_keys(&mut self) -> Result<(), Failure> {
        match self.key_count()? {
            0 => Ok(()),
            keys => Err(Failure::usage(format!(
                "{} holds keys already ({}), so somebody may be using it.\nMeasure another cluster, or add --allow-non-empty.",
                self.name,
                count_text(keys)
            ))),
        }
    }

    /// Removes every key under `prefix` from all masters.
    ///
    /// # Errors
    /// That a node does not answer, and what is left.
    pub(super) fn remove_prefix(&mut self, prefix: &str) -> Result<(), Failure> {
        let name = self.name.clone();
        self.remove(prefix).map_err(|error| {
            Failure::unavailable(format!(
                "{name}: keys under {prefix} are left: {error}.\nRemove them with SCAN and UNLINK on every master."
            ))
        })
    }

    fn remove(&mut self, prefix: &str) -> Result<(), Error> {
        // A prefix of ours has no character that means something in a pattern but braces, which do not.
        let pattern = format!("{prefix}*");
        for master in self.cluster.masters() {
            let mut node = self.cluster.connection(&master)?;
            let mut cursor = 0;
            loop {
                let found = node.run(scan::<Vec<u8>>(cursor, &pattern, SCAN_COUNT))?;
                let (next, mut keys) = found;
                keys.retain(|key| key.starts_with(prefix.as_bytes()));
                if !keys.is_empty() {
                    self.cluster.run(unlink(&keys))?;
                }
                if next == 0 {
                    break;
                }
                cursor = next;
            }
        }
        Ok(())
    }
}

/// A node as a server that is logged in to as `login` is.
fn server(login: &Server, node: &Node) -> Server {
    Server {
        address: Address::Tcp {
            host: node.host().to_owned(),
            port: node.port(),
        },
        ..login.clone()
    }
}

/// The node at an address; a cluster has none behind a socket in the file system.
fn node(address: &Address) -> Option<Node> {
    match address {
        Address::Tcp { host, port } => Some(Node::new(host.as_str(), *port)),
        Address::Unix(_) => None,
    }
}
