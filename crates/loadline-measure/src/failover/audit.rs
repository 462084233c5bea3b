//! The audit: outcomes that the client reported, compared with what the server has.

use serde::{Deserialize, Serialize};

use super::{History, Kind, Operation, Outcome, WriteId};

/// The fate of the writes of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Audit {
    /// The kind.
    pub kind: Kind,
    /// Writes that were sent.
    pub sent: u64,
    /// Writes that a reply confirmed.
    pub acknowledged: u64,
    /// Those of them that are not in the server, or were not received without an announced gap; `None` if there are none.
    pub loss: Option<Loss>,
    /// Acknowledged messages that were not received, in a gap that the subscriber announced.
    pub announced: u64,
    /// Writes that may have been executed according to the client, or that too few replicas have received.
    pub ambiguous: u64,
    /// Those of them that are in the server.
    pub ambiguous_there: u64,
    /// Those of the ambiguous writes that a reply confirmed, and that too few replicas had received according to WAIT.
    pub unconfirmed: u64,
    /// Those of them that are in the server.
    pub unconfirmed_there: u64,
    /// Writes that were not executed according to the client.
    pub refused: u64,
    /// Those of them that are in the server all the same, which is a defect of the client.
    pub refused_there: u64,
    /// Writes that were executed more than once; `None` if this kind does not show it.
    pub twice: Option<u64>,
}

/// Acknowledged writes that are not in the server. Times are nanoseconds since the start of the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Loss {
    /// Their number.
    pub count: u64,
    /// The first one.
    pub first: WriteId,
    /// The last one.
    pub last: WriteId,
    /// The call of the first one.
    pub from_ns: u64,
    /// The acknowledgement of the last one.
    pub to_ns: u64,
}

impl Audit {
    /// Acknowledged writes that are not in the server.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.loss.map_or(0, |loss| loss.count)
    }

    /// Acknowledged writes that are in the server.
    #[must_use]
    pub fn there(&self) -> u64 {
        let missing = self.lost().saturating_add(self.announced);
        self.acknowledged.saturating_sub(missing)
    }

    /// Whether the outcomes add up to the writes that were sent.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        self.acknowledged
            .checked_add(self.ambiguous)
            .and_then(|sum| sum.checked_add(self.refused))
            == Some(self.sent)
    }
}

/// Audits a history, with one audit for each kind. `sent` is what the load counted for each kind as it sent.
///
/// # Errors
/// A sentence if the outcomes do not add up to what was sent, which is a defect of the program that made the history.
pub fn audit(history: &History, sent: &[u64]) -> Result<Vec<Audit>, String> {
    let kinds = history.kinds.iter().enumerate();
    let audits = kinds.map(|(place, kind)| {
        let operations = history.operations.iter();
        let of_kind = operations.filter(move |operation| operation.kind == place);
        let counted = sent.get(place).copied().unwrap_or(0);
        let audit = of_kind.fold(empty(kind, counted), Audit::with);
        if audit.adds_up() {
            return Ok(audit);
        }
        Err(format!(
            "{} {kind} were sent, but {} were acknowledged, {} are ambiguous and {} were refused",
            audit.sent, audit.acknowledged, audit.ambiguous, audit.refused
        ))
    });
    audits.collect()
}

fn empty(kind: &Kind, sent: u64) -> Audit {
    Audit {
        kind: kind.clone(),
        sent,
        twice: (*kind != Kind::Set).then_some(0),
        ..Audit::default()
    }
}

impl Audit {
    fn with(mut self, operation: &Operation) -> Self {
        let is_there = u64::from(operation.executions > 0);
        match operation.outcome {
            Outcome::Acknowledged => {
                self.acknowledged += 1;
                if operation.announced {
                    self.announced += 1;
                } else if operation.executions == 0 {
                    self.loss = Some(Loss::with(self.loss, operation));
                }
            }
            Outcome::Refused => {
                self.refused += 1;
                self.refused_there += is_there;
            }
            Outcome::Ambiguous => {
                self.ambiguous += 1;
                self.ambiguous_there += is_there;
            }
            Outcome::Unconfirmed => {
                self.ambiguous += 1;
                self.ambiguous_there += is_there;
                self.unconfirmed += 1;
                self.unconfirmed_there += is_there;
            }
        }
        if let Some(twice) = &mut self.twice {
            *twice += u64::from(operation.executions > 1);
        }
        self
    }
}

impl Loss {
    /// The loss `before`, with one more lost write.
    fn with(before: Option<Self>, lost: &Operation) -> Self {
        let name = lost.id;
        let mut loss = before.unwrap_or(Self {
            count: 0,
            first: name,
            last: name,
            from_ns: lost.invoked_ns,
            to_ns: lost.completed_ns,
        });
        loss.count += 1;
        if lost.invoked_ns < loss.from_ns {
            (loss.first, loss.from_ns) = (name, lost.invoked_ns);
        }
        if lost.completed_ns > loss.to_ns {
            (loss.last, loss.to_ns) = (name, lost.completed_ns);
        }
        loss
    }
}
