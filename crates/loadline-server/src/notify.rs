//! The classes of keyspace notifications, and the occurrences that become events of them.

/// A class of events, or a kind of channel, as a bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class(u16);

impl Class {
    pub(crate) const KEYSPACE: Self = Self(1 << 0);
    pub(crate) const KEYEVENT: Self = Self(1 << 1);
    pub(crate) const GENERIC: Self = Self(1 << 2);
    pub(crate) const STRING: Self = Self(1 << 3);
    pub(crate) const LIST: Self = Self(1 << 4);
    pub(crate) const SET: Self = Self(1 << 5);
    pub(crate) const HASH: Self = Self(1 << 6);
    pub(crate) const SORTED_SET: Self = Self(1 << 7);
    pub(crate) const EXPIRED: Self = Self(1 << 8);
    pub(crate) const EVICTED: Self = Self(1 << 9);
    pub(crate) const STREAM: Self = Self(1 << 10);
    pub(crate) const MISS: Self = Self(1 << 11);
    const MODULE: Self = Self(1 << 13);
    pub(crate) const NEW: Self = Self(1 << 14);
}

/// The letters of the classes that `A` stands for, in the order in which CONFIG GET shows them.
const IN_ALL: [(u8, Class); 10] = [
    (b'g', Class::GENERIC),
    (b'$', Class::STRING),
    (b'l', Class::LIST),
    (b's', Class::SET),
    (b'h', Class::HASH),
    (b'z', Class::SORTED_SET),
    (b'x', Class::EXPIRED),
    (b'e', Class::EVICTED),
    (b't', Class::STREAM),
    (b'd', Class::MODULE),
];

const OTHERS: [(u8, Class); 4] = [
    (b'n', Class::NEW),
    (b'K', Class::KEYSPACE),
    (b'E', Class::KEYEVENT),
    (b'm', Class::MISS),
];

/// The classes that are published: the setting `notify-keyspace-events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Classes(u16);

impl Classes {
    /// Reads the letters of a setting.
    ///
    /// # Errors
    /// The text of Redis for another letter.
    pub(crate) fn parse(letters: &[u8]) -> Result<Self, &'static str> {
        let mut classes = 0;
        for letter in letters {
            classes |= match letter {
                b'A' => IN_ALL.iter().fold(0, |all, (_, class)| all | class.0),
                letter => {
                    let mut known = IN_ALL.iter().chain(&OTHERS);
                    let found = known.find(|(known, _)| known == letter);
                    found
                        .ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?
                        .1
                        .0
                }
            };
        }
        Ok(Self(classes))
    }

    /// The letters as CONFIG GET shows them. As in Redis, `n` is left out behind `A`.
    pub(crate) fn text(self) -> String {
        let mut letters = String::new();
        let has_all = IN_ALL.iter().all(|(_, class)| self.has(*class));
        if has_all {
            letters.push('A');
        }
        let shown = |letter: u8| match letter {
            b'K' | b'E' | b'm' => true,
            _ => !has_all,
        };
        for (letter, class) in IN_ALL.into_iter().chain(OTHERS) {
            if self.has(class) && shown(letter) {
                letters.push(char::from(letter));
            }
        }
        letters
    }

    pub(crate) fn has(self, class: Class) -> bool {
        self.0 & class.0 != 0
    }

    /// Whether any event can be published: there is a channel for it.
    pub(crate) fn are_published(self) -> bool {
        let channels = Class::KEYSPACE.0 | Class::KEYEVENT.0;
        self.0 & channels != 0 && self.0 & !channels != 0
    }
}

/// An occurrence that can become events once the command that it belongs to has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Noted {
    pub(crate) database: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A command has changed the key.
    Changed,
    /// A command did not find the key that it reads.
    Missed,
    Evicted,
    /// This event of this class.
    Of(Class, &'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_shown_as_in_redis() {
        for (given, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("AnKm", "AKm"),
            ("nKE$lshzxeg", "g$lshzxenKE"),
            ("Elg", "glE"),
        ] {
            let classes = Classes::parse(given.as_bytes()).unwrap();
            assert_eq!(classes.text(), shown);
        }
        assert!(Classes::parse(b"KEq").is_err());
        for (given, is_published) in [("KE", false), ("A", false), ("Kx", true), ("En", true)] {
            let classes = Classes::parse(given.as_bytes()).unwrap();
            assert_eq!(classes.are_published(), is_published, "{given}");
        }
    }
}
