//! Targets: the spellings of a TARGET and their meanings.

mod engine;
mod program;
mod sentinel;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use loadline_client::Config;

use crate::exit::Failure;
use crate::secret::{Secret, redact_target};
use crate::suggest;

pub(crate) use engine::{CacheLimits, Choice, Durability, Engine, Kind};
pub(crate) use program::{Configuration, Copied, Program, Setting, is_left_out};
pub(crate) use sentinel::Named;

/// Engines in process that a later form of `loadline` measures.
const ENGINES: [&str; 6] = ["store", "heed", "redb", "fjall", "rocksdb", "sqlite"];

/// All forms of a TARGET.
const FORMS: &str = "it is redis://HOST:PORT, rediss://HOST:PORT, unix:///PATH, embedded, ram, spawn:PROGRAM, \
    cluster://HOST:PORT[,HOST:PORT], spawn-cluster:PROGRAM, \
    sentinel://HOST:PORT[,HOST:PORT]/NAME or spawn-sentinel:PROGRAM";

/// Beginnings of a TARGET.
const KINDS: [&str; 10] = [
    "embedded",
    "ram",
    "redis",
    "rediss",
    "unix",
    "spawn",
    "cluster",
    "spawn-cluster",
    "sentinel",
    "spawn-sentinel",
];

/// One thing to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A server that runs already and that this run did not start.
    Server(Server),
    /// Our own server over our own store, as a child process.
    Embedded,
    /// The same, made slower on purpose: what `prove` judges.
    Slowed(Slowdown),
    /// A server program that is started for this run and stopped afterwards.
    Spawn(Program),
    /// A cluster that runs already: some of its nodes, which name the others.
    Cluster(Vec<Server>),
    /// A server program that is started as a cluster of three masters and three replicas.
    SpawnCluster(PathBuf),
    /// The master of a name, which runs already.
    Sentinel(Named),
    /// A server program that is started as a master with two replicas under three sentinels.
    SpawnSentinel(PathBuf),
    /// An engine, or a server that is called like one.
    Engine(Engine),
}

/// Slowdown of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Slowdown {
    /// Time that every command burns on the server's CPU.
    pub(crate) burn_per_command: Duration,
    /// Rounds of a loop of a few instructions that every command executes.
    pub(crate) work_per_command: u32,
    /// Time that every round trip takes longer in the path.
    pub(crate) latency: Duration,
}

/// A running server and how to get in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    /// Where it listens.
    pub(crate) address: Address,
    /// Whether the connection is encrypted.
    pub(crate) tls: bool,
    /// The database that is selected.
    pub(crate) database: u32,
    /// Credentials.
    pub(crate) login: Login,
}

/// Address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A host, by name or number and without brackets, and a port.
    Tcp { host: String, port: u16 },
    /// A socket in the file system.
    Unix(PathBuf),
}

/// User and password, as far as they are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Login {
    /// The user; without one the server's default user logs in.
    pub(crate) user: Option<String>,
    /// The password; without one there is no login.
    pub(crate) password: Option<Secret>,
}

impl Server {
    /// A server of our own at `address`, which asks for no login.
    pub(crate) fn local(address: SocketAddr) -> Self {
        let address = Address::Tcp {
            host: address.ip().to_string(),
            port: address.port(),
        };
        Self {
            address,
            tls: false,
            database: 0,
            login: Login::default(),
        }
    }
}

impl Server {
    /// Whether it is on this host, as far as its address tells.
    pub(crate) fn is_local(&self) -> bool {
        match &self.address {
            Address::Unix(_) => true,
            Address::Tcp { host, .. } => {
                host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            }
        }
    }
}

impl Target {
    /// Our store in this process, without a server.
    pub(crate) const RAM: Self = Self::Engine(Engine::RAM);

