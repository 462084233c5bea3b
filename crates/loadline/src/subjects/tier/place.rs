//! A tier below memory, with the path to it, and the server that does no work behind the same path.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loadline_cache::{Error as StoreError, KeyValue, connect};
use loadline_client::{Client, Tls};
use loadline_load::Error;
use loadline_load::cost::TargetCost;
use loadline_measure::record;
use loadline_null::{NullServer, Reads};

use super::super::engine::broken;
use crate::exit::Failure;
use crate::plan::{Plan, TierPlace};
use crate::spelling::{Address, Server};
use crate::systems::client::Connector;
use crate::systems::connect::Endpoint;
use crate::systems::engines::Connect;
use crate::systems::link::Path;
use crate::systems::null::{as_server, null_server};
use crate::systems::threads::{Reading, Threads};
use crate::systems::{Access, Admin, Counters, Opened, SECTIONS, process};

/// The commands that the arms send, as the server counts them.
const COMMANDS: [&str; 4] = ["get", "set", "mget", "mset"];

/// A tier that can be called, also by a thread that outlives the run because the tier does not answer.
pub(crate) struct OpenPlace {
    pub(crate) name: String,
    /// Its place among the targets.
    pub(crate) target: usize,
    /// Where a cache reaches it, if it is a server that this run has started.
    pub(super) url: Option<String>,
    reach: Reach,
    null: Option<NullPlace>,
}

/// The way in which operations reach a tier.
enum Reach {
    /// In this process.
    Engine(Connect),
    /// Over connections.
    Server(Box<ServerReach>),
}

/// The ways to a server.
struct ServerReach {
    client: Client,
    /// Past the link.
    direct: Endpoint,
    path: Option<Path>,
    /// Its threads, if it is a process of this run.
    threads: Threads,
}

/// A server that does no work, behind a path like that of its tier.
struct NullPlace {
    server: NullServer,
    /// Bytes of its replies to reads.
    value_bytes: Arc<AtomicUsize>,
    path: Option<Path>,
}

impl OpenPlace {
    /// Makes the path to `opened` that `place` asks for.
    ///
    /// # Errors
    /// That a link or the null server is not possible here, or that the target is neither an engine nor a server.
    pub(crate) fn open(place: &TierPlace, opened: &Opened, plan: &Plan) -> Result<Self, Failure> {
        let (reach, null) = match &opened.access {
            Access::Engine(engine) => (Reach::Engine(engine.shared()), None),
            Access::Server(server) => {
                let path = path_to(server.endpoint.server().clone(), place, plan)?;
                let reach = ServerReach {
                    client: client(opened, path.as_ref())?,
                    direct: server.endpoint.clone(),
                    path,
                    threads: opened.own_threads(),
                };
                let null = NullPlace::open(server.endpoint.server(), place, plan)?;
                (Reach::Server(Box::new(reach)), Some(null))
            }
            Access::Cluster(_) => return Err(no_tier(opened)),
        };
        Ok(Self {
            name: place.name.clone(),
            target: place.target,
            url: opened.url(),
            reach,
            null,
        })
    }

    fn server(&self) -> Option<&ServerReach> {
        match &self.reach {
            Reach::Engine(_) => None,
            Reach::Server(server) => Some(server),
        }
    }

    /// The link in the path, as it measured itself.
    pub(crate) fn link(&self) -> Option<&record::Link> {
        let path = self.server()?.path.as_ref();
        path.map(|path| &path.measured)
    }

    /// Its error, as an error of the program.
    pub(super) fn broken(&self, error: &StoreError) -> Failure {
        super::failure(&self.name, &broken(error))
    }

    /// Access for one thread.
    pub(super) fn connect(&self) -> Result<Arc<dyn KeyValue>, Failure> {
        let store = match &self.reach {
            Reach::Engine(connect) => connect(),
            Reach::Server(server) => connect(server.client.clone()).map(Into::into),
        };
        store.map_err(|error| self.broken(&error))
    }

    /// The client of a server.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        let server = self.server().ok_or_else(|| {
            Failure::usage(format!("{}: an embedded store has no client.", self.name))
        })?;
        Ok(server.client.clone())
    }

    /// Where connections go, if it is a server.
    pub(super) fn endpoint(&self) -> Option<Endpoint> {
        let ServerReach { direct, path, .. } = self.server()?;
        Some(match path {
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
        let server = as_server(&null.server);
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

    /// The counter of the server's own cost, if it is a server.
    pub(super) fn watched(&self) -> Result<Option<Watched>, Failure> {
        let Some(server) = self.server() else {
            return Ok(None);
        };
        let mut admin = Admin::open(&server.direct)?;
        let threads = match process(&admin.info(&["server"])?) {
            Some(id) => Threads::of_process(id),
            None => server.threads.clone(),
        };
        Ok(Some(Watched {
            threads,
            reading: None,
            admin: Some((admin, Counters::default())),
        }))
    }

    /// The counter of the cost of the null server.
    pub(super) fn null_watched(&self) -> Watched {
        Watched {
            threads: Threads::named(loadline_null::THREAD),
            reading: None,
            admin: None,
        }
    }
}

/// A path to `server` with the latency of `place`.
fn path_to(server: Server, place: &TierPlace, plan: &Plan) -> Result<Option<Path>, Failure> {
    Path::open(&[server], place.latency, &plan.path, plan.seed)
}

fn client(opened: &Opened, path: Option<&Path>) -> Result<Client, Failure> {
    match opened.connector(path)? {
        Connector::Server(client) => Ok(client),
        Connector::Cluster(_) => Err(no_tier(opened)),
    }
}

fn no_tier(opened: &Opened) -> Failure {
    Failure::usage(format!(
        "{}: expected a single server or an embedded store as a tier.",
        opened.name
    ))
}

impl NullPlace {
    /// Starts a null server on the same kind of path as that to `server`.
    fn open(server: &Server, place: &TierPlace, plan: &Plan) -> Result<Self, Failure> {
        let unix = match &server.address {
            Address::Unix(path) => Some(path.with_extension("null")),
            Address::Tcp { .. } => None,
        };
        let value_bytes = Arc::new(AtomicUsize::new(0));
        let null = null_server(Reads::Sized(Arc::clone(&value_bytes)), unix.as_deref())?;
        Ok(Self {
            path: path_to(as_server(&null), place, plan)?,
            value_bytes,
            server: null,
        })
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
