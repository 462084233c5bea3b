//! The address of a cluster: the nodes to ask first, and the options of connections.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::ReadFrom;
use super::topology::Node;
use crate::config::Peer;
use crate::{Address, Config, Error};

/// The options of a client of a cluster.
///
/// ```
/// use loadline_client::cluster::{Builder, ReadFrom};
///
/// let builder = Builder::from_url("cluster://10.0.0.1:7000,10.0.0.2:7000?response_timeout=1s")?
///     .read_from(ReadFrom::Replica);
/// # drop(builder);
/// # Ok::<(), loadline_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    config: Config,
    seeds: Vec<Node>,
    from: ReadFrom,
    instead: HashMap<Node, Node>,
    near: HashSet<Node>,
}

/// The options of a cluster before any node was asked.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    /// The configuration of connections, without the address.
    pub(crate) config: Config,
    pub(crate) seeds: Vec<Node>,
    pub(crate) from: ReadFrom,
    /// The addresses at which nodes are reached that name another one.
    pub(crate) instead: Arc<HashMap<Node, Node>>,
    /// The nodes in the zone of the application.
    pub(crate) near: Arc<HashSet<Node>>,
}

impl Builder {
    /// Reads `cluster://[user:password@]host[:port][,host[:port]...][?options]`. The hosts are some nodes of the
    /// cluster, which name the others. `redis:` is the same as `cluster:`, and `rediss:` is with TLS. The options are
    /// those of [`Config::from_url`].
    ///
    /// # Errors
    /// [`Error::Url`] with the reason.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| {
            Error::Url("invalid URL of a cluster: expected cluster:// at its start".into())
        })?;
        let scheme = if scheme == "cluster" { "redis" } else { scheme };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, options) = rest.split_at(end);
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), authority),
        };
        let mut hosts = hosts.split(',');
        let first = hosts.next().unwrap_or_default();
        let config = Config::from_url(&format!("{scheme}://{login}{first}{options}"))?;
        let mut builder = Self::from_config(config)?;
        for host in hosts {
            let config = Config::from_url(&format!("{scheme}://{host}"))?;
            builder.seeds.push(node(&config.address)?);
        }
        Ok(builder)
    }

    /// A cluster that has a node at the address of this configuration.
    ///
    /// # Errors
    /// [`Error::Url`] for a unix socket or a database other than 0, which a cluster does not have.
    pub fn from_config(config: Config) -> Result<Self, Error> {
        if config.database != 0 {
            return Err(Error::Url("a cluster has only database 0".into()));
        }
        let seeds = vec![node(&config.address)?];
        Ok(Self {
            config,
            seeds,
            from: ReadFrom::Master,
            instead: HashMap::new(),
            near: HashSet::new(),
        })
    }

    /// Adds a node to ask first.
    #[must_use]
    pub fn seed(mut self, node: Node) -> Self {
        self.seeds.push(node);
        self
    }

    /// Sets the name that `CLIENT LIST` shows, without spaces.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.config.client_name = Some(name.into());
        self
    }

    /// Sets which nodes execute reads. Default [`ReadFrom::Master`].
    #[must_use]
    pub fn read_from(mut self, from: ReadFrom) -> Self {
        self.from = from;
        self
    }

    /// Names nodes in the same availability zone as the application, by the addresses that the cluster gives them. Reads
    /// prefer them with [`ReadFrom::Near`]. Nodes that the cluster does not have are ignored.
    ///
    /// ```
    /// use loadline_client::cluster::{Builder, Node, ReadFrom};
    ///
    /// let builder = Builder::from_url("cluster://10.0.0.1:7000")?
    ///     .near([Node::new("10.0.1.4", 7000), Node::new("10.0.1.5", 7000)])
    ///     .read_from(ReadFrom::Near);
    /// # drop(builder);
    /// # Ok::<(), loadline_client::Error>(())
    /// ```
    #[must_use]
    pub fn near(mut self, nodes: impl IntoIterator<Item = Node>) -> Self {
        self.near.extend(nodes);
        self
    }

    /// Connects to `reached` whenever the cluster or a seed names `named`. For nodes behind a tunnel, a proxy or
    /// address translation, whose own addresses cannot be reached from here. All other methods use `named` for the
    /// node. With TLS the certificate is checked against `reached`.
    ///
    /// ```
    /// use loadline_client::cluster::{Builder, Node};
    ///
    /// let builder = Builder::from_url("cluster://10.0.0.1:7000")?
    ///     .reach(Node::new("10.0.0.1", 7000), Node::new("localhost", 17000))
    ///     .reach(Node::new("10.0.0.2", 7000), Node::new("localhost", 17001));
    /// # drop(builder);
    /// # Ok::<(), loadline_client::Error>(())
    /// ```
    #[must_use]
    pub fn reach(mut self, named: Node, reached: Node) -> Self {
        self.instead.insert(named, reached);
        self
    }

    pub(crate) fn plain(self) -> Plain {
        Plain {
            config: self.config,
            seeds: self.seeds,
            from: self.from,
            instead: Arc::new(self.instead),
            near: Arc::new(self.near),
        }
    }
}

