//! Connections of loadline-client to a target.

use loadline_client::cluster::{self, Cluster, Node};
use loadline_client::pool::{self, Pool};
use loadline_client::pubsub::PubSub;
use loadline_client::{Client, Error, Protocol, Request, Tls, blocking, multiplexed};

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
    /// Opens a pool of connections to a server, which have the client name `name` there; `None` for a cluster.
    pub(crate) async fn pool(
        &self,
        limits: pool::Limits,
        name: String,
    ) -> Option<Result<Pool, Error>> {
        match self {
            Self::Server(client) => {
                let mut config = client.config().clone();
                config.client_name = Some(name);
                Some(Client::from(config).pool(limits).await)
            }
            Self::Cluster(_) => None,
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
