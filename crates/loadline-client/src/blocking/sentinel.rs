//! The thread that listens to a sentinel and asks it for the master.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loadline_resp::Protocol;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Connection;
use crate::cluster::Node;
use crate::conn::backoff::Backoff;
use crate::sentinel::{Answer, Sentinel, SentinelEvent, Subscribe, Watch, question};
use crate::{Config, Error};

/// Memory of the thread. The handshake of TLS needs the most.
const STACK_BYTES: usize = 256 << 10;
/// The shortest pause between two attempts to connect to a sentinel.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

/// Starts the thread. It ends when the watch is closed or does not know the sentinel any more.
///
/// # Errors
/// The operating system has no thread left.
pub(crate) fn listen(
    watch: Arc<Watch>,
    sentinel: Sentinel,
    node: Node,
    config: Config,
    wake: UnixStream,
) -> io::Result<()> {
    let listener = Listener {
        watch,
        sentinel,
        node,
        config: Arc::new(config),
        wake,
    };
    let thread = std::thread::Builder::new().name("sentinel".into());
    thread.stack_size(STACK_BYTES).spawn(|| listener.run())?;
    Ok(())
}

struct Listener {
    watch: Arc<Watch>,
    sentinel: Sentinel,
    node: Node,
    config: Arc<Config>,
    /// Readable when there may be something to do.
    wake: UnixStream,
}

impl Listener {
    fn run(mut self) {
        let mut backoff = Backoff::new();
        while self.watch.ask_at(&self.node).is_some() {
            let Err(error) = self.follow(&mut backoff) else {
                return;
            };
            crate::meter::lost(&self.config, &error);
            let node = self.node.clone();
            self.watch
                .update(|outlook, now| outlook.failed(&node, error, now));
            let again = Instant::now() + backoff.failed(Instant::now()).max(LEAST_PAUSE);
            while Instant::now() < again && self.watch.ask_at(&self.node).is_some() {
                self.wait(None, again);
            }
        }
    }

    /// Connects, listens and asks until the thread has to end.
    ///
    /// # Errors
    /// The reason why the connection ended.
    fn follow(&mut self, backoff: &mut Backoff) -> Result<(), Error> {
        let mut connection = Connection::open(Arc::clone(&self.config))?;
        // In RESP2 no other command can follow a subscription.
        if connection.protocol() == Protocol::Resp3 {
            connection.run(Subscribe)?;
        }
        loop {
            let Some(due) = self.watch.ask_at(&self.node) else {
                return Ok(());
            };
            if Instant::now() >= due {
                self.ask(&mut connection)?;
                backoff.connected();
            }
            while let Some(push) = connection.take_push() {
                if let Some(event) = SentinelEvent::read(&push, self.sentinel.name()) {
                    self.watch
                        .update(|outlook, now| outlook.event(&self.node, event, now));
                }
            }
            let Some(due) = self.watch.ask_at(&self.node) else {
                return Ok(());
            };
            // TLS may have decrypted more than was read.
            let is_readable = connection.is_readable_within(Duration::ZERO);
            if (is_readable || self.wait(Some(&connection), due))
                && let Some(push) = connection.wait_push(Duration::ZERO)?
            {
                connection.pushes.push_front(push);
            }
        }
    }

    fn ask(&self, connection: &mut Connection) -> Result<(), Error> {
        self.watch.asked(&self.node);
        let role = self.sentinel.settings().role;
        let replies = connection.run(question(self.sentinel.name(), role));
        if connection.sockets() > 1 {
            // The connection broke and was made again, without the subscription.
            let again = io::Error::from(io::ErrorKind::ConnectionReset);
            return Err(Error::connection(again, false));
        }
        let answer = Answer::read(replies, role)?;
        self.watch
            .update(|outlook, now| outlook.answered(&self.node, answer, now));
        Ok(())
    }

    /// Waits until the connection can be read, the thread is woken, or the time has come. Returns whether it can be read.
    fn wait(&mut self, connection: Option<&Connection>, until: Instant) -> bool {
        let socket = connection.and_then(|connection| connection.socket.as_ref());
        let left = until.saturating_duration_since(Instant::now());
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        if let Some(socket) = socket {
            fds.push(PollFd::new(&socket.socket, PollFlags::IN));
        }
        // An error is met again by the next call on the same handle.
        let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        let is_readable = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        let is_woken = !fds[0].revents().is_empty();
        drop(fds);
        if is_woken {
            // However often it was woken, it looks once.
            let mut bytes = [0; 64];
            while self
                .wake
                .read(&mut bytes)
                .is_ok_and(|read| read == bytes.len())
            {}
        }
        is_readable
    }
}
