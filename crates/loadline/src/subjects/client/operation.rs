//! One operation of a workload, and its requests in each mode.

use std::sync::Arc;

use loadline_client::commands::Script;
use loadline_client::{
    ArgWriter, Command, Error as ClientError, FromReply, Meta, OwnedReply, Reply, ToArgs, atomic,
    cmd,
};
use loadline_load::workload::{Chooser, Part, Workload};

use super::typed::Typed;
use crate::plan::{Case, Mode};
use crate::systems::client::Blocking;
use crate::workload::Call;

/// A command on one key, in the form of every mode.
#[derive(Debug)]
pub(super) struct Operation {
    meta: Meta,
    /// The key, and the arguments after it.
    arguments: Vec<Vec<Part>>,
    /// Index of the argument that is the value.
    value: Option<usize>,
    /// The equivalent command for many keys.
    many: Option<Meta>,
    script: Script,
    /// Whether a nil reply is a miss.
    reads: bool,
    /// The objects, if values are objects.
    typed: Option<Arc<Typed>>,
}

/// An operation with its random choices made.
#[derive(Debug, Default)]
pub(super) struct Ready {
    key_number: u64,
    /// The key, and the arguments after it.
    arguments: Vec<Vec<u8>>,
}

impl ToArgs for Ready {
    fn count(&self) -> usize {
        self.arguments.len()
    }

    fn write_args(&self, out: &mut ArgWriter<'_>) {
        self.arguments.write_args(out);
    }
}

/// Result of an operation as an application would hold it: each value is owned.
#[derive(Debug)]
pub(super) enum Given {
    /// A missing key.
    Nil,
    /// A value.
    Bytes(Vec<u8>),
    /// A number, a list, an acknowledgement.
    Other(#[expect(dead_code, reason = "an application would have it")] OwnedReply),
}

impl FromReply for Given {
    #[inline]
    fn from_reply(reply: Reply<'_>) -> Result<Self, ClientError> {
        if reply.is_null() {
            return Ok(Self::Nil);
        }
        // An error within an array is neither; the conversion to bytes refuses it.
        if reply.as_bytes().is_some() || reply.is_error() {
            return Vec::from_reply(reply).map(Self::Bytes);
        }
        Ok(Self::Other(reply.to_owned()))
    }
}

/// Result of a command or script for many keys: a value for each key if it reads.
struct Several(Vec<Given>);

impl FromReply for Several {
    fn from_reply(reply: Reply<'_>) -> Result<Self, ClientError> {
        match reply {
            Reply::Array(_) => Vec::from_reply(reply).map(Self),
            reply => <()>::from_reply(reply).map(|()| Self(Vec::new())),
        }
    }
}

impl Operation {
    /// The single command of `case`, with its keys under `prefix`.
    pub(super) fn of(case: &Case, prefix: &str, typed: Option<Arc<Typed>>) -> Self {
        let (mut operations, _) = case.workload.calls(prefix, case.keys);
        let call = operations.swap_remove(0).swap_remove(0);
        let many = case.workload.for_many_keys();
        Self::new(call, case.workload.reads(), many, typed)
    }

    /// The commands that load the keys of `case`, if it needs any.
    pub(super) fn of_load(case: &Case, prefix: &str) -> Vec<Self> {
        let (_, load) = case.workload.calls(prefix, case.keys);
        let calls = load.into_iter().flatten();
        calls
            .map(|call| Self::new(call, false, None, None))
            .collect()
    }

    fn new(call: Call, reads: bool, many: Option<&'static str>, typed: Option<Arc<Typed>>) -> Self {
        let Call { command, arguments } = call;
        let meta = |name| cmd::<()>(name).meta();
        let is_value = |argument: &Vec<Part>| matches!(argument[..], [Part::Payload]);
        Self {
            meta: meta(command),
            value: arguments.iter().position(is_value),
            many: many.map(meta),
            script: Script::new(script(command, arguments.len() - 1, reads)),
            arguments,
            reads,
            typed,
        }
    }

    /// Makes the random choices of an operation. Objects are encoded later, as part of the call.
    pub(super) fn fill(&self, ready: &mut Ready, chooser: &mut Chooser, workload: &Workload) {
        ready
            .arguments
            .resize_with(self.arguments.len(), Vec::default);
        for (place, (bytes, parts)) in ready.arguments.iter_mut().zip(&self.arguments).enumerate() {
            bytes.clear();
            if self.typed.is_some() && self.value == Some(place) {
                continue;
            }
            for part in parts {
                part.append(chooser, workload, bytes);
            }
        }
        ready.key_number = chooser.last_key();
    }

