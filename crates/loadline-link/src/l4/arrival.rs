//! Reads with arrival times.
//!
//! The kernel records when it received the bytes of a TCP connection. Delays count from there, so they do not
//! include the time that this thread took to wake up or waited for a CPU.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The longest credible time between arrival and read. The kernel's record uses the wall clock, and a clock
/// that was set in between must not release bytes early.
const LONGEST_WAIT: Duration = Duration::from_millis(10);

/// Asks the kernel to record arrivals. Sockets without support are read without.
pub(super) fn note_arrivals(socket: impl AsFd) {
    let _ = setsockopt(&socket, sockopt::ReceiveTimestampns, &true);
}

/// Buffers for reading.
#[derive(Debug)]
pub(super) struct Reader {
    bytes: Vec<u8>,
    control: Vec<u8>,
}

impl Reader {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes: vec![0; bytes],
            control: cmsg_space!(TimeSpec),
        }
    }

    /// Reads at most `most` bytes and returns them with the arrival time of the last one.
    pub(super) fn read(
        &mut self,
        socket: &OwnedFd,
        most: usize,
    ) -> Result<(&[u8], Instant), Errno> {
        let most = most.min(self.bytes.len());
        let mut buffer = [IoSliceMut::new(&mut self.bytes[..most])];
        let control = Some(&mut self.control[..]);
        let flags = MsgFlags::empty();
        let message = recvmsg::<()>(socket.as_raw_fd(), &mut buffer, control, flags)
            .map_err(|errno| Errno::from_raw_os_error(errno as i32))?;
        let noted = message
            .cmsgs()
            .ok()
            .and_then(|mut notes| {
                notes.find_map(|note| match note {
                    ControlMessageOwned::ScmTimestampns(time) => Some(time),
                    _ => None,
                })
            })
            .map(|time| Timespec {
                tv_sec: time.tv_sec(),
                tv_nsec: time.tv_nsec(),
            });
        let bytes = message.bytes;
        // In this order, a preemption between the two makes the arrival later, never earlier.
        let wall = clock_gettime(ClockId::Realtime);
        let arrived = arrival(noted, wall, Instant::now());
        Ok((&self.bytes[..bytes], arrived))
    }

    /// The size of the largest read, in bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// The arrival of bytes that were read at `now`. The kernel recorded `noted`, and the wall clock shows `wall`
/// at `now`.
fn arrival(noted: Option<Timespec>, wall: Timespec, now: Instant) -> Instant {
    let waited = noted
        .and_then(|noted| wall.checked_sub(noted))
        .and_then(|waited| Duration::try_from(waited).ok())
        .unwrap_or_default();
    now.checked_sub(waited.min(LONGEST_WAIT)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use crate::wait::{Events, Waiter};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(tv_sec: i64, tv_nsec: i64) -> Timespec {
        Timespec { tv_sec, tv_nsec }
    }

    #[test]
    fn arrival_is_reckoned_back_from_the_read_within_bounds() {
        let now = Instant::now() + 1_000 * MS;
        let wall = at(1_000, 2_000_000);
        assert_eq!(arrival(Some(at(999, 999_000_000)), wall, now), now - 3 * MS);
        assert_eq!(arrival(None, wall, now), now);
        // The clock was set backwards and forwards in between.
        assert_eq!(arrival(Some(at(1_000, 3_000_000)), wall, now), now);
        assert_eq!(arrival(Some(at(10, 0)), wall, now), now - LONGEST_WAIT);
    }

    fn read_after(wait: Duration, writer: &mut impl Write, reader: &OwnedFd) -> Duration {
        note_arrivals(reader);
        writer.write_all(b"bytes").unwrap();
        let mut events = Events::new();
        let mut waiter = Waiter::new().unwrap();
        waiter
            .wait(Some(Instant::now() + wait), &mut events)
            .unwrap();
        let before = Instant::now();
        let mut buffers = Reader::new(16);
        let (bytes, arrived) = buffers.read(reader, 100).unwrap();
        assert_eq!(bytes, b"bytes");
        before.saturating_duration_since(arrived)
    }

    #[test]
    fn kernel_notes_arrivals_over_tcp_and_the_read_counts_elsewhere() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let reader = listener.accept().unwrap().0.into();
        // The kernel starts to record a little after the first socket asks for it.
        let noted = (0..100)
            .map(|_| read_after(5 * MS, &mut writer, &reader))
            .find(|waited| *waited > Duration::ZERO);
        assert!(noted >= Some(5 * MS - MS / 10), "{noted:?}");
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let waited = read_after(5 * MS, &mut writer, &reader.into());
        assert_eq!(waited, Duration::ZERO);
    }
}
