//! One connection through the proxy: a thread for each direction.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use loadline_resp::{Limits, RequestParser};

use super::{Shared, Step};

/// Arrays in each other.
const NESTED: usize = 200_000;
/// A string of 10 GiB, of which little comes.
const HUGE_HEAD: &[u8] = b"$10737418240\r\n";
const HUGE_PART: usize = 1 << 20;
/// Time for which the rest of it is awaited in vain.
const HUGE_WAIT: Duration = Duration::from_secs(1);

/// The shared state of the two directions.
#[derive(Debug, Default)]
struct Lane {
    /// The next bytes of the server are dropped, and the connection is closed.
    cut: AtomicBool,
    /// Nothing passes.
    silent: AtomicBool,
}

/// Serves a connection until one end closes it.
pub(super) fn run(shared: &Arc<Shared>, mut client: TcpStream) {
    // Neither matters if it fails: the connection then ends.
    let _ = client.set_nodelay(true);
    let Ok(mut server) = TcpStream::connect(shared.upstream) else {
        return;
    };
    let _ = server.set_nodelay(true);
    let lane = Arc::new(Lane::default());
    if let (Ok(from), Ok(to)) = (server.try_clone(), client.try_clone()) {
        let (shared, lane) = (Arc::clone(shared), Arc::clone(&lane));
        let _ = thread::Builder::new()
            .name("faulty".into())
            .spawn(move || replies(&shared, &lane, from, &to));
    }
    // However it ends, both ends are closed.
    let _ = requests(shared, &lane, &mut client, &mut server);
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

/// Passes what the server says.
fn replies(shared: &Shared, lane: &Lane, mut server: TcpStream, mut client: &TcpStream) {
    let mut buffer = [0; 16 << 10];
    loop {
        let read = match server.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        if lane.cut.load(Ordering::Acquire) {
            break;
        }
        let is_held = lane.silent.load(Ordering::Acquire) || shared.frozen.load(Ordering::Acquire);
        if !is_held && client.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

/// Passes what the client says, command by command.
fn requests(
    shared: &Shared,
    lane: &Lane,
    client: &mut TcpStream,
    server: &mut TcpStream,
) -> io::Result<()> {
    let mut parser = RequestParser::new(Limits::default());
    parser.set_authenticated(true);
    let mut pending: Vec<u8> = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let read = client.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        pending.extend_from_slice(&buffer[..read]);
        // Bytes that the parser has taken belong to the command that it is in.
        let mut taken = 0;
        let mut begin = 0;
        loop {
            let (used, request) = parser
                .parse(&pending[taken..])
                .map_err(|error| io::Error::other(error.to_string()))?;
            taken += used;
            let Some(request) = request else {
                break;
            };
            // Some clients send INCR as INCRBY.
            let is_counted = request.get(0).is_some_and(|name| {
                name.eq_ignore_ascii_case(b"INCR") || name.eq_ignore_ascii_case(b"INCRBY")
            });
            let step = if is_counted {
                shared.next_step()
            } else {
                Step::Forward
            };
            obey(&step, shared, lane, &pending[begin..taken], client, server)?;
            begin = taken;
        }
        pending.drain(..begin);
        // The parser starts anew with the bytes of an incomplete command.
        parser.reset();
    }
}

fn obey(
    step: &Step,
    shared: &Shared,
    lane: &Lane,
    command: &[u8],
    client: &mut TcpStream,
    server: &mut TcpStream,
) -> io::Result<()> {
    match step {
        Step::Answer(answer) => return client.write_all(answer),
        Step::Nested => {
            let mut reply = b"*1\r\n".repeat(NESTED);
            reply.extend_from_slice(b":1\r\n");
            return client.write_all(&reply);
        }
        Step::HugeBulk => {
            client.write_all(HUGE_HEAD)?;
            client.write_all(&vec![b'x'; HUGE_PART])?;
            thread::sleep(HUGE_WAIT);
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Step::GoAway => {
            shared.close_all();
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Step::Silence => lane.silent.store(true, Ordering::Release),
        Step::Freeze => shared.frozen.store(true, Ordering::Release),
        Step::Cut => lane.cut.store(true, Ordering::Release),
        Step::Forward => {}
    }
    let is_held = lane.silent.load(Ordering::Acquire) || shared.frozen.load(Ordering::Acquire);
    if is_held {
        return Ok(());
    }
    server.write_all(command)
}
