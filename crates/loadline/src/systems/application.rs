//! Connections as an application has them: by loadline-client with its defaults, which find a new master after a failover.

use loadline_client::{Address, Password, RetryPolicy, Tls, cluster};

use super::client::{Connector, node};
use super::connect::builder;
use super::{sentinel, tls};
use crate::exit::Failure;
use crate::plan::TlsFiles;
use crate::secret::Secret;
use crate::spelling::Target;

/// # Errors
/// A usage error for a target that does not run already; a bad file of certificates.
pub(crate) fn connector(target: &Target, files: &TlsFiles) -> Result<Connector, Failure> {
    let servers = match target {
        Target::Server(server) => std::slice::from_ref(server),
        Target::Sentinel(named) => &named.sentinels[..],
        Target::Cluster(seeds) => &seeds[..],
        _ => {
            return Err(Failure::usage(format!(
                "{target}: it does not run already."
            )));
        }
    };
    let first = &servers[0];
    let tls = match first.tls {
        true => tls::trust(files, &[])?,
        false => Tls::default(),
    };
    let client = builder(first, &tls).retry(RetryPolicy::default());
    match target {
        Target::Sentinel(named) => {
            let mut known = sentinel::sentinel(named).encrypted(first.tls, first.tls);
            if let Some(password) = Secret::of_sentinels() {
                known = known.login(None, Password::new(password.reveal()));
            }
            let client = client.address(Address::Sentinel(known));
            Ok(Connector::Server(client.build()))
        }
        Target::Cluster(seeds) => {
            let builder = cluster::Builder::from_config(client.build().config().clone());
            let builder = builder.map_err(|error| Failure::unavailable(format!("{error}.")))?;
            let others = seeds.iter().skip(1).filter_map(|seed| node(&seed.address));
            let builder = others.fold(builder, cluster::Builder::seed);
            Ok(Connector::Cluster(Box::new(builder)))
        }
        _ => Ok(Connector::Server(client.build())),
    }
}