    /// Reads a TARGET.
    ///
    /// # Errors
    /// A usage error that says what is wrong, or that this command does not take this kind of target. It
    /// never holds a password.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| Failure::usage(format!("TARGET `{}`: {why}", redact_target(text)));
        match text {
            "embedded" => return Ok(Self::Embedded),
            "ram" => return Ok(Self::RAM),
            _ => {}
        }
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(wrong(&of_a_word(text)));
        };
        match scheme {
            "redis" | "rediss" => parse_tcp(text).map(Self::Server).map_err(|why| wrong(&why)),
            "unix" => parse_unix(text)
                .map(Self::Server)
                .map_err(|why| wrong(&why)),
            "spawn" if rest.is_empty() => {
                Err(wrong("spawn needs a program, such as spawn:redis-server."))
            }
            "spawn" => Program::parse(rest)
                .map(Self::Spawn)
                .map_err(|why| wrong(&why)),
            "cluster" | "clusters" => parse_cluster(text)
                .map(Self::Cluster)
                .map_err(|why| wrong(&why)),
            "sentinel" | "sentinels" => Named::parse(text)
                .map(Self::Sentinel)
                .map_err(|why| wrong(&why)),
            "spawn-cluster" | "spawn-sentinel" if rest.is_empty() => Err(wrong(&format!(
                "{scheme} needs a program, such as {scheme}:redis-server."
            ))),
            "spawn-cluster" | "spawn-sentinel" if rest.contains(program::CONFIG) => Err(wrong(
                "the servers of a cluster or under sentinels are started without a configuration file.",
            )),
            "spawn-sentinel" => Ok(Self::SpawnSentinel(PathBuf::from(rest))),
            "spawn-cluster" => Ok(Self::SpawnCluster(PathBuf::from(rest))),
            engine if ENGINES.contains(&engine) => Err(wrong(
                "this is an engine, which `loadline engines` measures; here, `ram` is our store in this process.",
            )),
            host if rest.parse::<u16>().is_ok() => {
                let host = host.rsplit_once('/').map_or(host, |(_, host)| host);
                Err(wrong(&format!(
                    "missing scheme; write redis://{host}:{rest}."
                )))
            }
            _ if suggest::closest(scheme, KINDS).is_some() => {
                let hint = suggest::hint(scheme, KINDS);
                Err(wrong(&format!("unknown kind of target `{scheme}`{hint}")))
            }
            _ => Err(wrong(&format!("unknown kind of target; {FORMS}."))),
        }
    }

    /// Whether this run starts the target itself, so that it holds no other keys.
    pub(crate) fn is_ours(&self) -> bool {
        !matches!(self, Self::Server(_) | Self::Cluster(_) | Self::Sentinel(_))
    }

    /// Whether it is several nodes that share the keys among them.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_) | Self::SpawnCluster(_))
    }

    /// Whether it is a single process that this run starts.
    pub(crate) fn is_started(&self) -> bool {
        matches!(self, Self::Embedded | Self::Slowed(_) | Self::Spawn(_))
    }

    /// Whether it is called in this process, so that it has no connections.
    pub(crate) fn is_in_process(&self) -> bool {
        match self {
            Self::Engine(engine) => !engine.choice.is_server(),
            _ => false,
        }
    }
}

