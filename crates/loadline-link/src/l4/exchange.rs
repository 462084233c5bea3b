//! The messages and replies of one connection, among which a script acts. Bytes in, bytes out.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::script::{Action, Ends, Messages, Part, Progress};

/// The most bytes of an incomplete message or reply that are kept. Beyond it, the rest of the connection passes unseen.
const KEPT_BYTES: usize = 64 << 20;

/// One connection's messages and replies.
pub(super) struct Exchange {
    messages: Box<dyn Messages>,
    /// Bytes from the client that were not passed on: the start of a message that is incomplete, or all that follows the
    /// message at which steps were due.
    message: Vec<u8>,
    /// The message at which steps were due, which is forwarded after them.
    held: Vec<u8>,
    /// Whether steps were due at the last call.
    is_stopped: bool,
    /// The start of a reply that is cut once it is complete.
    reply: Vec<u8>,
    /// Messages so far.
    asked: u64,
    /// Replies so far.
    answered: u64,
    /// Events in place of replies, by the number of the reply.
    instead: VecDeque<(u64, Instead)>,
    /// Whether the bytes are not those of the protocol, or too many.
    is_unseen: bool,
}

/// An event in place of a reply.
#[derive(Debug)]
enum Instead {
    /// The connection ends once the server has replied.
    End,
    /// Other bytes, after which the connection can end.
    Bytes(Vec<u8>, Option<Duration>),
}

/// Result of bytes from a client.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Bytes for the server.
    pub(super) forward: Vec<u8>,
    /// The steps that were due, in order.
    pub(super) due: Vec<usize>,
}

/// Result of bytes from a server.
#[derive(Debug, Default)]
pub(super) struct Answered {
    /// Bytes for the client.
    pub(super) deliver: Vec<u8>,
    /// If set, the connection ends this long after those bytes.
    pub(super) ends_after: Option<Duration>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("asked", &self.asked)
            .field("answered", &self.answered)
            .finish_non_exhaustive()
    }
}

impl Exchange {
    pub(super) fn new(messages: Box<dyn Messages>) -> Self {
        Self {
            messages,
            message: Vec::new(),
            held: Vec::new(),
            is_stopped: false,
            reply: Vec::new(),
            asked: 0,
            answered: 0,
            instead: VecDeque::new(),
            is_unseen: false,
        }
    }

    /// Whether the last call stopped at a message because steps were due. Call [`Self::ask`] again once they have happened.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Takes bytes from the client, up to a message at which steps are due. Incomplete messages are kept until they are
    /// complete.
    pub(super) fn ask(&mut self, bytes: &[u8], progress: &mut Progress) -> Asked {
        self.message.extend_from_slice(bytes);
        let mut asked = Asked {
            forward: std::mem::take(&mut self.held),
            due: Vec::new(),
        };
        let mut at = 0;
        while asked.due.is_empty() && !self.is_unseen {
            let rest = &self.message[at..];
            match self.messages.message(rest) {
                Ok((0, _)) if rest.len() <= KEPT_BYTES => break,
                Ok((used, name)) if used > 0 => {
                    asked.due = name.map(|name| progress.message(name)).unwrap_or_default();
                    self.asked += u64::from(name.is_some());
                    let message = at..at + used;
                    at = message.end;
                    if asked.due.is_empty() {
                        asked.forward.extend_from_slice(&self.message[message]);
                    } else if self.is_forwarded(&asked.due, progress) {
                        self.held.extend_from_slice(&self.message[message]);
                    }
                }
                Ok(_) | Err(_) => self.is_unseen = true,
            }
        }
        if self.is_unseen {
            asked.forward.extend_from_slice(&self.message[at..]);
            at = self.message.len();
        }
        self.message.drain(..at);
        self.is_stopped = !asked.due.is_empty();
        asked
    }

    /// Whether the last message is forwarded although these steps are due at it. Notes what comes in place of its reply, which
    /// the first of the steps that concern the reply decides.
    fn is_forwarded(&mut self, due: &[usize], progress: &Progress) -> bool {
        let of_reply = due
            .iter()
            .find_map(|step| match &progress.step(*step).action {
                Action::Fault(_) => None,
                Action::CutReply => Some((Instead::End, true)),
                Action::Answer { parts, close_after } => {
                    Some((Instead::Bytes(whole(parts), *close_after), false))
                }
            });
        let Some((instead, is_forwarded)) = of_reply else {
            return true;
        };
        self.instead.push_back((self.asked, instead));
        is_forwarded
    }

