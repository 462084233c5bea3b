//! A directory in memory that records every operation, fails where it is asked to, and can be brought to
//! every state that a crash could have left.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::{Appender, InPlace, NewFile, Storage, Stored};

/// An operation on a file or a name.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Create {
        name: String,
        bytes: u64,
        head: Vec<u8>,
    },
    Write {
        name: String,
        offset: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        name: String,
        bytes: u64,
    },
    Rename {
        name: String,
        to: String,
    },
    Remove {
        name: String,
    },
    Sync {
        name: String,
    },
    SyncNames,
}

impl Event {
    /// Whether it is about a name, and is in order with others of this kind.
    fn is_of_names(&self) -> bool {
        matches!(
            self,
            Self::Create { .. } | Self::Rename { .. } | Self::Remove { .. }
        )
    }
}

/// The error of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The device does not work.
    Broken,
    /// There is no room. Only calls that need some have it.
    Full,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    events: Vec<Event>,
    calls: u64,
    /// Bytes that were read from files.
    read_bytes: usize,
    /// Fails calls from the first number on, and before the second one.
    fault: Option<(Fault, u64, u64)>,
    /// Whether calls neither count nor fail for now.
    is_paused: bool,
    /// Bytes that all files can take; `None` for no limit.
    limit: Option<u64>,
    reserved: u64,
}

impl State {
    fn call(&mut self, needs_room: bool) -> io::Result<()> {
        if self.is_paused {
            return Ok(());
        }
        self.calls += 1;
        match self.fault {
            Some((fault, from, until)) if (from..until).contains(&self.calls) => match fault {
                Fault::Broken => Err(io::Error::from_raw_os_error(5)),
                Fault::Full if needs_room => Err(io::Error::from_raw_os_error(28)),
                Fault::Full => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Bytes that are left on the disk; `None` without a limit.
    fn free_bytes(&self) -> Option<u64> {
        let used = self.files.values().map(|file| file.len() as u64);
        let used = used.sum::<u64>() + self.reserved;
        Some(self.limit?.saturating_sub(used))
    }

    fn perform(&mut self, event: &Event) {
        match event {
            Event::Create { name, bytes, head } => {
                let mut file = head.clone();
                file.resize(*bytes as usize, 0);
                self.files.insert(name.clone(), file);
            }
            Event::Write {
                name,
                offset,
                bytes,
            } => {
                if let Some(file) = self.files.get_mut(name) {
                    let end = *offset as usize + bytes.len();
                    file.resize(file.len().max(end), 0);
                    file[*offset as usize..end].copy_from_slice(bytes);
                }
            }
            Event::Truncate { name, bytes } => {
                if let Some(file) = self.files.get_mut(name) {
                    file.resize(*bytes as usize, 0);
                }
            }
            Event::Rename { name, to } => {
                if let Some(file) = self.files.remove(name) {
                    self.files.insert(to.clone(), file);
                }
            }
            Event::Remove { name } => {
                self.files.remove(name);
            }
            Event::Sync { .. } | Event::SyncNames => {}
        }
    }

    fn record(&mut self, event: Event) {
        self.perform(&event);
        self.events.push(event);
    }
}

/// The directory; copies of it are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    state: Arc<Mutex<State>>,
}

impl Journal {
    fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        work(&mut self.state.lock().unwrap())
    }

    /// Number of calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.with(|state| state.calls)
    }

    /// Bytes that were read so far.
    pub(crate) fn read_bytes(&self) -> usize {
        self.with(|state| state.read_bytes)
    }

    /// Number of events so far.
    pub(crate) fn events(&self) -> usize {
        self.with(|state| state.events.len())
    }

    /// Fails the calls with these numbers.
    pub(crate) fn fail(&self, fault: Fault, from: u64, until: u64) {
        self.with(|state| state.fault = Some((fault, from, until)));
    }