/// The target as it is typed, without its password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(server) => server.fmt(f),
            Self::Embedded => f.write_str("embedded"),
            Self::Slowed(slowdown) => write!(f, "embedded {slowdown}"),
            Self::Engine(engine) => engine.fmt(f),
            Self::Sentinel(named) => named.fmt(f),
            Self::Spawn(program) => write!(f, "spawn:{program}"),
            Self::SpawnCluster(program) => write!(f, "spawn-cluster:{}", program.display()),
            Self::SpawnSentinel(program) => write!(f, "spawn-sentinel:{}", program.display()),
            Self::Cluster(seeds) => {
                for (place, seed) in seeds.iter().enumerate() {
                    match place {
                        0 if seed.tls => {
                            write!(f, "clusters://{}{}", seed.login, seed.address)?;
                        }
                        0 => write!(f, "cluster://{}{}", seed.login, seed.address)?,
                        _ => write!(f, ",{}", seed.address)?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Slowdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
        let (burn, latency) = (micros(self.burn_per_command), micros(self.latency));
        if self.work_per_command > 0 {
            return write!(f, "(+{} rounds of work per command)", self.work_per_command);
        }
        write!(
            f,
            "(+{burn:.2} us of CPU per command, +{latency:.2} us away)"
        )
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = &self.login;
        match &self.address {
            Address::Unix(path) if self.database == 0 => {
                write!(f, "unix://{user}{}", path.display())
            }
            Address::Unix(path) => {
                write!(f, "unix://{user}{}?db={}", path.display(), self.database)
            }
            address => {
                let scheme = if self.tls { "rediss" } else { "redis" };
                write!(f, "{scheme}://{user}{address}")?;
                if self.database == 0 {
                    Ok(())
                } else {
                    write!(f, "/{}", self.database)
                }
            }
        }
    }
}

/// The part before the host, without the password.
impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.user.as_deref(), &self.password) {
            (None, None) => Ok(()),
            (user, None) => write!(f, "{}@", user.unwrap_or_default()),
            (user, Some(password)) => write!(f, "{}:{password}@", user.unwrap_or_default()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.parse::<Ipv6Addr>().is_ok() => {
                write!(f, "[{host}]:{port}")
            }
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Reads the URL of a server, by the rules of loadline-client but for its options: they would be in the way of
/// what is measured.
fn parse_server(url: &str) -> Result<Server, String> {
    let config = Config::from_url(url).map_err(|error| format!("{error}."))?;
    let (address, tls) = match config.address {
        loadline_client::Address::Tcp { host, port } => (Address::Tcp { host, port }, false),
        loadline_client::Address::Tls { host, port } => (Address::Tcp { host, port }, true),
        loadline_client::Address::Unix(path) => (Address::Unix(path), false),
        _ => return Err("unknown kind of address.".into()),
    };
    let password = config
        .password
        .filter(|password| !password.reveal().is_empty());
    Ok(Server {
        address,
        tls,
        database: config.database,
        login: Login {
            user: config.user,
            password: password.map(|password| Secret::new(password.reveal().to_owned())),
        },
    })
}

/// The error for a target without a colon.
fn of_a_word(text: &str) -> String {
    let is_host = text == "localhost" || text.parse::<IpAddr>().is_ok();
    match text {
        "redis" | "rediss" | "cluster" => {
            format!("the address is missing; write {text}://HOST:PORT.")
        }
        "sentinel" => "the address is missing; write sentinel://HOST:PORT/NAME.".to_owned(),
        "spawn" | "spawn-cluster" | "spawn-sentinel" => {
            format!("the program is missing, such as {text}:redis-server.")
        }
        "unix" => "the path is missing; write unix:///path/to.sock.".to_owned(),
        "redis-server" | "valkey-server" => format!("write spawn:{text} to start one."),
        _ if is_host => format!("missing scheme; write redis://{text}:6379."),
        _ => match suggest::closest(text, KINDS) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("unknown target; {FORMS}."),
        },
    }
}

fn parse_tcp(text: &str) -> Result<Server, String> {
    let (scheme, rest) = text.split_once(':').unwrap_or_default();
    if !rest.starts_with("//") && !rest.contains('@') {
        let rest = rest.trim_start_matches('/');
        return Err(format!("two slashes are missing; write {scheme}://{rest}."));
    }
    let server = parse_server(text).map_err(|why| {
        format!("{why}\nWrite {scheme}://HOST:PORT, such as {scheme}://localhost:6379.")
    })?;
    if text.contains('?') {
        return Err("a target has no options after `?`; percent-encode it as %3F if it is part of the password.".into());
    }
    Ok(server)
}

/// Reads `cluster://[user:password@]host:port[,host:port]...`, or the same with TLS as `clusters://`.
fn parse_cluster(text: &str) -> Result<Vec<Server>, String> {
    let form = "write cluster://HOST:PORT[,HOST:PORT].";
    let (scheme, rest) = match text.split_once("://") {
        Some(("cluster", rest)) => ("redis", rest),
        Some((_, rest)) => ("rediss", rest),
        None => return Err(form.into()),
    };
    let (login, hosts) = match rest.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), rest),
    };
    if hosts.split(',').any(str::is_empty) {
        return Err(format!("a host is missing; {form}"));
    }
    // The rules are those for a server, and every node has the same login.
    let seed = |host: &str| parse_tcp(&format!("{scheme}://{login}{host}"));
    let seeds: Vec<Server> = hosts.split(',').map(seed).collect::<Result<_, _>>()?;
    if seeds.iter().any(|seed| seed.database != 0) {
        return Err("a cluster has only database 0.".into());
    }
    Ok(seeds)
}

