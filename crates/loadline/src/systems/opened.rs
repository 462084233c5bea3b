//! A target, opened: started if it is ours, reachable, and allowed to be measured.

use std::slice;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use loadline_client::Tls;
use loadline_load::Control;
use loadline_load::wire::threads_over;
use loadline_measure::record::{self, NotExamined};

use super::admin::{Admin, Info};
use super::callgrind::Callgrind;
use super::client::{self, Connector};
use super::cluster::ClusterAccess;
use super::connect::Endpoint;
use super::engines::EngineAccess;
use super::link::Path;
use super::sentinel;
use super::servers::{Child, ClusterChild, SentinelChildren, Storage};
use super::threads::Threads;
use super::tls;
use crate::exit::Failure;
use crate::plan::{Case, Plan, TlsFiles};
use crate::spelling::{Address, Choice, Engine, Server, Slowdown, Target};

/// A target that can be measured: started if it is ours, reachable, and allowed.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Its name in reports.
    pub(crate) name: String,
    /// The target as it was planned.
    pub(crate) target: Target,
    /// Files for encrypted connections to it.
    pub(super) tls_files: TlsFiles,
    /// The servers around a master that this run has started.
    _around: Option<SentinelChildren>,
    pub(crate) access: Access,
    /// Whether operations run one at a time after each block, as in the reference.
    pub(crate) with_tails: bool,
    /// The key spaces that have been loaded.
    pub(crate) loaded: Vec<String>,
    /// The cases that it does not support, each with the missing commands.
    pub(crate) left_out: Vec<(String, Vec<String>)>,
}

/// The way in which operations reach a target.
#[derive(Debug)]
pub(crate) enum Access {
    /// Over connections.
    Server(Box<ServerAccess>),
    /// Over connections to the nodes of a cluster.
    Cluster(Box<ClusterAccess>),
    /// Calls of an engine in this process.
    Engine(EngineAccess),
}

impl Access {
    /// The server, if it is a single one.
    pub(super) fn as_server(&self) -> Option<&ServerAccess> {
        match self {
            Self::Server(server) => Some(server),
            Self::Cluster(_) | Self::Engine(_) => None,
        }
    }

    fn as_cluster(&self) -> Option<&ClusterAccess> {
        match self {
            Self::Cluster(cluster) => Some(cluster),
            Self::Server(_) | Self::Engine(_) => None,
        }
    }

