//! Messages per second to many subscribers, from a publisher that waits for each reply, beside a peer in the same rounds:
//! `cargo run --release -p loadline-server --example publish -- PEER [SUBSCRIBERS [MESSAGES [ROUNDS]]]`, where PEER is a
//! `redis-server`.
//!
//! A round of a server lasts from the first PUBLISH until the last subscriber has received the last message. The CPU
//! time is that of the server's process, per message and subscriber.

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use loadline_measure::compare::{Paired, Rules, paired};
use loadline_measure::metric::Direction;
use loadline_measure::quantile::median;
use loadline_server::{Listen, Server, ServerConfig};
use rustix::event::epoll;

type Outcome<T> = Result<T, Box<dyn Error>>;

const PAYLOAD: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// A round that takes longer has lost messages.
const LONGEST_ROUND: Duration = Duration::from_secs(60);

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, address] = &words[..]
        && first == "--serve"
    {
        return serve(address.parse()?);
    }
    let [peer, numbers @ ..] = &words[..] else {
        return Err(
            "publish: give the path of a redis-server, then [SUBSCRIBERS [MESSAGES [ROUNDS]]]"
                .into(),
        );
    };
    let number = |place: usize, default: usize| {
        let given = numbers.get(place).map(|text| text.parse());
        given.unwrap_or(Ok(default))
    };
    let (subscribers, messages, rounds) = (number(0, 1_000)?, number(1, 200)?, number(2, 20)?);
    let mut sides = [
        Side::start(&Program::Ours, subscribers)?,
        Side::start(&Program::Peer(peer), subscribers)?,
    ];
    // The first round warms up. Each server is first in every second round.
    for round in 0..=rounds {
        for place in [round % 2, 1 - round % 2] {
            sides[place].round(messages, round > 0)?;
        }
    }
    print(&sides, subscribers)
}

fn print([ours, peer]: &[Side; 2], subscribers: usize) -> Outcome<()> {
    let compared = |of: fn(&Side) -> &Vec<f64>, direction| {
        let found = paired(of(peer), of(ours), direction, &Rules::default())?;
        Ok::<_, Box<dyn Error>>(shown(&found))
    };
    let middle = |values: &[f64]| median(values).ok_or("no rounds");
    let title = format!("{subscribers} subscribers");
    println!("{title:<18} {:>10} {:>10}   ratio", "loadline", "peer");
    println!(
        "{:<18} {:>10.0} {:>10.0}   {}",
        "messages/s",
        middle(&ours.rates)?,
        middle(&peer.rates)?,
        compared(|side| &side.rates, Direction::MoreIsBetter)?
    );
    println!(
        "{:<18} {:>7.2} ms {:>7.2} ms   {}",
        "wait for a reply",
        middle(&ours.replies_ms)?,
        middle(&peer.replies_ms)?,
        compared(|side| &side.replies_ms, Direction::LessIsBetter)?
    );
    println!(
        "{:<18} {:>7.2} us {:>7.2} us   {}",
        "CPU per delivery",
        middle(&ours.cpu_us)?,
        middle(&peer.cpu_us)?,
        compared(|side| &side.cpu_us, Direction::LessIsBetter)?
    );
    Ok(())
}

fn shown(found: &Paired) -> String {
    let interval = found
        .interval
        .map_or_else(String::new, |(low, high)| format!(" [{low:.2}, {high:.2}]"));
    format!("{:.2}x{interval}", found.ratio)
}

fn serve(address: SocketAddr) -> Outcome<()> {
    let config = ServerConfig {
        listen: vec![Listen::Tcp(address)],
        ..ServerConfig::default()
    };
    Ok(Server::bind(config)?.run(&AtomicBool::new(false))?)
}

enum Program<'p> {
    Ours,
    Peer(&'p str),
}

/// A server with its subscribers, and what its rounds gave.
struct Side {
    server: Child,
    publisher: TcpStream,
    subscribers: Vec<TcpStream>,
    epoll: rustix::fd::OwnedFd,
    rates: Vec<f64>,
    replies_ms: Vec<f64>,
    cpu_us: Vec<f64>,
}