    /// Does `work` without counting or failing calls.
    pub(crate) fn paused<R>(&self, work: impl FnOnce() -> R) -> R {
        self.with(|state| state.is_paused = true);
        let result = work();
        self.with(|state| state.is_paused = false);
        result
    }

    /// Limits the bytes that all files can take.
    pub(crate) fn limit(&self, bytes: u64) {
        self.with(|state| state.limit = Some(bytes));
    }

    /// Works again.
    pub(crate) fn heal(&self) {
        self.with(|state| state.fault = None);
    }

    /// Changes bytes of a file.
    pub(crate) fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        self.with(|state| change(state.files.get_mut(name).unwrap()));
    }

    /// A directory with these files.
    pub(crate) fn with_files(files: BTreeMap<String, Vec<u8>>) -> Self {
        let journal = Self::default();
        journal.with(|state| state.files = files);
        journal
    }

    /// The files as they are.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.with(|state| state.files.clone())
    }

    /// The events from a number on that had not reached the disk when the first `count` events had happened.
    pub(crate) fn unsynced(&self, count: usize) -> Vec<usize> {
        self.with(|state| {
            let events = &state.events[..count];
            let is_unsynced = |index: &usize| {
                let later = &events[index + 1..];
                match &events[*index] {
                    event if event.is_of_names() => {
                        !later.iter().any(|event| matches!(event, Event::SyncNames))
                    }
                    Event::Write { name, .. } | Event::Truncate { name, .. } => !later.iter().any(
                        |event| matches!(event, Event::Sync { name: synced } if synced == name),
                    ),
                    _ => false,
                }
            };
            (0..count).filter(is_unsynced).collect()
        })
    }

    /// A directory in the state after the first `count` events. Of those that had not reached the disk,
    /// `kept` says how many bytes did in spite of that: `None` for all.
    pub(crate) fn crashed(
        &self,
        count: usize,
        mut kept: impl FnMut(usize) -> Option<usize>,
    ) -> Self {
        let unsynced = self.unsynced(count);
        let mut state = State::default();
        let mut loses_names = false;
        self.with(|from| {
            for (index, event) in from.events[..count].iter().enumerate() {
                let kept = match unsynced.binary_search(&index) {
                    Ok(_) => kept(index),
                    Err(_) => None,
                };
                // Journaling file systems keep the order of names.
                loses_names |= event.is_of_names() && kept.is_some();
                match (event, kept) {
                    (event, _) if event.is_of_names() && loses_names => {}
                    (
                        Event::Write {
                            name,
                            offset,
                            bytes,
                        },
                        Some(kept),
                    ) => {
                        state.perform(&Event::Write {
                            name: name.clone(),
                            offset: *offset,
                            bytes: bytes[..kept.min(bytes.len())].to_vec(),
                        });
                    }
                    (Event::Truncate { .. }, Some(_)) => {}
                    (event, _) => state.perform(event),
                }
            }
        });
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Whether an event removes a file.
    pub(crate) fn is_removal(&self, index: usize) -> bool {
        self.with(|state| matches!(state.events[index], Event::Remove { .. }))
    }

    /// Bytes of an event.
    pub(crate) fn event_bytes(&self, index: usize) -> usize {
        self.with(|state| match &state.events[index] {
            Event::Write { bytes, .. } => bytes.len(),
            _ => 0,
        })
    }
}

impl Storage for Journal {
    fn list(&self) -> io::Result<Vec<String>> {
        self.with(|state| {
            state.call(false)?;
            Ok(state.files.keys().cloned().collect())
        })
    }