impl Plain {
    /// The configuration of a connection to a node of the cluster.
    pub(crate) fn node(&self, node: &Node) -> Arc<Config> {
        let readonly = self.from != ReadFrom::Master;
        Arc::new(Config {
            peer: Peer::Node { readonly },
            retry: crate::RetryPolicy::Never,
            ..self.server(node)
        })
    }

    /// The configuration of a connection to a node as to a single server.
    pub(crate) fn server(&self, node: &Node) -> Config {
        let node = self.instead.get(node).unwrap_or(node);
        let (host, port) = (node.host().to_owned(), node.port());
        let address = match self.config.address {
            Address::Tls { .. } => Address::Tls { host, port },
            _ => Address::Tcp { host, port },
        };
        Config {
            address,
            ..self.config.clone()
        }
    }
}

fn node(address: &Address) -> Result<Node, Error> {
    match address {
        Address::Tcp { host, port } | Address::Tls { host, port } => {
            Ok(Node::new(host.as_str(), *port))
        }
        Address::Unix(_) => Err(Error::Url(
            "the nodes of a cluster are reached over the network, not by a unix socket".into(),
        )),
        Address::Sentinel(_) => Err(Error::Url(
            "a cluster has no sentinels: its nodes are named by their addresses".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        Builder::from_url(url).unwrap_err().to_string()
    }

    #[test]
    fn url_names_some_nodes_and_how_to_talk_to_them() {
        let url = "cluster://me:p%40ss@a:7000,b,[::1]:7002/?retry=idempotent";
        let plain = Builder::from_url(url).unwrap().plain();
        let seeds = [
            Node::new("a", 7000),
            Node::new("b", 6379),
            Node::new("::1", 7002),
        ];
        assert_eq!(plain.seeds, seeds);
        assert_eq!(plain.config.user.as_deref(), Some("me"));
        let config = plain.node(&seeds[2]);
        let address = Address::Tcp {
            host: "::1".into(),
            port: 7002,
        };
        assert_eq!(config.address, address);
        assert_eq!(config.peer, Peer::Node { readonly: false });
        assert_eq!(config.retry, crate::RetryPolicy::Never);
        let tls = Builder::from_url("rediss://a,b").unwrap().plain();
        let address = tls.node(&Node::new("c", 1)).address.clone();
        assert!(matches!(address, Address::Tls { .. }));
    }

    #[test]
    fn node_that_names_an_address_of_its_own_is_reached_by_another() {
        let (named, reached) = (Node::new("10.0.0.1", 7000), Node::new("localhost", 17000));
        let builder = Builder::from_url("cluster://10.0.0.1:7000").unwrap();
        let plain = builder.reach(named.clone(), reached).plain();
        assert_eq!(plain.seeds, std::slice::from_ref(&named));
        let at = |host: &str, port| Address::Tcp {
            host: host.into(),
            port,
        };
        assert_eq!(plain.node(&named).address, at("localhost", 17000));
        assert_eq!(plain.server(&named).address, at("localhost", 17000));
        let other = Node::new("10.0.0.2", 7000);
        assert_eq!(plain.node(&other).address, at("10.0.0.2", 7000));
    }

    #[test]
    fn databases_and_unix_sockets_are_refused_for_a_cluster() {
        assert!(refused("cluster://a/1").contains("database"));
        assert!(refused("unix:///socket").contains("network"));
        assert!(refused("a:7000").contains("cluster://"));
        assert!(refused("cluster://a,").contains("host"));
        assert!(refused("cluster://a?colour=red").contains("colour"));
        assert!(!refused("cluster://:hunter2@a:x,b").contains("hunter2"));
    }
}
