//! A request cut into units, each of which one node executes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use loadline_resp::encode;

use super::join::join;
use super::replies::Outcome;
use super::route::{Join, Route, one_slot, route};
use super::topology::Topology;
use crate::Error;
use crate::args::Words;
use crate::flags::{Flags, Meta};
use crate::request::{Part, Request, Requests, Summary};

/// The commands of a request, as they are sent to one node.
#[derive(Debug)]
pub(crate) struct Encoded {
    wire: Vec<u8>,
    parts: Vec<Part>,
    /// Time that the server can wait on purpose.
    wait: Duration,
}

impl Encoded {
    /// Writes the commands of a request. The rest of a plan is the same for requests of all types.
    ///
    /// # Errors
    /// The error of an argument, and `Usage` for a request without commands.
    pub(crate) fn of<Q: Request>(request: &Q, second_try: bool) -> Result<Self, Error> {
        let (mut wire, mut parts) = (Vec::new(), Vec::with_capacity(request.commands()));
        let mut requests = Requests::noting(&mut wire, second_try, &mut parts);
        request.encode(&mut requests);
        let wait = requests.finish()?.wait;
        if parts.is_empty() {
            return Err(Error::Usage("the request has no commands"));
        }
        Ok(Self { wire, parts, wait })
    }
}

/// A request cut into units.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The bytes of all units.
    wire: Vec<u8>,
    units: Vec<Unit>,
    answers: Vec<AnswerSource>,
    /// Whether the whole request only reads, so that replicas can answer it.
    reads: bool,
    /// Time that the server can wait on purpose.
    wait: Duration,
    /// Whether each unit is one command with its own reply.
    plain: bool,
}

/// A command or transaction, or a part of a command.
#[derive(Debug)]
pub(crate) struct Unit {
    bytes: Range<usize>,
    summary: Summary,
    slot: u16,
    /// The number of `WAIT` at its end.
    waits: usize,
}

/// The units from which the replies to a part of the request come.
#[derive(Debug)]
enum AnswerSource {
    /// The replies to this unit, unchanged.
    Whole(usize),
    /// One reply from several units.
    Joined {
        join: Join,
        units: Range<usize>,
        /// For each unit, the places of its values.
        places: Vec<Vec<usize>>,
    },
}

impl Plan {
    /// Cuts a request. `turn` decides the node of commands that any node can execute.
    ///
    /// # Errors
    /// `Usage` for a request that a cluster cannot execute. Nothing of it was sent then.
    pub(crate) fn new(request: Encoded, topology: &Topology, turn: u64) -> Result<Self, Error> {
        Self::cut(request, topology, topology.any_slot(turn), false)
    }

    fn cut(
        Encoded { wire, parts, wait }: Encoded,
        topology: &Topology,
        anywhere: u16,
        waits: bool,
    ) -> Result<Self, Error> {
        let mut plan = Self {
            wire,
            units: Vec::with_capacity(parts.len()),
            answers: Vec::with_capacity(parts.len()),
            reads: true,
            wait,
            plain: true,
        };
        let mut start = 0;
        let mut parts = parts.into_iter();
        while let Some(part) = parts.next() {
            if part.meta.name == "MULTI" && !part.meta.flags.contains(Flags::DEDICATED) {
                start = plan.transaction(start..part.end, &mut parts, anywhere)?;
            } else if waits && matches!(part.meta.name, "WAIT" | "WAITAOF") {
                plan.wait_for_replicas(part.end)?;
                start = part.end;
            } else {
                plan.command(&part.meta, start..part.end, topology, anywhere)?;
                start = part.end;
            }
        }
        Ok(plan)
    }

    pub(crate) fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Whether the whole request only reads.
    pub(crate) fn reads(&self) -> bool {
        self.reads
    }