    fn as_engine(&self) -> Option<&EngineAccess> {
        match self {
            Self::Engine(engine) => Some(engine),
            Self::Server(_) | Self::Cluster(_) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ServerAccess {
    /// The server without a link, for everything but the load.
    pub(crate) endpoint: Endpoint,
    /// TLS trust of connections through a link.
    further_tls: Tls,
    /// The path of the load, with the server at its entrance.
    pub(crate) path: Option<(Path, Endpoint)>,
    pub(crate) admin: Admin,
    /// Its INFO before the run.
    pub(crate) info: Info,
    pub(crate) child: Option<Child>,
}

impl Opened {
    /// Starts or reaches `target`. Must be called on the main thread, because child processes end with the thread
    /// that starts them.
    ///
    /// # Errors
    /// If it does not start or answer, holds keys without permission to measure it, or lacks a command; if
    /// `control` interrupted the start.
    pub(crate) fn open(target: &Target, plan: &Plan, control: &Control) -> Result<Self, Failure> {
        Self::open_under(target, plan, control, None)
    }

    /// Does the same, and runs a server that is started in the simulator `under`.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub(crate) fn open_under(
        target: &Target,
        plan: &Plan,
        control: &Control,
        under: Option<&Callgrind>,
    ) -> Result<Self, Failure> {
        let name = target.to_string();
        let interrupt = &*control.interrupt;
        let mut around = None;
        let access = match target {
            Target::Server(server) => {
                Access::server(server.clone(), None, name.clone(), plan, plan.latency)?
            }
            Target::Sentinel(named) => {
                let master = sentinel::master(named, &plan.tls)?;
                Access::server(master, None, name.clone(), plan, plan.latency)?
            }
            Target::SpawnSentinel(program) => {
                let (child, others) = {
                    let seen = |master: &Child| Ok(master.address());
                    SentinelChildren::spawn(program, None, seen, interrupt)?
                };
                let master = sentinel::master(&others.named(), &plan.tls)?;
                around = Some(others);
                Access::server(master, Some(child), name.clone(), plan, plan.latency)?
            }
            Target::Embedded => {
                let child = Child::embedded(Slowdown::default(), under, interrupt)?;
                Access::child(child, name.clone(), plan, plan.latency)?
            }
            Target::Slowed(slowdown) => {
                let child = Child::embedded(*slowdown, under, interrupt)?;
                Access::child(child, name.clone(), plan, plan.latency + slowdown.latency)?
            }
            Target::Spawn(program) => {
                let child = Child::spawn(program, under, interrupt)?;
                Access::child(child, name.clone(), plan, plan.latency)?
            }
            Target::Engine(engine) => Access::engine(engine, plan, interrupt)?,
            Target::Cluster(seeds) => Access::cluster(target, seeds, None, plan)?,
            Target::SpawnCluster(program) => {
                let children = ClusterChild::spawn(program, None, None, interrupt)?;
                Access::cluster(target, &[children.seed()], Some(children), plan)?
            }
        };
        let mut opened = Self {
            name,
            target: target.clone(),
            tls_files: plan.tls.clone(),
            _around: around,
            access,
            with_tails: plan.schedule.has_tails(),
            loaded: Vec::new(),
            left_out: Vec::new(),
        };
        if let Some(bytes) = opened.machine_memory() {
            plan.check_server_memory(&opened.name, bytes)?;
        }
        opened.refuse_unfit(plan.allow_non_empty)?;
        Ok(opened)
    }

    /// Whether `case` can be measured here.
    pub(crate) fn can(&self, case: &Case) -> bool {
        self.left_out.iter().all(|(name, _)| *name != case.name)
    }

    /// The sentence about the cases that were left out here, if any.
    pub(crate) fn left_out(&self) -> Option<String> {
        let cases = self.left_out.iter();
        crate::workload::left_out(
            &self.name,
            cases.map(|(name, lacks)| (name.as_str(), lacks.clone())),
        )
    }

    /// The memory of the machine of a single existing server, in bytes, if the server reports it.
    fn machine_memory(&self) -> Option<u64> {
        // Each node of a cluster holds only part of the keys.
        self.access.as_server()?.info.number("total_system_memory")
    }

    /// The subset of `commands` that the target does not have.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn lacks(&mut self, commands: &[String]) -> Result<Vec<String>, Failure> {
        match self.access.admin() {
            Some(admin) if !commands.is_empty() => admin.missing_commands(commands),
            _ => Ok(Vec::new()),
        }
    }

    /// Makes connections of loadline-client, through the link in `path` if there is one.
    ///
    /// # Errors
    /// A usage error for a target that is not a server.
    pub(crate) fn connector(&self, path: Option<&Path>) -> Result<Connector, Failure> {
        match &self.access {
            Access::Server(server) => {
                let direct = server.endpoint.server();
                let address = path.map_or(&direct.address, Path::address);
                let tls = path.map_or(server.endpoint.tls(), |_| &server.further_tls);
                Ok(Connector::Server(client::client(
                    direct,
                    address,
                    tls,
                    server.endpoint.protocol(),
                )))
            }
            Access::Cluster(cluster) => Ok(Connector::Cluster(Box::new(cluster.through(path)))),
            Access::Engine(_) => Err(Failure::usage(format!(
                "{}: not a server; only servers are called through a client.",
                self.name
            ))),
        }
    }

    /// The servers that a client connects to; for a cluster, its known nodes.
    pub(crate) fn nodes(&self) -> Vec<Server> {
        match &self.access {
            Access::Server(server) => vec![server.endpoint.server().clone()],
            Access::Cluster(cluster) => cluster.nodes(),
            Access::Engine(_) => Vec::new(),
        }
    }

    /// The target as another process of this program can reach it, if this run started it.
    pub(crate) fn started_at(&self) -> Option<String> {
        if !self.target.is_started() {
            return None;
        }
        let nodes = self.nodes();
        let scheme = if self.target.is_cluster() {
            "cluster"
        } else {
            "redis"
        };
        match &nodes.first()?.address {
            Address::Tcp { host, port } => Some(format!("{scheme}://{host}:{port}")),
            Address::Unix(_) => None,
        }
    }

    /// The URL of a single server on this machine that needs no login, if this run started it.
    pub(crate) fn url(&self) -> Option<String> {
        self.children().first()?;
        match &self.server()?.address {
            Address::Tcp { host, port } => Some(format!("redis://{host}:{port}")),
            Address::Unix(path) => Some(format!("unix://{}", path.display())),
        }
    }

    /// The number of servers that serve the keys.
    pub(crate) fn masters(&self) -> usize {
        let cluster = self.access.as_cluster();
        cluster.map_or(1, |cluster| cluster.tags.len())
    }

    /// The link in the path as measured, if there is one.
    pub(crate) fn link(&self) -> Option<&record::Link> {
        match &self.access {
            Access::Server(server) => server.path.as_ref().map(|(path, _)| &path.measured),
            Access::Cluster(cluster) => cluster.link(),
            Access::Engine(_) => None,
        }
    }

    /// The digest of the configuration file of a server that this run started, if it has one.
    pub(super) fn config_sha256(&self) -> Option<&str> {
        let child = self.access.as_server()?.child.as_ref()?;
        child.config_sha256()
    }

    /// The processes that this run started for the target.
    pub(crate) fn children(&self) -> Vec<u32> {
        match &self.access {
            Access::Server(server) => server.child.iter().map(Child::pid).collect(),
            Access::Cluster(cluster) => cluster.children(),
            Access::Engine(_) => Vec::new(),
        }
    }

    /// The threads whose CPU time is that of the target: those of a server that this run has started, or of an engine in
    /// this process.
    pub(crate) fn own_threads(&self) -> Threads {
        match (&self.access, &self.target) {
            // The null server's thread is not one of an engine.
            (_, Target::Engine(engine)) if engine.choice == Choice::Null => Threads::none(),
            (Access::Engine(engine), _) => Threads::of_engine(engine.threads().to_vec()),
            _ => self
                .children()
                .first()
                .map_or_else(Threads::none, |pid| Threads::of_process((*pid).into())),
        }
    }

    /// Threads that apply the load of `case` to the target; for a cluster, that number per master.
    pub(crate) fn threads(&self, case: &Case) -> u64 {
        let Some(cluster) = self.access.as_cluster() else {
            return u64::from(case.threads);
        };
        let (asked, connections) = (case.threads as usize, case.connections as usize);
        threads_over(cluster.tags.len(), asked, connections) as u64
    }

    /// The server of the target, if it is a single one.
    pub(crate) fn server(&self) -> Option<&Server> {
        let server = self.access.as_server()?;
        Some(server.endpoint.server())
    }

    /// The value of `name` in the server's INFO.
    pub(crate) fn said(&self, name: &str) -> Option<&str> {
        match &self.access {
            Access::Server(server) => server.info.get(name),
            Access::Cluster(cluster) => cluster.info.get(name),
            Access::Engine(_) => {
                let is_ours = self.target == Target::RAM && name == "loadline_version";
                is_ours.then_some(env!("CARGO_PKG_VERSION"))
            }
        }
    }

    /// The version of an engine in this process, if it reports it.
    pub(crate) fn engine_version(&self) -> Option<String> {
        let version = self.access.as_engine()?.version();
        version.map(Into::into)
    }

    /// The setting `name`, if the server reports it.
    pub(crate) fn setting(&mut self, name: &str) -> Option<String> {
        self.access.admin()?.setting(name).ok().flatten()
    }

    /// Connections that receive every command (`MONITOR`), if the server reports them.
    pub(crate) fn monitors(&mut self) -> Option<u64> {
        self.access.admin()?.monitors().ok().flatten()
    }

    /// The settings and facts that the server refused to report.
    pub(crate) fn not_examined(&mut self) -> Vec<NotExamined> {
        let Some(admin) = self.access.admin() else {
            return Vec::new();
        };
        let refused = admin.refused();
        let of = |(command, reason)| NotExamined::new(&self.name, command, reason);
        refused.map(of).collect()
    }

    /// The number of keys that the server holds; zero if the target is not a server.
    ///
    /// # Errors
    /// If it does not answer or does not report it.
    pub(crate) fn key_count(&mut self) -> Result<u64, Failure> {
        match &mut self.access {
            Access::Server(server) => server.admin.key_count(),
            Access::Cluster(cluster) => cluster.key_count(),
            Access::Engine(_) => Ok(0),
        }
    }
}

impl Access {
    fn engine(engine: &Engine, plan: &Plan, interrupt: &AtomicBool) -> Result<Self, Failure> {
        let name = engine.to_string();
        match &engine.choice {
            Choice::Embedded(kind, _) => EngineAccess::open(*kind, engine).map(Self::Engine),
            Choice::Null => EngineAccess::null().map(Self::Engine),
            Choice::Served => {
                let storage = Storage {
                    durability: engine.durability,
                    dir: engine.dir.as_deref(),
                    socket: false,
                    has_disk: false,
                };
                let child = Child::embedded_storing(storage, interrupt)?;
                Self::child(child, name, plan, Duration::ZERO)
            }
            Choice::Spawned { program, socket } => {
                let storage = Storage {
                    durability: engine.durability,
                    dir: engine.dir.as_deref(),
                    socket: *socket,
                    has_disk: false,
                };
                let child = Child::spawn_storing(&name, program, storage, interrupt)?;
                Self::child(child, name, plan, Duration::ZERO)
            }
        }
    }