    /// Encodes the objects that these operations write, if any.
    pub(super) fn encode(&self, ready: &mut [Ready]) {
        let (Some(typed), Some(value)) = (&self.typed, self.value) else {
            return;
        };
        typed.encode(
            ready
                .iter_mut()
                .map(|ready| (ready.key_number, &mut ready.arguments[value])),
        );
    }

    /// Decodes the values that were read, and returns whether no key was missing.
    ///
    /// # Errors
    /// If an object is not the one that was written.
    pub(super) fn judge(&self, ready: &[Ready], given: &[Given]) -> Result<bool, String> {
        if !self.reads {
            return Ok(true);
        }
        if let Some(typed) = &self.typed {
            let numbers = ready.iter().map(|ready| ready.key_number);
            let values = numbers
                .zip(given)
                .filter_map(|(number, given)| match given {
                    Given::Bytes(bytes) => Some((number, bytes.as_slice())),
                    _ => None,
                });
            typed.decode(values)?;
        }
        Ok(!given.iter().any(|given| matches!(given, Given::Nil)))
    }

    /// The request for one operation.
    pub(super) fn one<'r>(&self, ready: &'r Ready) -> Command<&'r Ready, Given> {
        Command::new(self.meta, ready)
    }

    /// Performs all prepared operations in `mode`, in one call.
    ///
    /// # Errors
    /// The error of the server or the connection; the first one if there are several.
    pub(super) fn call(
        &self,
        connection: &mut Blocking,
        mode: Mode,
        ready: &[Ready],
    ) -> Result<Vec<Given>, ClientError> {
        let each = || {
            ready
                .iter()
                .map(|ready| self.one(ready))
                .collect::<Vec<_>>()
        };
        match mode {
            Mode::Sync | Mode::Async => Ok(vec![connection.run(self.one(&ready[0]))?]),
            Mode::Pipeline => connection.run(each()).into_iter().collect(),
            Mode::Transaction => {
                let done = connection.run(atomic(each()))?.unwrap_or_default();
                done.into_iter().collect()
            }
            Mode::Batch => {
                let many = self.many.expect("the plan leaves out what has no batch");
                connection
                    .run(Command::<_, Several>::new(many, ready))
                    .map(|several| several.0)
            }
            Mode::Script => {
                let keys: Vec<&[u8]> = ready.iter().map(|one| &one.arguments[0][..]).collect();
                let rest: Vec<&[Vec<u8>]> = ready.iter().map(|one| &one.arguments[1..]).collect();
                let several = connection.run(self.script.call::<Several>(&keys, &rest))?;
                Ok(several.0)
            }
        }
    }
}

/// A script that performs `command` on each of its keys, each with `more` arguments. It returns the values found
/// if the command reads, otherwise the number of keys.
fn script(command: &str, more: usize, reads: bool) -> String {
    let arguments: String = (1..=more)
        .map(|place| format!(", ARGV[{more} * (i - 1) + {place}]"))
        .collect();
    let call = format!("redis.call('{command}', key{arguments})");
    if reads {
        format!(
            "local found = {{}} for i, key in ipairs(KEYS) do found[i] = {call} end return found"
        )
    } else {
        format!("for i, key in ipairs(KEYS) do {call} end return #KEYS")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_takes_each_key_with_its_own_arguments() {
        assert_eq!(
            script("GET", 0, true),
            "local found = {} for i, key in ipairs(KEYS) do found[i] = redis.call('GET', key) end return found"
        );
        assert_eq!(
            script("HSET", 2, false),
            "for i, key in ipairs(KEYS) do redis.call('HSET', key, ARGV[2 * (i - 1) + 1], ARGV[2 * (i - 1) + 2]) end return #KEYS"
        );
    }

    #[test]
    fn reply_is_a_value_nothing_or_something_else() {
        assert!(matches!(Given::from_reply(Reply::Null), Ok(Given::Nil)));
        let bytes = Given::from_reply(Reply::Bulk(b"x".as_slice()));
        assert!(matches!(bytes, Ok(Given::Bytes(bytes)) if bytes == b"x"));
        let number = Given::from_reply(Reply::Integer(1));
        assert!(matches!(number, Ok(Given::Other(_))));
        let error = Reply::BlobError(b"ERR no".as_slice());
        assert!(Given::from_reply(error).is_err());
        let several = Several::from_reply(Reply::Array(vec![Reply::Null, Reply::Integer(1)]));
        assert_eq!(several.unwrap().0.len(), 2);
        let none = Several::from_reply(Reply::Integer(2));
        assert!(none.unwrap().0.is_empty());
    }
}
