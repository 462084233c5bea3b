//! Replies of subjects as far as a load generator needs them, and their counts.

/// The content of a reply as far as a load generator needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'b> {
    /// A string.
    Payload(&'b [u8]),
    /// No value.
    Nil,
    /// An error, with its message.
    Error(&'b [u8]),
    /// Anything else.
    Other,
    /// A message that the target sent without a request.
    Push,
}

/// Counts of replies by content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// All replies to commands.
    pub replies: u64,
    /// Replies without a value.
    pub nils: u64,
    /// Error replies, by kind (the first word of the message).
    pub errors: Errors,
}

/// Errors by kind, in a list because few kinds are expected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors {
    kinds: Vec<(String, u64)>,
}

impl Errors {
    /// The most kinds that are counted separately; the rest counts as `OTHER`, because a target can send any
    /// number of kinds.
    const MOST_KINDS: usize = 32;

    /// Counts one error with the message `sentence`; its kind is the first word.
    pub fn count(&mut self, sentence: &[u8]) {
        let word = sentence
            .split(|byte| byte.is_ascii_whitespace())
            .next()
            .unwrap_or_default();
        let word = &word[..word.len().min(32)];
        let kind: String = word
            .iter()
            .map(|&byte| {
                if byte.is_ascii_graphic() {
                    byte as char
                } else {
                    '?'
                }
            })
            .collect();
        self.add(&kind, 1);
    }

    /// Counts `count` errors of `kind`.
    pub fn add(&mut self, kind: &str, count: u64) {
        if count == 0 {
            return;
        }
        let kind = if self.kinds.len() >= Self::MOST_KINDS
            && !self.kinds.iter().any(|(name, _)| name == kind)
        {
            "OTHER"
        } else {
            kind
        };
        match self.kinds.iter_mut().find(|(name, _)| name == kind) {
            Some((_, sum)) => *sum += count,
            None => self.kinds.push((kind.to_owned(), count)),
        }
    }

    /// Moves `count` errors from one kind to another.
    pub(crate) fn rename(&mut self, from: &str, to: &str, count: u64) {
        if let Some((_, sum)) = self.kinds.iter_mut().find(|(name, _)| name == from) {
            *sum = sum.saturating_sub(count);
        }
        self.kinds.retain(|(_, sum)| *sum > 0);
        self.add(to, count);
    }

    /// Adds the counts of another counter.
    pub fn merge(&mut self, other: &Self) {
        for (kind, count) in &other.kinds {
            self.add(kind, *count);
        }
    }

    /// The total number of errors.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.kinds.iter().map(|(_, count)| count).sum()
    }

    /// The kinds with their counts, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.kinds
            .iter()
            .map(|(kind, count)| (kind.as_str(), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_kind_and_kinds_are_bounded() {
        let mut errors = Errors::default();
        errors.count(b"WRONGTYPE Operation against a key");
        errors.count(b"WRONGTYPE again");
        errors.count(b"ERR \x1b[31m");
        assert_eq!(
            errors.iter().collect::<Vec<_>>(),
            [("WRONGTYPE", 2), ("ERR", 1)]
        );
        for kind in 0..100 {
            errors.count(format!("KIND{kind}").as_bytes());
        }
        assert_eq!(errors.total(), 103);
        assert_eq!(errors.iter().count(), Errors::MOST_KINDS + 1);
        errors.count(&[0xFF; 1_000]);
        assert!(
            errors
                .iter()
                .all(|(kind, _)| kind.len() <= 32 && kind.is_ascii())
        );
    }
}
