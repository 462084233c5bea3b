//! Values of keys, and the executions of a write that they show.

use std::collections::BTreeMap;

use loadline_client::{Error, cmd};
use loadline_measure::failover::{Kind, Operation, WriteId};

use super::Writers;
use crate::exit::Failure;
use crate::systems::client::Blocking;

/// The commands of a [`Kind::Multi`], each an INCRBY of 1: not an INCR, so that the fault proxy counts only its EXEC.
const TOGETHER: u64 = 2;
/// Keys that are read at once.
const READ_TOGETHER: usize = 500;

/// The value of a write.
pub(super) fn of(id: WriteId) -> String {
    format!("{}:{}", id.writer, id.sequence)
}

/// The write with this value.
pub(super) fn read_back(value: &[u8]) -> Option<WriteId> {
    let (writer, sequence) = std::str::from_utf8(value).ok()?.split_once(':')?;
    Some(WriteId {
        writer: writer.parse().ok()?,
        sequence: sequence.parse().ok()?,
    })
}

/// The executions of a write whose key has this value.
pub(super) fn executions(kind: &Kind, id: WriteId, found: Option<&str>) -> u64 {
    let number = || found.and_then(|found| found.parse().ok()).unwrap_or(0_u64);
    match kind {
        Kind::Set => u64::from(found == Some(of(id).as_str())),
        Kind::Multi => number().div_ceil(TOGETHER),
        // Each execution adds 1 and the value before: 1, 3, 7.
        Kind::Watch => number().saturating_add(1).ilog2().into(),
        _ => number(),
    }
}

impl Writers {
    /// Reads every key, and notes how many times each write was executed.
    ///
    /// # Errors
    /// If a server does not answer.
    pub(crate) fn count_executions(&self, operations: &mut [Operation]) -> Result<(), Failure> {
        let mut connection = self
            .connector
            .blocking()
            .map_err(|error| super::unreachable(&error))?;
        // The keys of a writer are in one slot, so that a cluster can read them together.
        let mut together = BTreeMap::<_, Vec<&mut Operation>>::new();
        for operation in operations {
            let group = (operation.id.writer, operation.kind);
            together.entry(group).or_default().push(operation);
        }
        // Messages are in no key.
        together.retain(|(_, kind), _| self.kinds[*kind] != Kind::Publish);
        for ((_, kind), mut operations) in together {
            for some in operations.chunks_mut(READ_TOGETHER) {
                let keys = some.iter().map(|operation| self.key(operation.id, kind));
                self.count(&mut connection, kind, keys.collect(), some)
                    .map_err(|error| super::unreachable(&error))?;
            }
        }
        Ok(())
    }

    /// Notes the executions of `operations`, all of one kind, from the values of their keys.
    fn count(
        &self,
        connection: &mut Blocking,
        kind: usize,
        keys: Vec<String>,
        operations: &mut [&mut Operation],
    ) -> Result<(), Error> {
        if self.kinds[kind] == Kind::Xadd {
            let lengths = keys.into_iter().map(|key| cmd::<u64>("XLEN").arg(key));
            let lengths = connection.run(lengths.collect::<Vec<_>>());
            for (operation, length) in operations.iter_mut().zip(lengths) {
                operation.executions = length?;
            }
            return Ok(());
        }
        let values = connection.run(cmd::<Vec<Option<String>>>("MGET").arg(keys))?;
        for (operation, found) in operations.iter_mut().zip(values) {
            operation.executions = executions(&self.kinds[kind], operation.id, found.as_deref());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_show_how_many_times_a_write_was_executed() {
        let id = WriteId {
            writer: 3,
            sequence: 40,
        };
        for (kind, values) in [
            (Kind::Set, [None, Some("3:40"), None]),
            (Kind::Incr, [None, Some("1"), Some("2")]),
            (Kind::Multi, [None, Some("2"), Some("4")]),
            (Kind::Lua, [None, Some("1"), Some("2")]),
            (Kind::Watch, [None, Some("1"), Some("3")]),
        ] {
            for (times, value) in (0..).zip(values) {
                let found = executions(&kind, id, value);
                let expected = if value.is_none() { 0 } else { times };
                assert_eq!(found, expected, "{kind} {value:?}");
            }
        }
        assert_eq!(read_back(of(id).as_bytes()), Some(id));
        assert_eq!(read_back(b"\xff"), None);
    }
}
