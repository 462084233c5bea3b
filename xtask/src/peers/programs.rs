//! Programs that are run and measured, and servers that end with the table.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::resource::{UsageWho, getrusage};

use crate::is_on_path;

/// Time limit for the start of a server.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// The CPU that servers are pinned to.
const SERVER_CPU: &str = "0";
/// The CPU that generators are pinned to.
const GENERATOR_CPU: &str = "1";

/// The output of a program, and its cost.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) stdout: String,
    /// CPU time of the whole program, from its start to its end.
    pub(super) cpu: Duration,
}

/// Runs a program pinned to the generators' CPU.
///
/// # Errors
/// If it cannot be started or fails; the message contains its last output.
pub(super) fn run_pinned(words: &[String]) -> anyhow::Result<Ended> {
    let before = children_cpu()?;
    let output = Command::new("taskset")
        .args(["-c", GENERATOR_CPU])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .context("taskset (util-linux) could not be started")?;
    let cpu = children_cpu()?.saturating_sub(before);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{words:?} ended with {}: {}", output.status, said.trim());
    }
    Ok(Ended {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        cpu,
    })
}

/// The peak memory use of a program, in bytes.
///
/// # Errors
/// If it cannot be started or fails.
pub(super) fn peak_memory(words: &[String]) -> anyhow::Result<u64> {
    let (program, arguments) = words.split_first().context("a program is missing")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("{program} could not be started"))?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let end = loop {
        // The kernel keeps the high-water mark, so occasional readings miss only the end.
        if let Some(bytes) = high_water_mark(Path::new(&status)) {
            peak = peak.max(bytes);
        }
        if let Some(end) = child.try_wait()? {
            break end;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if !end.success() {
        bail!("`{}` ended with {end}", words.join(" "));
    }
    Ok(peak)
}

fn high_water_mark(status: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().split(' ').next()?.parse().ok()?;
    Some(kibibytes * 1_024)
}

/// CPU time of all child processes that have been waited for.
fn children_cpu() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    let micros = |time: nix::sys::time::TimeVal| {
        let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    };
    Ok(micros(usage.user_time()) + micros(usage.system_time()))
}

/// A server started for the table; it ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    pub(super) address: SocketAddr,
    pub(super) socket: Option<PathBuf>,
}

impl Server {
    /// The null server at `program`; it ends with its standard input, so it cannot outlive us.
    pub(super) fn null(program: &Path) -> anyhow::Result<Self> {
        let mut process = Command::new("taskset")
            .args(["-c", SERVER_CPU])
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the null server could not be started")?;
        let mut line = String::new();
        let stdout = process.stdout.take().context("its output was not piped")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line
            .trim()
            .parse()
            .with_context(|| format!("the null server printed `{}`", line.trim()))?;
        Ok(Self {
            process,
            address,
            socket: None,
        })
    }

    /// A redis-server without persistence, on a free port and on a socket in `dir`. It ends with us, even if we
    /// are killed.
    pub(super) fn redis(dir: &Path) -> anyhow::Result<Self> {
        Self::redis_with(dir, &[])
    }

