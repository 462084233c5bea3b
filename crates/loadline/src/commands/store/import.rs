//! `loadline store import`: the commands of an export.

use std::io::{self, Read};
use std::path::Path;

use loadline_resp::{Limits, Request, RequestParser};
use loadline_server::{FUNCTION_DATABASE, library_name, restored};
use loadline_store::{Batch, Change, ChangeLog, Entry, Error, Keyspace, Options, Store, Value};

use super::{Ticker, failure_in};
use crate::exit::Failure;
use crate::files;

/// Buffer size for reading.
const READ_BYTES: usize = 64 << 10;

/// Writes that an import applies in one batch.
const BATCH_WRITES: usize = 100;

pub(super) fn import(dir: &Path) -> Result<(), Failure> {
    let store = Store::open(dir, Options::new()).map_err(|error| failure_in(dir, &error))?;
    let mut import = Import {
        dir,
        target: Target::Store(store, Batch::new()),
        database: 0,
        pending: 0,
        entries: 0,
    };
    let read = import.read();
    let entries = import.entries;
    let closed = import.target.close();
    match read.and(closed.map_err(|error| failure_in(dir, &error))) {
        Ok(()) => files::print(&format!("{} imported.\n", counted(entries))),
        Err(failure) => {
            let stored = format!("The store has the first {}.", counted(entries));
            Err(failure.followed_by(&stored))
        }
    }
}

/// The store that is written.
enum Target {
    /// As long as there are strings of the first database only: their values need not stay in memory.
    Store(Store, Batch),
    /// From the first other entry on.
    Log(Box<ChangeLog>, Vec<Keyspace>),
    /// While one is closed and the other is opened.
    None,
}

impl Target {
    fn close(self) -> Result<(), Error> {
        match self {
            Self::Store(store, _) => store.close(),
            Self::Log(log, _) => log.close(),
            Self::None => Ok(()),
        }
    }
}

/// An import under way.
struct Import<'d> {
    dir: &'d Path,
    target: Target,
    /// The database that was selected.
    database: usize,
    /// Entries that are not written yet, and those that are.
    pending: usize,
    entries: usize,
}

