//! The commands: one file per family. This one dispatches; the table of all commands is in `table`.

mod bitfield;
mod bits;
mod blocking;
mod call;
mod changes;
mod client;
mod config;
mod connection;
mod describe;
mod dump;
mod expiry;
#[cfg(test)]
mod full_disk;
mod functions;
mod glob;
mod hashes;
mod help;
mod hyperloglog;
mod info;
mod keys;
mod lcs;
mod lists;
#[cfg(test)]
mod model;
mod numbers;
mod pause;
mod popping;
mod pubsub;
mod refusal;
mod reply;
mod scan;
mod scripts;
mod server;
mod sets;
mod sort;
mod sorted_sets;
mod streams;
mod strings;
#[cfg(test)]
mod survival;
mod table;
mod transactions;
mod waits;

use loadline_resp::Request;
use loadline_resp::encode::Sink as _;

use crate::buffer::{Output, Part};
use crate::state::{Replies, Session, Shared};
pub(crate) use blocking::{release, wake};
use call::Call;
use changes::Effect;
pub(crate) use glob::glob;
pub(crate) use pause::resume;
pub(crate) use refusal::Refusal;
pub(crate) use scripts::Interpreter;
pub(crate) use table::names;
use table::{
    ALL, Access, FAMILIES, Keys, Known, ONE, PAIRS, TWO, all, find, fits, full_name, other, read,
    sub, write,
};

/// The largest string, as in Redis.
const LARGEST: usize = 512 << 20;

/// The words of a command, its name first.
type Words<'w> = &'w [&'w [u8]];

/// Executes a request and writes the reply to `out`.
pub(crate) fn execute(
    request: &Request<'_>,
    session: &mut Session,
    shared: &mut Shared,
    out: &mut Output,
) {
    // Most commands have few words, which need no allocation.
    let mut few: [&[u8]; 8] = [&[]; 8];
    let many: Vec<&[u8]>;
    let words = if request.len() <= few.len() {
        for (place, word) in few.iter_mut().zip(request.iter()) {
            *place = word;
        }
        &few[..request.len()]
    } else {
        many = request.iter().collect();
        &many
    };
    execute_words(words, session, shared, out);
}

fn execute_words(words: Words<'_>, session: &mut Session, shared: &mut Shared, out: &mut Output) {
    #[cfg(feature = "slowdown")]
    if let Some(slowdown) = &shared.slowdown {
        crate::slowdown::slow_down(slowdown);
    }
    let begin = out.len();
    let noted = shared.noted();
    Call {
        session,
        shared,
        out,
        changed: None,
    }
    .execute(words);
    if session.waiting.is_none() {
        finish(begin, noted, session, shared, out);
    }
}

/// Ends a command: drops its reply if it is not wanted, and notes where the reply is to be replaced if the changes cannot be
/// written.
#[inline]
fn finish(begin: usize, noted: u64, session: &mut Session, shared: &mut Shared, out: &mut Output) {
    if session.replies != Replies::On {
        if session.replies.are_dropped() {
            out.truncate(begin);
            // Messages are no replies.
            out.put(&std::mem::take(&mut session.pushed));
        }
        session.replies = session.replies.after_command();
    }
    if shared.noted() != noted {
        let part = Part {
            begin: out.end() - (out.len().saturating_sub(begin)) as u64,
            end: out.end(),
        };
        if part.end > part.begin {
            session.unconfirmed.push(part);
        }
        shared.commit_much();
    }
}

/// Whether a word is this keyword, in any case.
fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}
