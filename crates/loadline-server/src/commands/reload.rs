//! DEBUG RELOAD: the data as it is after it was saved and loaded again.

use loadline_store::{Entry, Keyspace, Value};

use super::refusal::Refusal;
use super::server::note_loss;
use super::{Call, Words, dump, is};
use crate::Error;
use crate::state::{DATABASES, Shared};
use crate::stats::Gone;

/// With a directory, closes the log and opens it again. Without one, writes each value as DUMP does and reads that.
pub(super) fn reload(call: &mut Call<'_>, options: Words<'_>) -> Result<(), Refusal> {
    const OPTIONS: [&str; 3] = ["MERGE", "NOFLUSH", "NOSAVE"];
    let is_known = |option: &&[u8]| OPTIONS.iter().any(|known| is(option, known));
    if !options.iter().all(is_known) {
        return Err("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.".into());
    }
    if !options.is_empty() {
        return Err("ERR there is no RDB file, so the data that is loaded is always that which was saved before".into());
    }
    if call.session.may_not_block {
        // The changes of the transaction so far would be in the log without the others.
        return Err("ERR DEBUG RELOAD is not possible inside a transaction".into());
    }
    call.shared.commit();
    if let Some(refusal) = call.shared.misconfigured() {
        return Err(refusal);
    }
    call.shared.reload();
    // If the log could not be opened, no reply leaves.
    call.reply().ok();
    Ok(())
}

impl Shared {
    /// Replaces the databases by what is loaded of them. If the log cannot be opened again, the server ends.
    fn reload(&mut self) {
        note_loss(self, 0..DATABASES);
        self.gone_before_reload = Gone {
            expired: self.expired(),
            evicted: self.evicted(),
        };
        if self.persistence.is_some() {
            self.failure = self.reopen().err().map(Error::from);
            self.is_reopened = true;
        } else {
            for number in 0..self.databases.len() {
                let old = std::mem::replace(&mut self.databases[number], Keyspace::new());
                self.load(number, &old);
            }
        }
        self.set_again();
    }

    /// Moves the entries of `old` to a database, each as RESTORE makes it of what DUMP replies with.
    fn load(&self, number: usize, old: &Keyspace) {
        let (database, now) = (&self.databases[number], self.now);
        let mut cursor = 0;
        loop {
            let mut keys: Vec<Vec<u8>> = Vec::new();
            cursor = old.scan(cursor, 1, now, |key, _| keys.push(key.to_vec()));
            for key in keys {
                let read = old.peek(&key, now, |found| {
                    let (value, expires_at) = found?;
                    let value = dump::read_again(value, &self.settings);
                    let value = value.expect("what is written can be read");
                    Some((value, expires_at))
                });
                old.remove(&key, now);
                match read {
                    Some((Value::String(bytes), expires_at)) => {
                        database.put_string(&key, &bytes, now, |_| Some(expires_at));
                    }
                    Some((value, expires_at)) => {
                        let entry = Entry { value, expires_at };
                        database.modify(&key, now, |_| ((), loadline_store::Change::Put(entry)));
                    }
                    None => {}
                }
            }
            if cursor == 0 {
                return;
            }
        }
    }
}