impl Import<'_> {
    /// Reads commands from standard input and writes their entries.
    fn read(&mut self) -> Result<(), Failure> {
        let mut parser = RequestParser::new(Limits::default());
        let mut input = io::stdin().lock();
        let (mut bytes, mut chunk) = (Vec::new(), vec![0; READ_BYTES]);
        let mut progress = Ticker::start();
        loop {
            progress.tick(|| format!("{} imported", counted(self.entries)));
            let read = input.read(&mut chunk);
            let read = read.map_err(|error| {
                Failure::bad_file(format!("standard input cannot be read: {error}."))
            });
            bytes.extend_from_slice(&chunk[..*read.as_ref().unwrap_or(&0)]);
            let mut at = 0;
            let wrong = loop {
                match parser.parse(&bytes[at..]) {
                    Err(error) => break Some(not_an_export(&error.to_string())),
                    Ok((used, None)) => {
                        at += used;
                        break None;
                    }
                    Ok((used, Some(request))) => {
                        if let Err(failure) = self.perform(&request) {
                            break Some(failure);
                        }
                        at += used;
                    }
                }
                if self.pending == BATCH_WRITES {
                    self.write()?;
                }
            };
            bytes.drain(..at);
            if wrong.is_some() || matches!(read, Ok(0) | Err(_)) {
                self.write()?;
            }
            if let Some(failure) = wrong {
                return Err(failure);
            }
            if read? == 0 {
                break;
            }
        }
        if !bytes.is_empty() {
            return Err(not_an_export("the last command is not complete"));
        }
        Ok(())
    }

    /// Writes the entries that are pending.
    fn write(&mut self) -> Result<(), Failure> {
        let written = match &mut self.target {
            Target::Store(store, batch) => store.apply(batch).map(|_| batch.clear()),
            Target::Log(log, databases) => log.commit(databases),
            Target::None => Ok(()),
        };
        written.map_err(|error| failure_in(self.dir, &error))?;
        self.entries += std::mem::take(&mut self.pending);
        Ok(())
    }

    /// Takes one command.
    fn perform(&mut self, request: &Request<'_>) -> Result<(), Failure> {
        const EXPECTED: &str = "expected SET KEY VALUE [PXAT MILLISECONDS], or the other commands of an export: \
                                RESTORE, SELECT and FUNCTION LOAD REPLACE";
        let is = |place: usize, word: &str| {
            let found = request.get(place);
            found.is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
        };
        let number = |place: usize| -> Option<u64> {
            let text = std::str::from_utf8(request.get(place)?).ok()?;
            text.parse().ok()
        };
        let wrong = || not_an_export(EXPECTED);
        match request.len() {
            2 if is(0, "SELECT") => {
                let database = number(1).and_then(|number| usize::try_from(number).ok());
                let database = database.filter(|database| *database < FUNCTION_DATABASE);
                self.database = database.ok_or_else(wrong)?;
                Ok(())
            }
            3 if is(0, "SET") => self.put_string(&request[1], &request[2], None),
            5 if is(0, "SET") && is(3, "PXAT") => {
                let at = number(4).ok_or_else(wrong)?;
                self.put_string(&request[1], &request[2], Some(at))
            }
            5 | 6 if is(0, "RESTORE") && is(4, "REPLACE") => {
                let is_absolute = request.len() == 6 && is(5, "ABSTTL");
                let at = number(2).filter(|at| is_absolute == (*at > 0));
                let at = at.ok_or_else(wrong)?;
                let value = restored(&request[3]).ok_or_else(|| {
                    not_an_export("the payload of RESTORE has another format or is damaged")
                })?;
                self.put(self.database, &request[1], value, (at > 0).then_some(at))
            }
            4 if is(0, "FUNCTION") && is(1, "LOAD") && is(2, "REPLACE") => {
                let text = &request[3];
                let name = library_name(text)
                    .ok_or_else(|| not_an_export("the library of FUNCTION LOAD has no name"))?;
                let value = Value::String(text.to_vec());
                self.put(FUNCTION_DATABASE, name.as_bytes(), value, None)
            }
            _ => Err(wrong()),
        }
    }

    fn put_string(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at: Option<u64>,
    ) -> Result<(), Failure> {
        if let (Target::Store(_, batch), 0) = (&mut self.target, self.database) {
            batch.put_until(key, value, expires_at);
            self.pending += 1;
            return Ok(());
        }
        let value = Value::String(value.to_vec());
        self.put(self.database, key, value, expires_at)
    }

    /// Puts a value into the databases in memory, and notes it for the log.
    fn put(
        &mut self,
        database: usize,
        key: &[u8],
        value: Value,
        expires_at: Option<u64>,
    ) -> Result<(), Failure> {
        self.open_log()?;
        let Target::Log(log, databases) = &mut self.target else {
            unreachable!("it was opened")
        };
        log.put(database, key, value.view(), expires_at);
        let entry = Entry { value, expires_at };
        // Nothing has expired at the beginning of time, so that what is there is replaced in any case.
        databases[database].modify(key, 0, |_| ((), Change::Put(entry)));
        self.pending += 1;
        Ok(())
    }

    /// Goes over to the log of all databases.
    fn open_log(&mut self) -> Result<(), Failure> {
        if matches!(self.target, Target::Log(..)) {
            return Ok(());
        }
        self.write()?;
        let opened = std::mem::replace(&mut self.target, Target::None)
            .close()
            .and_then(|()| ChangeLog::open(self.dir, &Options::new()));
        let (log, databases) = opened.map_err(|error| failure_in(self.dir, &error))?;
        self.target = Target::Log(Box::new(log), databases);
        Ok(())
    }
}

fn not_an_export(reason: &str) -> Failure {
    Failure::bad_file(format!("standard input is not an export: {reason}."))
}

/// `1 entry`, `2 entries`.
fn counted(entries: usize) -> String {
    match entries {
        1 => "1 entry".to_owned(),
        _ => format!("{entries} entries"),
    }
}
