//! The output of a child process.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::LOOK_EVERY;

/// Time limit for the output of a process that has ended.
const LAST_WORDS_PATIENCE: Duration = Duration::from_millis(500);
/// Bytes of a server's output that are kept, the last ones.
const KEPT_OUTPUT_BYTES: usize = 8 << 10;

/// The last output of a child. Its pipes are read to their end, so that it never blocks on them.
#[derive(Debug, Clone, Default)]
pub(in crate::targets) struct Tail(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    /// Number of pipes that are still open.
    open: u32,
}

impl Tail {
    /// Keeps the end of what arrives on `pipe`, until it is closed.
    pub(in crate::targets) fn follow(&self, mut pipe: impl Read + Send + 'static) {
        let tail = self.clone();
        tail.kept().open += 1;
        thread::spawn(move || {
            let mut buffer = [0; 4_096];
            loop {
                match pipe.read(&mut buffer) {
                    Ok(bytes) if bytes > 0 => tail.push(&buffer[..bytes]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    _ => break,
                }
            }
            tail.kept().open -= 1;
        });
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.kept();
        kept.bytes.extend_from_slice(bytes);
        let surplus = kept.bytes.len().saturating_sub(KEPT_OUTPUT_BYTES);
        kept.bytes.drain(..surplus);
    }

    /// The last output so far.
    pub(in crate::targets) fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept().bytes).into_owned()
    }

    /// Waits briefly for the last output of a process that has ended; its own child processes may keep the pipes
    /// open.
    pub(in crate::targets) fn wait_for_end(&self) {
        let deadline = Instant::now() + LAST_WORDS_PATIENCE;
        while self.kept().open > 0 && Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_an_output_is_kept() {
        let tail = Tail::default();
        for _ in 0..10 {
            tail.push(&[b'x'; 4_096]);
        }
        tail.push(b"last words");
        assert_eq!(tail.text().len(), KEPT_OUTPUT_BYTES);
        assert!(tail.text().ends_with("last words"));
    }
}