/// Reads `unix://[user:password@]/path/to.sock[?db=N]`.
fn parse_unix(text: &str) -> Result<Server, String> {
    let form = "write unix:///path/to.sock.";
    let rest = text.strip_prefix("unix://").ok_or(form)?;
    let (authority, path) = rest.split_at(rest.find('/').ok_or(form)?);
    let mut options = path.split('?').skip(1);
    if !options.all(|option| option.starts_with("db=") && !option.contains('&')) {
        return Err("only `?db=N` may follow the path.".into());
    }
    let server = parse_server(&format!("unix://{path}"))?;
    if authority.is_empty() {
        return Ok(server);
    }
    if !authority.ends_with('@') {
        return Err(format!("a path starts with a slash; {form}"));
    }
    // Like the login of any other URL: a host stands in for the path.
    let login = parse_server(&format!("redis://{authority}socket"))?.login;
    Ok(Server { login, ..server })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use proptest::prelude::*;

    fn server(text: &str) -> Server {
        match Target::parse(text) {
            Ok(Target::Server(server)) => server,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn servers_over_tcp() {
        for (text, host, port, database, shown) in [
            ("redis://db", "db", 6379, 0, "redis://db:6379"),
            (
                "redis://127.0.0.1:7000/3",
                "127.0.0.1",
                7000,
                3,
                "redis://127.0.0.1:7000/3",
            ),
            ("redis://[::1]:7000", "::1", 7000, 0, "redis://[::1]:7000"),
            ("rediss://db/", "db", 6379, 0, "rediss://db:6379"),
        ] {
            let server = server(text);
            assert_eq!(
                server.address,
                Address::Tcp {
                    host: host.into(),
                    port
                },
                "{text}"
            );
            assert_eq!(server.database, database, "{text}");
            assert_eq!(server.to_string(), shown);
        }
        assert!(server("rediss://db").tls && !server("redis://db").tls);
    }

    #[test]
    fn logins_are_decoded_and_hidden() {
        let login = |user: Option<&str>, password: Option<&str>| Login {
            user: user.map(Into::into),
            password: password.map(|password| Secret::new(password.into())),
        };
        for (text, wanted, shown) in [
            (
                "redis://ann:p%40ss%2F@db",
                login(Some("ann"), Some("p@ss/")),
                "redis://ann:***@db:6379",
            ),
            (
                "redis://:secret@db",
                login(None, Some("secret")),
                "redis://:***@db:6379",
            ),
            (
                "redis://ann@db",
                login(Some("ann"), None),
                "redis://ann@db:6379",
            ),
            (
                "unix://ann:pw@/run/r.sock?db=2",
                login(Some("ann"), Some("pw")),
                "unix://ann:***@/run/r.sock?db=2",
            ),
        ] {
            let server = server(text);
            assert_eq!(server.login, wanted, "{text}");
            assert_eq!(server.to_string(), shown);
            assert!(!format!("{server:?}").contains("p@ss"));
        }
    }

    #[test]
    fn sockets_and_programs() {
        assert_eq!(
            server("unix:///run/a%20b.sock").address,
            Address::Unix("/run/a b.sock".into())
        );
        assert_eq!(
            Target::parse("spawn:redis-server").unwrap(),
            Target::Spawn("redis-server".into())
        );
        assert_eq!(
            Target::parse("spawn:/opt/redis/src/redis-server")
                .unwrap()
                .to_string(),
            "spawn:/opt/redis/src/redis-server"
        );
        assert_eq!(Target::parse("embedded").unwrap(), Target::Embedded);
    }

    #[test]
    fn refused_targets_omit_the_password() {
        for text in [
            "",
            "localhost:6379",
            "redis://",
            "redis://ann:hunter2@db:99999999",
            "redis://ann:hunter2@db/x",
            "redis://ann:hunter2@db?x=1",
            "http://ann:hunter2@db",
            "unix://run/r.sock",
            "unix:///",
            "unix:///r?x=1",
            "spawn:",
            "spawn:?config=r.conf",
            "spawn:redis-server?config=",
            "spawn:redis-server?conf=r.conf",
            "spawn-cluster:redis-server?config=r.conf",
            "cluster://",
            "cluster:a",
            "cluster://ann:hunter2@a:1,b:x",
            "cluster://ann:hunter2@a:1/2",
            "cluster://ann:hunter2@a:1,",
            "spawn-cluster:",
            "heed:/tmp/x",
            "redis://dave:hunter2@ss/w:rd@host",
            "redis://u:12/hunter2@h",
            "redis://u:12?hunter2@h",
            "redis://u:12#hunter2@h",
            "cluster://u:12/hunter2@h",
            "unix://u:hunter2/x@/run/r.sock",
            "u:hunter2@h:6379",
            "redis:ann:hunter2@h",
        ] {
            let failure = Target::parse(text).unwrap_err();
            assert_eq!(failure.exit(), Exit::Usage, "{text}");
            assert!(!failure.to_string().contains("hunter2"), "{failure}");
        }
    }

    #[test]
    fn refusal_says_what_to_write() {
        for (text, said) in [
            ("localhost", "write redis://localhost:6379."),
            ("127.0.0.1", "write redis://127.0.0.1:6379."),
            ("localhost:7000", "write redis://localhost:7000."),
            ("redis//localhost:7000", "write redis://localhost:7000."),
            ("redis:/localhost", "write redis://localhost."),
            ("redis:localhost:7000", "write redis://localhost:7000."),
            ("redis", "write redis://HOST:PORT."),
            ("spawn", "such as spawn:redis-server."),
            ("unix", "write unix:///path/to.sock."),
            ("redis-server", "write spawn:redis-server to start one."),
            ("redis://localhost:abc", "such as redis://localhost:6379"),
            ("embeded", "did you mean `embedded`?"),
            ("http://localhost", "it is redis://HOST:PORT"),
            ("nonsense", "it is redis://HOST:PORT"),
        ] {
            let failure = Target::parse(text).unwrap_err().to_string();
            assert!(failure.contains(said), "{text}: {failure}");
        }
    }

    #[test]
    fn cluster_is_some_of_its_nodes_with_one_login() {
        let Ok(Target::Cluster(seeds)) = Target::parse("cluster://ann:p%40ss@a:1,[::1]:2,c") else {
            panic!("it is a cluster");
        };
        let hosts: Vec<String> = seeds.iter().map(|seed| seed.address.to_string()).collect();
        assert_eq!(hosts, ["a:1", "[::1]:2", "c:6379"]);
        assert!(seeds.iter().all(|seed| seed.login.password.is_some()));
        let secure = Target::parse("clusters://a:1").unwrap();
        assert_eq!(secure.to_string(), "clusters://a:1");
        assert!(matches!(secure, Target::Cluster(seeds) if seeds[0].tls));
        let target = Target::Cluster(seeds);
        assert_eq!(target.to_string(), "cluster://ann:***@a:1,[::1]:2,c:6379");
        assert!(target.is_cluster() && !target.is_ours());
        let spawned = Target::parse("spawn-cluster:redis-server").unwrap();
        assert_eq!(spawned, Target::SpawnCluster("redis-server".into()));
        assert!(spawned.is_cluster() && spawned.is_ours());
    }

    proptest! {
        #[test]
        fn no_text_makes_a_panic(text in "\\PC{0,40}", tail in "[a-z0-9:/@?%=\\[\\]]{0,40}") {
            for text in [text, format!("redis://{tail}"), format!("unix://{tail}"), format!("rediss:{tail}")] {
                let _ = Target::parse(&text);
            }
        }
    }
}
