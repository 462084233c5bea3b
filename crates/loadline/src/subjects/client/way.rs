//! The client of a server or of a cluster, and the connections that it makes.

use loadline_client::cluster::{self, Cluster};
use loadline_client::{Client, Error, Request, blocking, multiplexed};

/// How a target is reached by loadline-client.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// To one server.
    Server(Client),
    /// To the nodes of a cluster.
    Cluster(Box<cluster::Builder>),
}

/// A connection that one thread calls.
#[derive(Debug)]
pub(super) enum Blocking {
    Server(Box<blocking::Connection>),
    Cluster(Box<blocking::Cluster>),
}

/// A connection that tasks share.
#[derive(Debug, Clone)]
pub(super) enum Shared {
    Server(multiplexed::Connection),
    Cluster(Cluster),
}

impl Way {
    /// # Errors
    /// That there is no connection.
    pub(super) fn blocking(&self) -> Result<Blocking, Error> {
        match self {
            Self::Server(client) => client.blocking().map(Box::new).map(Blocking::Server),
            Self::Cluster(builder) => {
                let cluster = cluster::Builder::clone(builder).open_blocking()?;
                Ok(Blocking::Cluster(Box::new(cluster)))
            }
        }
    }

    /// # Errors
    /// That there is no connection.
    pub(super) async fn shared(&self) -> Result<Shared, Error> {
        match self {
            Self::Server(client) => client.multiplexed().await.map(Shared::Server),
            Self::Cluster(builder) => {
                let builder = cluster::Builder::clone(builder);
                builder.open().await.map(Shared::Cluster)
            }
        }
    }
}

impl Blocking {
    #[inline]
    pub(super) fn run<Q: Request>(&mut self, request: Q) -> Q::Output {
        match self {
            Self::Server(connection) => connection.run(request),
            Self::Cluster(cluster) => cluster.run(request),
        }
    }
}

impl Shared {
    #[inline]
    pub(super) async fn run<Q: Request>(&self, request: Q) -> Q::Output {
        match self {
            Self::Server(connection) => connection.run(request).await,
            Self::Cluster(cluster) => cluster.run(request).await,
        }
    }
}