    /// The rest of the client's bytes at the end of its stream.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.held);
        rest.append(&mut self.message);
        rest
    }

    /// Takes bytes from the server; none, to see whether something in place of a reply is next.
    pub(super) fn answer(&mut self, bytes: &[u8]) -> Answered {
        let mut answered = Answered::default();
        let mut at = 0;
        loop {
            let next = self.answered + 1;
            let is_cut = match self.instead.front() {
                Some((number, Instead::End)) => *number == next,
                Some((number, Instead::Bytes(..))) if *number == next => {
                    if let Some((_, Instead::Bytes(bytes, close))) = self.instead.pop_front() {
                        answered.deliver.extend_from_slice(&bytes);
                        answered.ends_after = close;
                    }
                    self.answered += 1;
                    if answered.ends_after.is_some() {
                        return answered;
                    }
                    continue;
                }
                _ => false,
            };
            let rest = &bytes[at..];
            if rest.is_empty() {
                return answered;
            }
            let seen = if self.is_unseen {
                None
            } else {
                self.messages.reply(rest).ok()
            };
            let Some((used, ends)) = seen.filter(|(used, _)| *used > 0) else {
                self.is_unseen = true;
                self.instead.clear();
                answered.deliver.append(&mut self.reply);
                answered.deliver.extend_from_slice(rest);
                return answered;
            };
            at += used;
            self.answered += u64::from(ends == Ends::Reply);
            if !is_cut {
                answered.deliver.extend_from_slice(&rest[..used]);
                continue;
            }
            // It can still turn out to be data that answers no message, which passes.
            match ends {
                Ends::Reply => {
                    answered.ends_after = Some(Duration::ZERO);
                    return answered;
                }
                Ends::Nothing if self.reply.len() <= KEPT_BYTES => {
                    self.reply.extend_from_slice(&rest[..used]);
                }
                Ends::Nothing | Ends::Other => {
                    answered.deliver.append(&mut self.reply);
                    answered.deliver.extend_from_slice(&rest[..used]);
                }
            }
        }
    }
}