    fn create(&self, name: &str, bytes: u64, head: &[u8]) -> io::Result<NewFile> {
        self.with(|state| {
            state.call(true)?;
            if state.files.contains_key(name) {
                return Err(io::Error::from(io::ErrorKind::AlreadyExists));
            }
            if state.free_bytes().is_some_and(|free| free < bytes) {
                return Err(io::Error::from_raw_os_error(28));
            }
            state.record(Event::Create {
                name: name.to_owned(),
                bytes,
                head: head.to_vec(),
            });
            Ok(())
        })?;
        let stored = JournalFile {
            journal: self.clone(),
            name: name.to_owned(),
        };
        Ok(NewFile {
            appender: Box::new(JournalAppender {
                file: stored.clone(),
                at: head.len() as u64,
            }),
            stored: Arc::new(stored),
        })
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn Stored>> {
        self.with(|state| state.call(false))?;
        Ok(Arc::new(JournalFile {
            journal: self.clone(),
            name: name.to_owned(),
        }))
    }

    fn open_in_place(&self, name: &str, bytes: usize) -> io::Result<Box<dyn InPlace>> {
        self.with(|state| {
            let is_new = !state.files.contains_key(name);
            state.call(is_new)?;
            if is_new {
                state.record(Event::Create {
                    name: name.to_owned(),
                    bytes: bytes as u64,
                    head: vec![],
                });
            }
            Ok::<(), io::Error>(())
        })?;
        Ok(Box::new(JournalAppender {
            file: JournalFile {
                journal: self.clone(),
                name: name.to_owned(),
            },
            at: 0,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.with(|state| {
            state.call(false)?;
            state.record(Event::Rename {
                name: from.to_owned(),
                to: to.to_owned(),
            });
            Ok(())
        })
    }

    fn shorten(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.with(|state| {
            state.call(false)?;
            state.record(Event::Truncate {
                name: name.to_owned(),
                bytes,
            });
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.with(|state| {
            state.call(false)?;
            state.record(Event::Remove {
                name: name.to_owned(),
            });
            Ok(())
        })
    }

    fn free_bytes(&self) -> Option<u64> {
        self.with(|state| state.free_bytes())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.with(|state| {
            let more = bytes.saturating_sub(state.reserved);
            if state.free_bytes().is_some_and(|free| free < more) {
                return Err(io::Error::from_raw_os_error(28));
            }
            state.reserved = bytes;
            Ok(())
        })
    }

    fn reserved_bytes(&self) -> u64 {
        self.with(|state| state.reserved)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.with(|state| {
            state.call(false)?;
            state.record(Event::SyncNames);
            Ok(())
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(name)
    }
}

#[derive(Debug, Clone)]
struct JournalFile {
    journal: Journal,
    name: String,
}

#[derive(Debug)]
struct JournalAppender {
    file: JournalFile,
    at: u64,
}

impl Appender for JournalAppender {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.journal.with(|state| {
            let called = state.call(true);
            // A write that fails can have written a part.
            let written = if called.is_ok() {
                bytes
            } else {
                &bytes[..bytes.len() / 2]
            };
            state.record(Event::Write {
                name: self.file.name.clone(),
                offset: self.at,
                bytes: written.to_vec(),
            });
            called
        })?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

impl InPlace for JournalAppender {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.at = offset;
        self.append(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

impl Stored for JournalFile {
    fn len(&self) -> io::Result<u64> {
        self.journal.with(|state| {
            state.call(false)?;
            Ok(state.files[&self.name].len() as u64)
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.journal.with(|state| {
            state.call(false)?;
            state.read_bytes += buffer.len();
            let range = offset as usize..offset as usize + buffer.len();
            let file = state.files.get(&self.name);
            let bytes = file.and_then(|file| file.get(range));
            buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn mapped(&self, _: u64, _: usize) -> Option<&[u8]> {
        None
    }

    fn sync(&self) -> io::Result<()> {
        self.journal.with(|state| {
            state.call(false)?;
            state.record(Event::Sync {
                name: self.name.clone(),
            });
            Ok(())
        })
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.journal.with(|state| {
            state.call(false)?;
            state.record(Event::Truncate {
                name: self.name.clone(),
                bytes,
            });
            Ok(())
        })
    }
}
