//! Rules that could not be applied because a server refused to answer.

use super::flaw::{Diagnosis, NotExamined};
use super::{Rule, Severity};
use crate::record::shortened;

impl NotExamined {
    /// A refusal by the server of `subject`: `command` is one of `INFO`, `CONFIG GET` and `CLIENT LIST`, and
    /// `reason` the error.
    #[must_use]
    pub fn new(subject: &str, command: &str, reason: &str) -> Self {
        Self {
            subject: subject.to_owned(),
            command: command.to_owned(),
            reason: shortened(reason),
            rules: without(command),
        }
    }

    /// Converts to a diagnosis.
    #[must_use]
    pub fn diagnosis(&self) -> Diagnosis {
        Diagnosis::new(&self.subject, Severity::Info, self.clone())
    }
}

/// The rules that need the answer to `command`.
fn without(command: &str) -> Vec<Rule> {
    match command {
        "INFO" => vec![
            Rule::ConnectionPerOperation,
            Rule::CountsDiffer,
            Rule::GeneratorBound,
            Rule::ServerBusyElsewhere,
            Rule::MemoryLimit,
            Rule::Distance,
        ],
        "CONFIG GET" => vec![
            Rule::ServerBusyElsewhere,
            Rule::HugePages,
            Rule::SyncOnEveryWrite,
            Rule::MemoryLimit,
            Rule::OutputLimit,
            Rule::Watched,
        ],
        "CLIENT LIST" => vec![Rule::OtherClients, Rule::Watched],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Class;

    #[test]
    fn refusal_names_its_rules_and_takes_nothing_from_the_measurement() {
        let refused = NotExamined::new("redis", "CLIENT LIST", "NOPERM no\u{1b} permission");
        assert_eq!(refused.reason, "NOPERM no permission");
        assert_eq!(refused.rules, [Rule::OtherClients, Rule::Watched]);
        let found = refused.diagnosis();
        assert_eq!(found.severity, Severity::Info);
        assert_eq!(found.rule().class(), Class::NotExamined);
        for command in ["INFO", "CONFIG GET"] {
            assert!(!NotExamined::new("redis", command, "").rules.is_empty());
        }
    }
}