impl Side {
    fn start(program: &Program<'_>, subscribers: usize) -> Outcome<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let port = address.port().to_string();
        let mut command = match program {
            Program::Ours => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["--serve", &address.to_string()]);
                command
            }
            Program::Peer(path) => {
                let mut command = Command::new(path);
                command.args(["--port", &port, "--save", "", "--bind", "127.0.0.1"]);
                command
            }
        };
        let started = command.stdout(Stdio::null()).spawn();
        let server = started.map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let mut side = Self {
            publisher: connect(address)?,
            server,
            subscribers: vec![],
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            rates: vec![],
            replies_ms: vec![],
            cpu_us: vec![],
        };
        for number in 0..subscribers {
            let mut stream = connect(address)?;
            stream.write_all(b"SUBSCRIBE news\r\n")?;
            read_exactly(
                &mut stream,
                b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n".len(),
            )?;
            stream.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&side.epoll, &stream, data, epoll::EventFlags::IN)?;
            side.subscribers.push(stream);
        }
        Ok(side)
    }

    fn round(&mut self, messages: usize, counts: bool) -> Outcome<()> {
        let message = format!(
            "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n${}\r\n{PAYLOAD}\r\n",
            PAYLOAD.len()
        );
        let expected = message.len() * messages * self.subscribers.len();
        let cpu = self.cpu_us()?;
        let begun = Instant::now();
        let mut publisher = self.publisher.try_clone()?;
        let reply = format!(":{}\r\n", self.subscribers.len());
        let publishing = std::thread::spawn(move || publish(&mut publisher, messages, &reply));
        self.receive(expected)?;
        let took = begun.elapsed();
        let waited = publishing.join().map_err(|_| "the publisher panicked")?;
        let waited = waited.map_err(|error| error.to_string())?;
        if counts {
            let deliveries = (messages * self.subscribers.len()) as f64;
            self.rates.push(messages as f64 / took.as_secs_f64());
            self.replies_ms
                .push(waited.as_secs_f64() * 1e3 / messages as f64);
            self.cpu_us.push((self.cpu_us()? - cpu) / deliveries);
        }
        Ok(())
    }

    /// Reads what the subscribers get.
    fn receive(&mut self, mut expected: usize) -> Outcome<()> {
        let mut buffer = vec![0; 64 << 10];
        let mut events = Vec::with_capacity(1_024);
        let begun = Instant::now();
        while expected > 0 {
            if begun.elapsed() > LONGEST_ROUND {
                return Err(format!("{expected} bytes of messages did not arrive").into());
            }
            events.clear();
            let wait = rustix::time::Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&wait),
            )?;
            for event in &events {
                let stream = &mut self.subscribers[event.data.u64() as usize];
                match stream.read(&mut buffer) {
                    Ok(0) => return Err("the server closed a subscriber".into()),
                    Ok(bytes) => {
                        let left = expected.checked_sub(bytes);
                        expected = left.ok_or("more messages arrived than were sent")?;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// CPU time of the server so far, in microseconds.
    fn cpu_us(&self) -> Outcome<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/schedstat", self.server.id()))?;
        let on_cpu_ns: f64 = stat.split(' ').next().ok_or("no CPU time")?.parse()?;
        Ok(on_cpu_ns / 1e3)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // It may have ended already, and then there is nothing to do.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Sends messages, each after the reply to the one before, and returns how long the replies took together.
fn publish(stream: &mut TcpStream, messages: usize, reply: &str) -> std::io::Result<Duration> {
    let command = format!(
        "*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n${}\r\n{PAYLOAD}\r\n",
        PAYLOAD.len()
    );
    let begun = Instant::now();
    for _ in 0..messages {
        stream.write_all(command.as_bytes())?;
        let found = read_exactly(stream, reply.len())?;
        if found != reply.as_bytes() {
            return Err(std::io::Error::other("not all subscribers were reached"));
        }
    }
    Ok(begun.elapsed())
}

fn read_exactly(stream: &mut TcpStream, bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut buffer = vec![0; bytes];
    stream.read_exact(&mut buffer)?;
    Ok(buffer)
}

/// Connects once the server listens.
fn connect(address: SocketAddr) -> Outcome<TcpStream> {
    const MOST_WAIT: Duration = Duration::from_secs(10);
    let begun = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if begun.elapsed() > MOST_WAIT => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