    fn redis_with(dir: &Path, options: &[&str]) -> anyhow::Result<Self> {
        if !is_on_path("redis-server") {
            bail!("redis-server is not on PATH; `cargo xtask test --install` installs it");
        }
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let socket = dir.join("redis.sock");
        let mut words = Self::pinned();
        words
            .args(["redis-server", "--bind", "127.0.0.1", "--port"])
            .arg(address.port().to_string())
            .args(["--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .args(options)
            .current_dir(dir);
        Self::answering("redis-server", words, address, Some(socket))
    }

    /// `loadline serve` on a free port; `program` is the path of `loadline`.
    pub(super) fn loadline(loadline: &str) -> anyhow::Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut words = Self::pinned();
        words.args([loadline, "serve", "--listen", &address.to_string()]);
        Self::answering("loadline serve", words, address, None)
    }

    /// A command that is pinned to the servers' CPU and ends with us, even if we are killed.
    fn pinned() -> Command {
        let mut words = Command::new("taskset");
        words.args(["-c", SERVER_CPU, "setpriv", "--pdeathsig", "KILL"]);
        words
    }

    /// Starts a server, and waits until it answers.
    fn answering(
        name: &str,
        mut words: Command,
        address: SocketAddr,
        socket: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let process = words
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("taskset (util-linux) could not be started")?;
        let mut server = Self {
            process,
            address,
            socket,
        };
        let deadline = Instant::now() + START_PATIENCE;
        while server.call(&["PING"]).is_err() {
            if let Some(status) = server.process.try_wait()? {
                bail!("{name} ended with {status} before it answered");
            }
            if Instant::now() > deadline {
                let seconds = START_PATIENCE.as_secs();
                bail!("{name} did not answer within {seconds} s");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Its process, because taskset and setpriv exec the server.
    pub(super) fn process(&self) -> u32 {
        self.process.id()
    }

    /// Sends one command and returns its answer: the text of a simple or a bulk string, or the number.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses the command.
    pub(super) fn call(&self, words: &[&str]) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(START_PATIENCE))?;
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        stream.write_all(request.as_bytes())?;
        answer(&mut BufReader::new(stream)).with_context(|| format!("redis-server, {}", words[0]))
    }

    /// The numbers of GETs that hit and that missed since the last call.
    ///
    /// # Errors
    /// If the server cannot be reached or does not report them.
    pub(super) fn take_hits_and_misses(&self) -> anyhow::Result<(u64, u64)> {
        let info = self.call(&["INFO", "stats"])?;
        self.call(&["CONFIG", "RESETSTAT"])?;
        let of = |name: &str| {
            field(&info, name)
                .with_context(|| format!("redis-server does not report {name}:\n{info}"))
        };
        Ok((of("keyspace_hits")?, of("keyspace_misses")?))
    }
}

/// A cluster of three masters, each with a third of the slots.
#[derive(Debug)]
pub(super) struct Masters(Vec<Server>);

impl Masters {
    /// Starts the servers in separate directories in `dir`, and waits until they agree.
    ///
    /// # Errors
    /// If one of them does not start, or they do not agree.
    pub(super) fn start(dir: &Path) -> anyhow::Result<Self> {
        const RANGES: [(&str, &str); 3] = [("0", "5461"), ("5462", "10922"), ("10923", "16383")];
        let mut masters = Vec::new();
        let mut first: Option<(String, String)> = None;
        for (place, (from, to)) in RANGES.into_iter().enumerate() {
            let dir = dir.join(format!("master-{place}"));
            std::fs::create_dir(&dir).context("a directory for a master")?;
            let bus = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let bus = bus.to_string();
            let master =
                Server::redis_with(&dir, &["--cluster-enabled", "yes", "--cluster-port", &bus])?;
            master.call(&["CLUSTER", "ADDSLOTSRANGE", from, to])?;
            match &first {
                Some((port, bus)) => {
                    master.call(&["CLUSTER", "MEET", "127.0.0.1", port, bus])?;
                }
                None => first = Some((master.address.port().to_string(), bus)),
            }
            masters.push(master);
        }
        let deadline = Instant::now() + START_PATIENCE;
        let mut agreed = 0;
        while agreed < masters.len() {
            let info = masters[agreed].call(&["CLUSTER", "INFO"])?;
            if info.contains("cluster_state:ok") && field(&info, "cluster_size") == Some(3) {
                agreed += 1;
                continue;
            }
            if Instant::now() > deadline {
                bail!("the masters do not form a cluster; the last one reported:\n{info}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Self(masters))
    }

    /// The addresses of all of them, as a URL.
    pub(super) fn url(&self) -> String {
        let addresses = self.0.iter().map(|master| master.address.to_string());
        format!("cluster://{}", addresses.collect::<Vec<_>>().join(","))
    }
}

/// A reply that is text or a number.
fn answer(reader: &mut impl BufRead) -> anyhow::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line.trim_end();
    match (line.get(..1), line.get(1..)) {
        (Some("+" | ":"), Some(text)) => Ok(text.to_owned()),
        (Some("$"), Some(length)) => {
            let length: usize = length.parse().with_context(|| format!("`{line}`"))?;
            let mut text = vec![0; length];
            reader.read_exact(&mut text)?;
            Ok(String::from_utf8(text)?)
        }
        _ => bail!("it answered `{line}`"),
    }
}

/// A number in the text of INFO.
fn field(info: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(':')?.parse().ok();
    info.lines().find_map(value)
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_refusals_are_errors() {
        let read = |bytes: &[u8]| answer(&mut &bytes[..]);
        assert_eq!(read(b"+PONG\r\n").unwrap(), "PONG");
        assert_eq!(read(b":12\r\n").unwrap(), "12");
        assert_eq!(read(b"$4\r\na\r\nb\r\n").unwrap(), "a\r\nb");
        for wrong in [&b""[..], b"$-1\r\n", b"$9\r\nshort\r\n", b"*0\r\n"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        let refused = read(b"-NOAUTH Authentication required.\r\n").unwrap_err();
        assert!(refused.to_string().contains("NOAUTH"), "{refused}");
    }

    #[test]
    fn number_is_found_in_what_info_says() {
        let info = "# Stats\r\nkeyspace_hits:41\r\nkeyspace_misses:2\r\n";
        assert_eq!(field(info, "keyspace_misses"), Some(2));
        assert_eq!(field(info, "keyspace"), None);
    }

    #[test]
    fn program_is_run_and_its_cpu_time_is_its_own() {
        let words = |line: &str| vec!["sh".to_owned(), "-c".into(), line.into()];
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done";
        let ended = run_pinned(&words(busy)).unwrap();
        assert_eq!(ended.stdout, "done\n");
        assert!(ended.cpu > Duration::from_millis(10), "{:?}", ended.cpu);
        let failed = run_pinned(&words("echo no luck >&2; exit 3")).unwrap_err();
        assert!(failed.to_string().contains("no luck"), "{failed}");
    }

    #[test]
    fn memory_is_that_of_the_program() {
        let peak = peak_memory(&["sleep".into(), "0.1".into()]).unwrap();
        assert!((100 << 10..100 << 20).contains(&peak), "{peak}");
        assert!(peak_memory(&["false".into()]).is_err());
    }
}
