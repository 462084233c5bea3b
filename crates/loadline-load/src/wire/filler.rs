//! Builds the bytes of a batch of commands.

use crate::workload::{Chooser, Preformatted, Workload, append, cumulative_weights};

/// The largest batch, so that buffers stay small for any payload size.
const BATCH_BYTES: usize = 1 << 20;

/// The batch buffer of one thread. All of its connections share it: a batch is written before the next one is
/// built, and the connection keeps what its socket did not accept.
#[derive(Debug)]
pub(super) struct Filler {
    assembly: Assembly,
    cumulative: Vec<u32>,
    batch: Vec<u8>,
    most: usize,
}

#[derive(Debug)]
enum Assembly {
    /// One command of constant length: `batch` contains copies of it, and only the variable bytes are
    /// patched.
    InPlace(Preformatted),
    /// Several commands of constant lengths: copied, then patched.
    Copied(Vec<Preformatted>),
    /// Variable lengths: each command is assembled.
    Appended,
}

impl Filler {
    /// Prepares batches of up to `window` commands.
    pub(super) fn new(workload: &Workload, window: usize) -> Self {
        let commands = workload.commands();
        let fixed: Option<Vec<Preformatted>> = commands
            .iter()
            .map(|command| Preformatted::of(command, workload.values()))
            .collect();
        let longest = match &fixed {
            Some(fixed) => fixed.iter().map(|command| command.bytes.len()).max(),
            None => commands
                .iter()
                .map(|command| command.parts.len() * 32 + workload.values().largest())
                .max(),
        };
        let most = (BATCH_BYTES / longest.unwrap_or(1).max(1)).clamp(1, window.max(1));
        let mut batch = Vec::new();
        let assembly = match fixed {
            Some(mut one) if one.len() == 1 => {
                let command = one.pop().expect("there is exactly one");
                batch = command.bytes.repeat(most);
                Assembly::InPlace(command)
            }
            Some(several) => Assembly::Copied(several),
            None => Assembly::Appended,
        };
        Self {
            assembly,
            cumulative: cumulative_weights(commands),
            batch,
            most,
        }
    }

    /// The most commands of a batch.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Builds `count` commands, at most [`most`](Self::most), and calls `note` for each with its number in
    /// the workload and the last drawn key.
    #[inline]
    pub(super) fn fill(
        &mut self,
        count: usize,
        chooser: &mut Chooser,
        workload: &Workload,
        mut note: impl FnMut(usize, u64),
    ) -> &[u8] {
        debug_assert!(count <= self.most);
        match &self.assembly {
            Assembly::InPlace(command) => {
                let bytes = command.bytes.len();
                for instance in self.batch.chunks_exact_mut(bytes).take(count) {
                    command.patch(instance, chooser, workload);
                    note(0, chooser.last_key());
                }
                &self.batch[..count * bytes]
            }
            Assembly::Copied(commands) => {
                self.batch.clear();
                for _ in 0..count {
                    let chosen = chooser.command(&self.cumulative);
                    let at = self.batch.len();
                    self.batch.extend_from_slice(&commands[chosen].bytes);
                    commands[chosen].patch(&mut self.batch[at..], chooser, workload);
                    note(chosen, chooser.last_key());
                }
                &self.batch
            }
            Assembly::Appended => {
                self.batch.clear();
                for _ in 0..count {
                    let chosen = chooser.command(&self.cumulative);
                    append(
                        &workload.commands()[chosen],
                        chooser,
                        workload,
                        &mut self.batch,
                    );
                    note(chosen, chooser.last_key());
                }
                &self.batch
            }
        }
    }
}
