//! A directory in memory that can be brought to what a crash leaves. Calls give way to other threads.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shuttle::thread::yield_now;

use crate::clock;
use crate::storage::{Appender, InPlace, NewFile, Storage, Stored};

#[derive(Debug, Default, Clone)]
struct Content {
    bytes: Vec<u8>,
    /// The bytes that have reached the disk.
    synced: Vec<u8>,
    is_name_synced: bool,
}

/// A directory; a clone is the same one. Its lock is not one of shuttle's, and no thread gives way while it holds it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Memory {
    files: Arc<Mutex<BTreeMap<String, Content>>>,
    syncs: Arc<AtomicU64>,
    is_slow: Arc<AtomicBool>,
}

impl Memory {
    fn with<R>(&self, work: impl FnOnce(&mut BTreeMap<String, Content>) -> R) -> R {
        work(&mut self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The files after the machine has stopped: what was synced.
    pub(crate) fn crashed(&self) -> Self {
        let left = self.with(|files| {
            let left = files.iter().filter(|(_, file)| file.is_name_synced);
            let left = left.map(|(name, file)| {
                let bytes = file.synced.clone();
                let file = Content {
                    synced: bytes.clone(),
                    bytes,
                    is_name_synced: true,
                };
                (name.clone(), file)
            });
            left.collect()
        });
        Self {
            files: Arc::new(Mutex::new(left)),
            ..Self::default()
        }
    }

    /// Lets syncs take long, so that other threads have time to write meanwhile.
    pub(crate) fn slow_down(&self) {
        self.is_slow.store(true, Ordering::Relaxed);
    }

    /// Number of syncs of files so far.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    fn file(&self, name: &str) -> File {
        File {
            memory: self.clone(),
            name: name.to_owned(),
        }
    }
}

impl Storage for Memory {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.with(|files| files.keys().cloned().collect()))
    }

    fn create(&self, name: &str, bytes: u64, head: &[u8]) -> io::Result<NewFile> {
        let mut content = head.to_vec();
        content.resize(bytes as usize, 0);
        self.with(|files| {
            let file = Content {
                synced: vec![0; content.len()],
                bytes: content,
                is_name_synced: false,
            };
            files.insert(name.to_owned(), file);
        });
        yield_now();
        Ok(NewFile {
            appender: Box::new(End {
                file: self.file(name),
                at: head.len(),
            }),
            stored: Arc::new(self.file(name)),
        })
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn Stored>> {
        Ok(Arc::new(self.file(name)))
    }

    fn open_in_place(&self, name: &str, bytes: usize) -> io::Result<Box<dyn InPlace>> {
        self.with(|files| {
            let new = || Content {
                synced: vec![0; bytes],
                bytes: vec![0; bytes],
                is_name_synced: false,
            };
            files.entry(name.to_owned()).or_insert_with(new);
        });
        Ok(Box::new(self.file(name)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.with(|files| {
            let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
            files.insert(to.to_owned(), file);
            Ok(())
        })
    }

    fn shorten(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.file(name).truncate(bytes)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.with(|files| files.remove(name));
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let names: Vec<String> = self.list()?;
        yield_now();
        self.with(|files| {
            for name in names {
                if let Some(file) = files.get_mut(&name) {
                    file.is_name_synced = true;
                }
            }
        });
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        name.into()
    }
}

#[derive(Debug)]
struct File {
    memory: Memory,
    name: String,
}

impl File {
    fn with<R>(&self, work: impl FnOnce(&mut Content) -> R) -> io::Result<R> {
        self.memory.with(|files| {
            let file = files.get_mut(&self.name);
            file.map(work).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }
}

impl InPlace for File {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        yield_now();
        let begin = offset as usize;
        self.with(|file| file.bytes[begin..begin + bytes.len()].copy_from_slice(bytes))
    }

    /// Is not counted with the syncs of the log.
    fn sync(&self) -> io::Result<()> {
        self.with(|file| file.synced.clone_from(&file.bytes))
    }
}

impl Stored for File {
    fn len(&self) -> io::Result<u64> {
        self.with(|file| file.bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        yield_now();
        let range = offset as usize..offset as usize + buffer.len();
        self.with(|file| match file.bytes.get(range) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok::<(), io::Error>(())
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        })?
    }

    fn mapped(&self, _: u64, _: usize) -> Option<&[u8]> {
        None
    }

    /// Syncs the bytes that were written before the call. Later ones have not reached the disk when it ends.
    fn sync(&self) -> io::Result<()> {
        self.memory.syncs.fetch_add(1, Ordering::Relaxed);
        let bytes = self.with(|file| file.bytes.clone())?;
        let steps = if self.memory.is_slow.load(Ordering::Relaxed) {
            400
        } else {
            1
        };
        for _ in 0..steps {
            clock::advance(1);
            yield_now();
        }
        self.with(|file| file.synced = bytes)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.with(|file| {
            file.bytes.truncate(bytes as usize);
            file.synced.truncate(bytes as usize);
        })
    }
}

/// Writes to the end of a file.
#[derive(Debug)]
struct End {
    file: File,
    at: usize,
}

impl Appender for End {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        yield_now();
        let range = self.at..self.at + bytes.len();
        self.file.with(|file| match file.bytes.get_mut(range) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Ok::<(), io::Error>(())
            }
            None => Err(io::ErrorKind::WriteZero.into()),
        })??;
        self.at += bytes.len();
        Ok(())
    }
}
