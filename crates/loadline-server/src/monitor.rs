//! Clients that watch all commands: MONITOR.

use std::collections::BTreeSet;

/// The clients, and the lines for them.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    clients: BTreeSet<u64>,
    /// Lines since the last turn of the event loop.
    lines: Vec<u8>,
    /// Whether the next command is called by a script.
    pub(crate) is_script: bool,
}

impl Monitors {
    #[inline]
    pub(crate) fn are_used(&self) -> bool {
        !self.clients.is_empty()
    }

    pub(crate) fn add(&mut self, id: u64) {
        self.clients.insert(id);
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.clients.remove(&id);
    }

    pub(crate) fn has(&self, id: u64) -> bool {
        self.clients.contains(&id)
    }

    /// Adds a line with the words of a command. Those at the places of `secret` are not shown.
    pub(crate) fn show(&mut self, begin: &str, words: &[&[u8]], secret: std::ops::Range<usize>) {
        self.lines.extend_from_slice(begin.as_bytes());
        for (place, word) in words.iter().enumerate() {
            self.lines.push(b' ');
            let word = if secret.contains(&place) {
                b"(redacted)"
            } else {
                *word
            };
            quote(word, &mut self.lines);
        }
        self.lines.extend_from_slice(b"\r\n");
    }

    /// Takes the lines since the last turn, with the clients that get them.
    pub(crate) fn take(&mut self) -> (Vec<u8>, Vec<u64>) {
        let lines = std::mem::take(&mut self.lines);
        (lines, self.clients.iter().copied().collect())
    }
}

/// Writes a word in quotes, as Redis does.
fn quote(word: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in word {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x07 => out.extend(b"\\a"),
            0x08 => out.extend(b"\\b"),
            b' '..=b'~' => out.push(*byte),
            _ => out.extend(format!("\\x{byte:02x}").into_bytes()),
        }
    }
    out.push(b'"');
}