fn whole(parts: &[Part]) -> Vec<u8> {
    let repeated = parts
        .iter()
        .map(|part| part.text.repeat(part.times as usize));
    repeated.collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Again, Counts, Scope, Script, Step, Trigger};
    use proptest::prelude::*;

    /// A protocol of lines, named by their first letter; a line from the server that starts with `!` is no reply.
    #[derive(Default)]
    struct Lines {
        /// The first byte of a line from the server that is incomplete.
        first: Option<u8>,
    }

    impl Messages for Lines {
        fn message<'b>(&'b mut self, bytes: &'b [u8]) -> Result<(usize, Option<&'b [u8]>), String> {
            if bytes.first() == Some(&b'?') {
                return Err("a question is no message".into());
            }
            let end = bytes.iter().position(|&byte| byte == b'\n');
            Ok(end.map_or((0, None), |end| (end + 1, Some(&bytes[..1]))))
        }

        fn reply(&mut self, bytes: &[u8]) -> Result<(usize, Ends), String> {
            let first = *self.first.get_or_insert(bytes[0]);
            let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
                return Ok((bytes.len(), Ends::Nothing));
            };
            self.first = None;
            let is_other = first == b'!';
            Ok((end + 1, if is_other { Ends::Other } else { Ends::Reply }))
        }
    }

    fn step(first: u64, action: Action) -> Step {
        Step {
            when: Trigger {
                counts: Counts::Messages(Vec::new()),
                first,
                again: Again::Never,
                times: None,
            },
            action,
            scope: Scope::Path,
            lasts: None,
        }
    }

    fn answer(text: &str, close_after: Option<Duration>) -> Action {
        let part = |text: &str, times| Part {
            text: text.into(),
            times,
        };
        Action::Answer {
            parts: vec![part(text, 2), part("\n", 1)],
            close_after,
        }
    }

    fn progress(steps: Vec<Step>) -> Progress {
        Progress::new(Script { seed: 1, steps }).unwrap()
    }

    /// Everything that is forwarded, with `|` where steps are due.
    fn asked(exchange: &mut Exchange, progress: &mut Progress, bytes: &str) -> String {
        let mut bytes = bytes.as_bytes();
        let mut forwarded = String::new();
        loop {
            let asked = exchange.ask(bytes, progress);
            forwarded += std::str::from_utf8(&asked.forward).unwrap();
            if asked.due.is_empty() {
                return forwarded;
            }
            forwarded.push('|');
            bytes = b"";
        }
    }

    fn answered(exchange: &mut Exchange, bytes: &str) -> (String, Option<Duration>) {
        let answered = exchange.answer(bytes.as_bytes());
        let text = String::from_utf8(answered.deliver).unwrap();
        (text, answered.ends_after)
    }

    #[test]
    fn cut_reply_is_the_one_of_its_message_in_a_pipeline() {
        let mut progress = progress(vec![step(2, Action::CutReply)]);
        let mut exchange = Exchange::new(Box::new(Lines::default()));
        assert_eq!(
            asked(&mut exchange, &mut progress, "a\nb\nc\n"),
            "a\n|b\nc\n"
        );
        assert_eq!(answered(&mut exchange, "A"), ("A".into(), None));
        // Data that answers no message passes, also in front of the cut and in pieces.
        assert_eq!(answered(&mut exchange, "\n!new"), ("\n".into(), None));
        assert_eq!(answered(&mut exchange, "s\nB"), ("!news\n".into(), None));
        let cut = (String::new(), Some(Duration::ZERO));
        assert_eq!(answered(&mut exchange, "\nC\n"), cut);
    }

    #[test]
    fn answers_take_the_place_of_their_reply_and_reach_no_server() {
        let late = Duration::from_secs(1);
        let mut progress = progress(vec![
            step(1, answer("-", None)),
            step(3, answer("+", Some(late))),
        ]);
        let mut exchange = Exchange::new(Box::new(Lines::default()));
        let forwarded = asked(&mut exchange, &mut progress, "a\nb\nc\n");
        assert_eq!(forwarded, "|b\n|");
        assert_eq!(answered(&mut exchange, ""), ("--\n".into(), None));
        assert_eq!(
            answered(&mut exchange, "B\n"),
            ("B\n++\n".into(), Some(late))
        );
    }

    #[test]
    fn bytes_of_another_protocol_pass_unseen() {
        let mut progress = progress(vec![step(3, Action::CutReply)]);
        let mut exchange = Exchange::new(Box::new(Lines::default()));
        assert_eq!(asked(&mut exchange, &mut progress, "a\n?\nb"), "a\n?\nb");
        assert_eq!(asked(&mut exchange, &mut progress, "\nc\nd\n"), "\nc\nd\n");
        assert_eq!(
            answered(&mut exchange, "1\n2\n3\n4"),
            ("1\n2\n3\n4".into(), None)
        );
    }

    proptest! {
        /// A script changes only what it names, however the bytes are cut.
        #[test]
        fn messages_and_replies_are_the_same_however_they_are_cut(
            cuts in prop::collection::vec(1usize..7, 1..20),
            first in 1u64..12,
            cuts_reply in any::<bool>(),
        ) {
            let action = if cuts_reply { Action::CutReply } else { answer("x", None) };
            let mut progress = progress(vec![step(first, action)]);
            let mut exchange = Exchange::new(Box::new(Lines::default()));
            let (mut forwarded, mut delivered, mut ended) = (String::new(), String::new(), false);
            let pieces = |text: &str| {
                let (mut rest, mut pieces) = (text.to_owned(), Vec::new());
                for cut in cuts.iter().cycle() {
                    if rest.is_empty() { break; }
                    let tail = rest.split_off(rest.len().min(*cut));
                    pieces.push(std::mem::replace(&mut rest, tail));
                }
                pieces
            };
            for piece in pieces("one\ntwo\nthree\nfour\nfive\nsix\nseven\n") {
                forwarded += &asked(&mut exchange, &mut progress, &piece);
            }
            forwarded = forwarded.replace('|', "");
            let replies = forwarded.to_uppercase();
            for piece in pieces(&replies) {
                if ended { break; }
                let (text, ends) = answered(&mut exchange, &piece);
                delivered += &text;
                ended = ends.is_some();
            }
            if !ended {
                delivered += &answered(&mut exchange, "").0;
            }
            let words = ["one", "two", "three", "four", "five", "six", "seven"];
            let place = usize::try_from(first).unwrap() - 1;
            let mut expected: Vec<String> = words.iter().map(|word| format!("{}\n", word.to_uppercase())).collect();
            match (cuts_reply, place < words.len()) {
                (true, true) => expected.truncate(place),
                (false, true) => expected[place] = "xx\n".into(),
                _ => {}
            }
            prop_assert_eq!(delivered, expected.concat());
            prop_assert_eq!(ended, cuts_reply && place < words.len());
            let kept = words.len() - usize::from(!cuts_reply && place < words.len());
            prop_assert_eq!(forwarded.lines().count(), kept);
        }
    }
}