    fn child(child: Child, name: String, plan: &Plan, latency: Duration) -> Result<Self, Failure> {
        Self::server(child.server(), Some(child), name, plan, latency)
    }

    fn cluster(
        target: &Target,
        seeds: &[Server],
        children: Option<ClusterChild>,
        plan: &Plan,
    ) -> Result<Self, Failure> {
        ClusterAccess::open(&target.to_string(), seeds, children, plan)
            .map(|access| Self::Cluster(Box::new(access)))
    }

    /// The connection for everything but the load, if there is one.
    fn admin(&mut self) -> Option<&mut Admin> {
        match self {
            Self::Server(server) => Some(&mut server.admin),
            Self::Cluster(cluster) => Some(&mut cluster.admin),
            Self::Engine(_) => None,
        }
    }

    fn server(
        server: Server,
        child: Option<Child>,
        name: String,
        plan: &Plan,
        latency: Duration,
    ) -> Result<Self, Failure> {
        let (tls, further_tls) = match &server.address {
            Address::Tcp { host, .. } if server.tls => (
                tls::trust(&plan.tls, &[])?,
                tls::trust(&plan.tls, &[host.as_str()])?,
            ),
            _ => Default::default(),
        };
        let endpoint = Endpoint::new(server, plan.protocol, tls).named(name);
        let mut admin = Admin::open(&endpoint)?;
        let info = admin.info(&[])?;
        let path = Path::open(
            slice::from_ref(endpoint.server()),
            latency,
            &plan.path,
            plan.seed,
        )?;
        let path = path.map(|path| {
            let further = Server {
                address: path.address().clone(),
                ..endpoint.server().clone()
            };
            (
                path,
                Endpoint::new(further, plan.protocol, further_tls.clone()),
            )
        });
        Ok(Self::Server(Box::new(ServerAccess {
            endpoint,
            further_tls,
            path,
            admin,
            info,
            child,
        })))
    }
}
