//! Error replies of a node that did not execute a command, and the node that can.

use super::replies::Outcome;
use super::slot::SLOTS;
use super::topology::Node;

/// The reason why a node did not execute a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another node serves the slot (`MOVED`).
    Moved(u16, Node),
    /// The key can be on another node, to which its slot is being moved (`ASK`).
    Ask(Node),
    /// No node can execute it now: keys are being moved (`TRYAGAIN`), a master is missing (`CLUSTERDOWN`,
    /// `MASTERDOWN`), the node still loads its data (`LOADING`), or it became a replica since the map was
    /// read (`READONLY`).
    Later,
}

impl Refusal {
    /// The refusal of a command or transaction in these replies, if there is one.
    pub(crate) fn of(outcomes: &[Outcome], asked: &Node) -> Option<Self> {
        let (last, before) = outcomes.split_last()?;
        let last = error(last)?;
        if last.starts_with("EXECABORT") {
            // One of the commands was refused when it was queued, so none was executed.
            return before
                .iter()
                .filter_map(error)
                .find_map(|text| Self::read(text, asked));
        }
        Self::read(last, asked)
    }

    /// Reads the text of an error that came from the node that was asked.
    pub(crate) fn read(text: &str, asked: &Node) -> Option<Self> {
        let mut words = text.split(' ');
        let code = words.next()?;
        match code {
            "MOVED" | "ASK" => {}
            "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" => {
                return Some(Self::Later);
            }
            _ => return None,
        }
        let slot = words.next()?.parse().ok().filter(|&slot| slot < SLOTS)?;
        // A node without a known address: the map has it later.
        Some(match (code, Node::parse(words.next()?, asked)) {
            (_, None) => Self::Later,
            ("ASK", Some(node)) => Self::Ask(node),
            (_, Some(node)) => Self::Moved(slot, node),
        })
    }
}

fn error(outcome: &Outcome) -> Option<&str> {
    std::str::from_utf8(outcome.as_ref().ok()?.error_text()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_resp::OwnedReply;

    fn refusal(replies: &[&str]) -> Option<Refusal> {
        let outcomes: Vec<Outcome> = replies
            .iter()
            .map(|text| {
                Ok(match text.strip_prefix('-') {
                    Some(error) => OwnedReply::Error(error.into()),
                    None => OwnedReply::Bulk((*text).into()),
                })
            })
            .collect();
        Refusal::of(&outcomes, &Node::new("asked", 1))
    }

    #[test]
    fn redirections_are_read() {
        let node = Node::new("127.0.0.1", 7001);
        assert_eq!(
            refusal(&["-MOVED 866 127.0.0.1:7001"]),
            Some(Refusal::Moved(866, node.clone()))
        );
        assert_eq!(
            refusal(&["-ASK 866 127.0.0.1:7001"]),
            Some(Refusal::Ask(node))
        );
        assert_eq!(
            refusal(&["-MOVED 866 :7001"]),
            Some(Refusal::Moved(866, Node::new("asked", 7001)))
        );
        assert_eq!(refusal(&["-MOVED 866 ?:7001"]), Some(Refusal::Later));
        for code in [
            "TRYAGAIN",
            "CLUSTERDOWN",
            "LOADING",
            "MASTERDOWN",
            "READONLY",
        ] {
            assert_eq!(refusal(&[&format!("-{code} why")]), Some(Refusal::Later));
        }
    }

    #[test]
    fn other_errors_are_answers() {
        for text in [
            "-ERR no",
            "-MOVED",
            "-MOVED x a:1",
            "-MOVED 16384 a:1",
            "MOVED 1 a:1",
            "-MOVEDX 1 a:1",
        ] {
            assert_eq!(refusal(&[text]), None, "{text}");
        }
    }

    #[test]
    fn transaction_is_refused_by_the_command_that_could_not_be_queued() {
        let abort = "-EXECABORT Transaction discarded because of previous errors.";
        assert_eq!(
            refusal(&["OK", "QUEUED", "-MOVED 1 a:1", abort]),
            Some(Refusal::Moved(1, Node::new("a", 1)))
        );
        assert_eq!(refusal(&["OK", "-ERR unknown command", abort]), None);
        assert_eq!(
            refusal(&["OK", "QUEUED", "-TRYAGAIN x"]),
            Some(Refusal::Later)
        );
    }
}
