//! How loadline-client reaches a target, and the connections that it makes.

use loadline_client::cluster::{self, Cluster};
use loadline_client::{
    Builder, Client, Error, Password, Request, RetryPolicy, blocking, multiplexed,
};

use crate::exit::Failure;
use crate::target::{Address, Server};

/// How long a reply may take beside the added latency: the largest batches are a long way to go.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// How long connecting may take where no link makes it longer: also when the server went away and is
/// waited for.
const CONNECT_PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// A client of `server`, which may be reached through a link at `address`.
///
/// # Errors
/// A usage error for a server that is reached by TLS.
pub(crate) fn client(server: &Server, address: &Address) -> Result<Client, Failure> {
    builder(server, address).map(Builder::build)
}

/// The same, before it is built.
///
/// # Errors
/// As for [`client`].
pub(crate) fn builder(server: &Server, address: &Address) -> Result<Builder, Failure> {
    if server.tls {
        return Err(Failure::usage(format!(
            "{server}: call modes are measured without TLS; name the server as redis:// or unix://."
        )));
    }
    let mut builder = Client::builder()
        .address(match address {
            Address::Tcp { host, port } => loadline_client::Address::Tcp {
                host: host.clone(),
                port: *port,
            },
            Address::Unix(path) => loadline_client::Address::Unix(path.clone()),
        })
        .database(server.database)
        .client_name(crate::targets::connect::CLIENT_NAME)
        .connect_timeout(if *address == server.address {
            CONNECT_PATIENCE
        } else {
            PATIENCE
        })
        .response_timeout(Some(PATIENCE))
        // What is sent again would hide that it failed, and its time would be of two tries.
        .retry(RetryPolicy::Never);
    if let Some(password) = &server.login.password {
        let password = Password::new(password.reveal());
        builder = match &server.login.user {
            Some(user) => builder.login(user.clone(), password),
            None => builder.password(password),
        };
    }
    Ok(builder)
}

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
pub(crate) enum Blocking {
    Server(Box<blocking::Connection>),
    Cluster(Box<blocking::Cluster>),
}

/// A connection that tasks share.
#[derive(Debug, Clone)]
pub(crate) enum Shared {
    Server(multiplexed::Connection),
    Cluster(Cluster),
}

impl Way {
    /// # Errors
    /// That there is no connection.
    pub(crate) fn blocking(&self) -> Result<Blocking, Error> {
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
    pub(crate) async fn shared(&self) -> Result<Shared, Error> {
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
    pub(crate) fn run<Q: Request>(&mut self, request: Q) -> Q::Output {
        match self {
            Self::Server(connection) => connection.run(request),
            Self::Cluster(cluster) => cluster.run(request),
        }
    }
}

impl Shared {
    #[inline]
    pub(crate) async fn run<Q: Request>(&self, request: Q) -> Q::Output {
        match self {
            Self::Server(connection) => connection.run(request).await,
            Self::Cluster(cluster) => cluster.run(request).await,
        }
    }
}
