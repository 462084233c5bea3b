//! Connections of loadline-client to a target.

use loadline_client::cluster::{self, Cluster, Lent, Node, Pools};
use loadline_client::multiplexed::{self, Dedicated};
use loadline_client::pool::{self, Pool};
use loadline_client::pubsub::PubSub;
use loadline_client::{Client, Error, Protocol, Request, Tls, blocking};

use super::connect::builder;
use crate::spelling::{Address, Server};

/// Time limit for a reply, in addition to the added latency, and for reconnecting to a lost server. Generous, because the
/// largest batches are slow.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Time limit for connecting without a link.
const CONNECT_PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// A client of `server`, which can be reached through a link at `address`.
pub(crate) fn client(server: &Server, address: &Address, tls: &Tls, protocol: Protocol) -> Client {
    let further = Server {
        address: address.clone(),
        ..server.clone()
    };
    let patience = if *address == server.address {
        CONNECT_PATIENCE
    } else {
        PATIENCE
    };
    builder(&further, tls)
        .protocol(Some(protocol))
        .connect_timeout(patience)
        .response_timeout(Some(PATIENCE))
        .build()
}

/// The cluster of `seeds`, before its nodes are queried.
///
/// # Errors
/// If the configuration is not valid for a cluster.
pub(crate) fn cluster(
    seeds: &[Server],
    tls: &Tls,
    protocol: Protocol,
) -> Result<cluster::Builder, Error> {
    let (first, others) = seeds.split_first().expect("a cluster has a node");
    let client = client(first, &first.address, tls, protocol);
    let builder = cluster::Builder::from_config(client.config().clone())?;
    let others = others.iter().filter_map(|seed| node(&seed.address));
    Ok(others.fold(builder, cluster::Builder::seed))
}

/// The node at an address; nodes of a cluster cannot have a unix socket.
pub(crate) fn node(address: &Address) -> Option<Node> {
    match address {
        Address::Tcp { host, port } => Some(Node::new(host.as_str(), *port)),
        Address::Unix(_) => None,
    }
}

/// Opens connections to a target.
#[derive(Debug, Clone)]
pub(crate) enum Connector {
    /// Connects to one server.
    Server(Client),
    /// Connects to the nodes of a cluster.
    Cluster(Box<cluster::Builder>),
}

/// A connection of one thread.
#[derive(Debug)]
pub(crate) enum Blocking {
    Server(Box<blocking::Connection>),
    Cluster(Box<blocking::Cluster>),
}

/// Connections that are lent to one task at a time.
#[derive(Debug, Clone)]
pub(crate) enum Pooled {
    Server(Pool),
    /// A pool for each master.
    Cluster(Cluster, Pools),
}

/// A connection of [`Pooled`].
#[derive(Debug)]
pub(crate) enum LentConnection {
    Server(pool::Borrowed),
    Cluster(Lent),
}

/// A connection shared by tasks.
#[derive(Debug, Clone)]
pub(crate) enum SharedConnection {
    Server(multiplexed::Connection),
    Cluster(Cluster),
}

impl Connector {
    /// Opens a connection for one thread.
    ///
    /// # Errors
    /// If the connection cannot be made.
    pub(crate) fn blocking(&self) -> Result<Blocking, Error> {
        match self {
            Self::Server(client) => client.blocking().map(Box::new).map(Blocking::Server),
            Self::Cluster(builder) => {
                let cluster = cluster::Builder::clone(builder).open_blocking()?;
                Ok(Blocking::Cluster(Box::new(cluster)))
            }
        }
    }

    /// Opens a connection shared by tasks.
    ///
    /// # Errors
    /// If the connection cannot be made.
    pub(crate) async fn shared(&self) -> Result<SharedConnection, Error> {
        match self {
            Self::Server(client) => client.multiplexed().await.map(SharedConnection::Server),
            Self::Cluster(builder) => {
                let builder = cluster::Builder::clone(builder);
                builder.open().await.map(SharedConnection::Cluster)
            }
        }
    }
}

impl Connector {
    /// Opens a pool, or one for each master of a cluster. Its connections have the client name `name` at the servers, as do those
    /// that the client of a cluster shares.
    ///
    /// # Errors
    /// If a connection cannot be made.
    pub(crate) async fn pool(&self, limits: pool::Limits, name: String) -> Result<Pooled, Error> {
        match self {
            Self::Server(client) => {
                let mut config = client.config().clone();
                config.client_name = Some(name);
                Client::from(config).pool(limits).await.map(Pooled::Server)
            }
            Self::Cluster(builder) => {
                let builder = cluster::Builder::clone(builder).client_name(name);
                let cluster = builder.open().await?;
                let pools = cluster.pools(limits).await?;
                Ok(Pooled::Cluster(cluster, pools))
            }
        }
    }

    /// Opens a subscriber.
    ///
    /// # Errors
    /// If the connection cannot be made.
    pub(crate) async fn pubsub(&self) -> Result<PubSub, Error> {
        match self {
            Self::Server(client) => client.pubsub().await,
            Self::Cluster(builder) => {
                let builder = cluster::Builder::clone(builder);
                builder.open().await?.pubsub().await
            }
        }
    }
}

impl Blocking {
    #[inline]
    pub(crate) fn run<Q: Request>(&mut self, request: Q) -> Q::Output {
        match self {
            Self::Server(connection) => connection.run(request),
            Self::Cluster(cluster) => cluster.run(request),
        }
    }
}

impl SharedConnection {
    #[inline]
    pub(crate) async fn run<Q: Request>(&self, request: Q) -> Q::Output {
        match self {
            Self::Server(connection) => connection.run(request).await,
            Self::Cluster(cluster) => cluster.run(request).await,
        }
    }
}

impl Pooled {
    /// Borrows a connection to the server of a key, and waits for one if all are lent.
    ///
    /// # Errors
    /// Those of [`Pool::get`] and [`Pools::get`].
    pub(crate) async fn get(&self, key: &str) -> Result<LentConnection, Error> {
        match self {
            Self::Server(pool) => pool.get().await.map(LentConnection::Server),
            Self::Cluster(_, pools) => pools.get(key).await.map(LentConnection::Cluster),
        }
    }

    /// The master whose pool has the connections for a key; `None` if there is only one pool.
    pub(crate) fn master_of(&self, key: &str) -> Option<Node> {
        match self {
            Self::Server(_) => None,
            Self::Cluster(cluster, _) => cluster.master_of(key),
        }
    }

    /// Whether calls wait for a connection to the server of a key.
    pub(crate) fn is_waited_for(&self, key: &str) -> bool {
        let status = match self {
            Self::Server(pool) => pool.status(),
            Self::Cluster(_, pools) => pools.status_of(key),
        };
        status.waiting > 0
    }

    /// The connections that it knows of, with those that the client of a cluster shares.
    pub(crate) fn connections(&self) -> usize {
        let (status, shared) = match self {
            Self::Server(pool) => (pool.status(), 0),
            Self::Cluster(cluster, pools) => (pools.status(), cluster.connections()),
        };
        shared + status.free + status.in_use + status.opening
    }
}

impl LentConnection {
    /// Runs a request, in a cluster on the node to which its slot has moved.
    pub(crate) async fn run<Q: Request>(&mut self, request: Q) -> Q::Output {
        match self {
            Self::Server(connection) => connection.run(request).await,
            Self::Cluster(connection) => connection.run(request).await,
        }
    }

    /// The connection itself, which follows no slot.
    pub(crate) fn dedicated(&mut self) -> &mut Dedicated {
        match self {
            Self::Server(connection) => connection,
            Self::Cluster(connection) => connection.dedicated(),
        }
    }
}
