//! The output of a child process.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::LOOK_EVERY;

/// Time limit for the output of a process that has ended.
const LAST_WORDS_PATIENCE: Duration = Duration::from_millis(500);
/// Bytes of a child's output that are kept, of its beginning and of its end.
const KEPT_OUTPUT_BYTES: usize = 8 << 10;
/// The mark in place of the output between them.
const LEFT_OUT: &str = "\n...\n";

/// The first and the last output of a child. Its pipes are read to their end, so that it never blocks on them.
#[derive(Debug, Clone, Default)]
pub(in crate::systems) struct Tail(Arc<Mutex<Excerpt>>);

#[derive(Debug, Default)]
struct Excerpt {
    beginning: Vec<u8>,
    end: Vec<u8>,
    /// Whether there was more between them.
    is_cut: bool,
    /// Number of pipes that are still open.
    open: u32,
}

impl Tail {
    /// Keeps the beginning and the end of what arrives on `pipe`, until it is closed.
    pub(in crate::systems) fn follow(&self, mut pipe: impl Read + Send + 'static) {
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
        let room = KEPT_OUTPUT_BYTES - kept.beginning.len();
        let (first, others) = bytes.split_at(room.min(bytes.len()));
        kept.beginning.extend_from_slice(first);
        kept.end.extend_from_slice(others);
        let surplus = kept.end.len().saturating_sub(KEPT_OUTPUT_BYTES);
        kept.end.drain(..surplus);
        kept.is_cut |= surplus > 0;
    }

    /// The output so far, without the middle of a long one.
    pub(in crate::systems) fn text(&self) -> String {
        let kept = self.kept();
        let between = if kept.is_cut { LEFT_OUT } else { "" };
        let all = [&kept.beginning, between.as_bytes(), &kept.end].concat();
        String::from_utf8_lossy(&all).into_owned()
    }

    /// Waits briefly for the last output of a process that has ended; its own child processes may keep the pipes
    /// open.
    pub(in crate::systems) fn wait_for_end(&self) {
        let deadline = Instant::now() + LAST_WORDS_PATIENCE;
        while self.kept().open > 0 && Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Excerpt> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Go prints its cause before the stacks of all goroutines, and others print it after the stack.
    #[test]
    fn beginning_and_end_of_a_long_output_are_kept() {
        let tail = Tail::default();
        tail.push(b"fatal error: out of memory\n");
        for _ in 0..10 {
            tail.push(&[b'x'; 4_096]);
        }
        tail.push(b"last words");
        let text = tail.text();
        assert_eq!(text.len(), 2 * KEPT_OUTPUT_BYTES + LEFT_OUT.len());
        assert!(text.starts_with("fatal error: out of memory\n"));
        assert!(text.contains("\n...\n") && text.ends_with("last words"));
    }

    #[test]
    fn short_output_is_kept_as_it_is() {
        let tail = Tail::default();
        tail.push(b"one\n");
        tail.push(&[b'x'; KEPT_OUTPUT_BYTES]);
        assert_eq!(tail.text().len(), 4 + KEPT_OUTPUT_BYTES);
        assert!(!tail.text().contains("..."));
    }
}