    /// Time that the server can wait on purpose.
    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }

    /// Whether each unit is one command with its own reply.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// The bytes of a unit.
    pub(crate) fn bytes(&self, unit: usize) -> &[u8] {
        &self.wire[self.units[unit].bytes.clone()]
    }

    /// The outcomes of the request's commands, from those of the units.
    pub(crate) fn answer(&self, mut outcomes: Vec<Vec<Outcome>>) -> Vec<Outcome> {
        let mut answers = Vec::with_capacity(self.answers.len());
        for answer in &self.answers {
            match answer {
                AnswerSource::Whole(unit) => answers.append(&mut outcomes[*unit]),
                AnswerSource::Joined {
                    join: how,
                    units,
                    places,
                } => {
                    let parts = outcomes[units.clone()].iter_mut();
                    let parts =
                        parts.map(|outcomes| outcomes.pop().expect("a unit has an outcome"));
                    answers.push(join(*how, parts.collect(), places));
                }
            }
        }
        answers
    }

    /// Cuts a request for a connection with one owner to the node of `slot`. A `WAIT` is a part of the unit before it, since it is
    /// about the writes of its connection.
    ///
    /// # Errors
    /// As for [`Plan::new`], and `Usage` for keys of another slot.
    #[cfg(feature = "tokio")]
    pub(crate) fn on_slot(request: Encoded, slot: u16) -> Result<Self, Error> {
        let mut plan = Self::cut(request, &Topology::empty(), slot, true)?;
        // The connection is to the master.
        plan.reads = false;
        if plan.units.iter().any(|unit| unit.slot != slot) {
            return Err(Error::Usage(
                "the keys of a request are in another slot than that of the connection",
            ));
        }
        Ok(plan)
    }

    /// Takes all commands up to `EXEC` as one unit; the end of its bytes.
    fn transaction(
        &mut self,
        multi: Range<usize>,
        parts: &mut impl Iterator<Item = Part>,
        anywhere: u16,
    ) -> Result<usize, Error> {
        let mut slot = None;
        let mut commands = 1;
        let mut flags = Flags::READ_ONLY;
        let mut end = multi.end;
        for Part { meta, end: next } in parts {
            let wire = &self.wire[end..next];
            (commands, end) = (commands + 1, next);
            if meta.name == "EXEC" {
                break;
            }
            slot = one_slot(slot, &meta, wire)?;
            flags = flags.together(meta.flags);
        }
        // A replica executes transactions, but its data can be older than the master's.
        (self.reads, self.plain) = (false, false);
        let summary = Summary {
            commands,
            flags,
            name: "MULTI",
            wait: self.wait,
        };
        self.whole(multi.start..end, summary, slot.unwrap_or(anywhere));
        Ok(end)
    }

    fn command(
        &mut self,
        meta: &Meta,
        bytes: Range<usize>,
        topology: &Topology,
        anywhere: u16,
    ) -> Result<(), Error> {
        let summary = Summary {
            commands: 1,
            flags: meta.flags,
            name: meta.name,
            wait: self.wait,
        };
        self.reads &= meta.flags.contains(Flags::READ_ONLY);
        match route(meta, &self.wire[bytes.clone()])? {
            Route::Slot(slot) => self.whole(bytes, summary, slot),
            Route::Anywhere => self.whole(bytes, summary, anywhere),
            Route::Everywhere(join) => {
                let slots = topology.homes();
                if slots.is_empty() {
                    self.whole(bytes, summary, anywhere);
                    return Ok(());
                }
                // The data of all masters is counted on masters only.
                self.reads = false;
                let first = self.units.len();
                self.units.extend(slots.iter().map(|&slot| Unit {
                    bytes: bytes.clone(),
                    summary,
                    slot,
                    waits: 0,
                }));
                self.joined(join, first, Vec::new());
            }
            Route::Split(join, values) => self.split(bytes, summary, join, values),
        }
        Ok(())
    }

    /// Adds a `WAIT` that ends at `end` to the last unit.
    fn wait_for_replicas(&mut self, end: usize) -> Result<(), Error> {
        let unit = self.units.last_mut().ok_or(Error::Usage(
            "WAIT is about the writes before it, which must be in the same request",
        ))?;
        unit.bytes.end = end;
        unit.waits += 1;
        unit.summary.commands += 1;
        // It needs no other state of the connection than the unit itself, so another connection can get both.
        unit.summary.flags = unit.summary.flags.together(Flags::BLOCKS);
        (self.reads, self.plain) = (false, false);
        Ok(())
    }

    fn whole(&mut self, bytes: Range<usize>, summary: Summary, slot: u16) {
        self.answers.push(AnswerSource::Whole(self.units.len()));
        self.units.push(Unit {
            bytes,
            summary,
            slot,
            waits: 0,
        });
    }

    fn joined(&mut self, join: Join, first: usize, places: Vec<Vec<usize>>) {
        self.plain = false;
        self.answers.push(AnswerSource::Joined {
            join,
            units: first..self.units.len(),
            places,
        });
    }

    /// Makes one command of the same name for each slot, with its keys and this number of values after each.
    fn split(&mut self, bytes: Range<usize>, summary: Summary, join: Join, values: usize) {
        let command = self.wire[bytes.clone()].to_vec();
        let mut args = Words::new(&command);
        let name = args.next().unwrap_or_default();
        let args: Vec<&[u8]> = args.collect();
        if !args.len().is_multiple_of(1 + values) {
            // The server refuses it as a whole, and executes none of it.
            let slot = super::slot_of(args[0]);
            self.whole(bytes, summary, slot);
            return;
        }
        let mut slots: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (place, group) in args.chunks(1 + values).enumerate() {
            slots
                .entry(super::slot_of(group[0]))
                .or_default()
                .push(place);
        }
        let first = self.units.len();
        let mut places = Vec::with_capacity(slots.len());
        for (slot, keys) in slots {
            let mut words = vec![name];
            for &place in &keys {
                let start = place * (1 + values);
                words.extend(args.iter().skip(start).take(1 + values));
            }
            let start = self.wire.len();
            encode::command(&mut self.wire, &words);
            self.units.push(Unit {
                bytes: start..self.wire.len(),
                summary,
                slot,
                waits: 0,
            });
            places.push(keys);
        }
        self.joined(join, first, places);
    }
}

impl Unit {
    /// The slot of its keys, or a slot of the node that executes it.
    pub(crate) fn slot(&self) -> u16 {
        self.slot
    }

    /// The number of `WAIT` at its end, whose replies say nothing about its execution.
    pub(crate) fn waits(&self) -> usize {
        self.waits
    }

    /// Its commands as one.
    pub(crate) fn summary(&self) -> &Summary {
        &self.summary
    }
}
