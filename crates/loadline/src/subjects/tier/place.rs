//! A tier below memory, with the path to it, and the server that does no work behind the same path.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loadline_client::{Client, Tls};
use loadline_load::Error;
use loadline_load::outcome::TargetCost;
use loadline_measure::record;

use super::super::engine::broken;
use crate::exit::Failure;
use crate::plan::{Plan, TierPlace};
use crate::target::{Address, Server};
use crate::targets::client::Connector;
use crate::targets::connect::Endpoint;
use crate::targets::engines::{Handle, ServedHandle, null_server};
use crate::targets::link::Path;
use crate::targets::threads::{Reading, Threads};
use crate::targets::{
    Access, Admin, Counters, NULL_CONNECTION, NullServer, Opened, SECTIONS, process,
};

/// The commands that the arms send, as the server counts them.
const COMMANDS: [&str; 4] = ["get", "set", "mget", "mset"];

/// A tier that can be called.
pub(crate) struct OpenPlace<'o> {
    pub(crate) name: String,
    /// Its place among the targets.
    pub(crate) target: usize,
    /// Where a cache reaches it, if it is a server that this run has started.
    pub(super) url: Option<String>,
    opened: &'o Opened,
    path: Option<Path>,
    null: Option<NullPlace>,
}

/// A server that does no work, behind a path like that of its tier.
struct NullPlace {
    server: NullServer,
    /// Bytes of its replies to reads.
    value_bytes: Arc<AtomicUsize>,
    path: Option<Path>,
}

impl<'o> OpenPlace<'o> {
    /// Makes the path to `opened` that `place` asks for.
    ///
    /// # Errors
    /// That a link or the null server is not possible here.
    pub(crate) fn open(
        place: &TierPlace,
        opened: &'o Opened,
        plan: &Plan,
    ) -> Result<Self, Failure> {
        let path_to = |server: Server| Path::open(&[server], place.latency, &plan.path, plan.seed);
        let (path, null) = match opened.server() {
            None => (None, None),
            Some(server) => {
                let unix = match &server.address {
                    Address::Unix(path) => Some(path.with_extension("null")),
                    Address::Tcp { .. } => None,
                };
                let value_bytes = Arc::new(AtomicUsize::new(0));
                let null = null_server(Arc::clone(&value_bytes), unix.as_deref())?;
                let null = NullPlace {
                    path: path_to(null.server())?,
                    value_bytes,
                    server: null,
                };
                (path_to(server.clone())?, Some(null))
            }
        };
        Ok(Self {
            name: place.name.clone(),
            target: place.target,
            url: opened.url(),
            opened,
            path,
            null,
        })
    }

    /// The link in the path, as it measured itself.
    pub(crate) fn link(&self) -> Option<&record::Link> {
        self.path.as_ref().map(|path| &path.measured)
    }

    /// The target behind it.
    pub(crate) fn opened(&self) -> &'o Opened {
        self.opened
    }

    /// What it says, as an error of the program.
    pub(super) fn broken(&self, error: &anyhow::Error) -> Failure {
        super::failure(&self.name, &broken(error))
    }

    /// Access for one thread.
    pub(super) fn handle(&self) -> Result<Box<dyn Handle>, Failure> {
        let handle = match &self.opened.access {
            Access::Engine(engine) => engine.handle(),
            _ => ServedHandle::open(&self.client()?, None)
                .map(|handle| Box::new(handle) as Box<dyn Handle>),
        };
        handle.map_err(|error| self.broken(&error))
    }

    /// The client of a server.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        match self.opened.connector(self.path.as_ref())? {
            Connector::Server(client) => Ok(client),
            Connector::Cluster(_) => Err(Failure::usage(format!(
                "{}: a cluster is not a tier.",
                self.name
            ))),
        }
    }

    /// Where connections go, if it is a server.
    pub(super) fn endpoint(&self) -> Option<Endpoint> {
        let Access::Server(server) = &self.opened.access else {
            return None;
        };
        let direct = &server.endpoint;
        Some(match &self.path {
            None => direct.clone(),
            Some(path) => {
                let further = Server {
                    address: path.address().clone(),
                    ..direct.server().clone()
                };
                Endpoint::new(further, direct.protocol(), Tls::default())
            }
        })
    }

    /// Where connections to the null server go.
    pub(super) fn null_endpoint(&self) -> Endpoint {
        let null = self
            .null
            .as_ref()
            .expect("a server has a null server for comparison");
        let server = null.server.server();
        let address = null.path.as_ref().map(Path::address);
        Endpoint::local(Server {
            address: address.cloned().unwrap_or_else(|| server.address.clone()),
            ..server
        })
    }

    /// Makes the null server answer reads with `bytes`.
    pub(super) fn reply_null(&self, bytes: usize) {
        if let Some(null) = &self.null {
            null.value_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// What counts the server's own cost, if it is a server.
    pub(super) fn watched(&self) -> Result<Option<Watched>, Failure> {
        let Access::Server(server) = &self.opened.access else {
            return Ok(None);
        };
        let mut admin = Admin::open(&server.endpoint)?;
        let threads = match process(&admin.info(&["server"])?) {
            Some(id) => Threads::of_process(id),
            None => Threads::of(self.opened),
        };
        Ok(Some(Watched {
            threads,
            reading: None,
            admin: Some((admin, Counters::default())),
        }))
    }

    /// What counts the cost of the threads of the null server.
    pub(super) fn null_watched(&self) -> Watched {
        Watched {
            threads: Threads::named(NULL_CONNECTION),
            reading: None,
            admin: None,
        }
    }
}

/// The cost of a server around a block.
pub(super) struct Watched {
    threads: Threads,
    reading: Option<Reading>,
    admin: Option<(Admin, Counters)>,
}

impl Watched {
    fn counters(admin: &mut Admin) -> Result<Counters, Error> {
        let info = admin
            .info(&SECTIONS)
            .map_err(|failure| Error::Subject(failure.to_string().into()))?;
        Ok(Counters::read(&info, &COMMANDS.map(Into::into)))
    }

    pub(super) fn begin(&mut self) -> Result<(), Error> {
        if let Some((admin, before)) = &mut self.admin {
            *before = Self::counters(admin)?;
        }
        self.reading = self.threads.cpu();
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<TargetCost, Error> {
        let cpu = self.threads.cpu_since(&self.reading);
        let mut cost = match &mut self.admin {
            Some((admin, before)) => Self::counters(admin)?.since(before),
            None => TargetCost::default(),
        };
        // INFO counts in steps of a clock tick on some kernels, and the CPU time of INFO itself.
        cost.cpu = cpu;
        Ok(cost)
    }
}
