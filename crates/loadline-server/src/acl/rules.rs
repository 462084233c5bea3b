//! Users, and the rules of ACL SETUSER.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::{CATEGORIES, Catalogue, category};

/// The SHA-256 of a password, as text.
pub(crate) fn hashed(password: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, password);
    let bytes = digest.as_ref().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// A user of the server.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) is_on: bool,
    pub(crate) has_no_password: bool,
    sanitizes: Option<bool>,
    /// The hashes of its passwords, in the order in which they were added.
    pub(crate) passwords: Vec<String>,
    /// The rights of the user itself, and those of further selectors.
    pub(crate) selectors: Vec<Selector>,
}

/// Rights that hold together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    pub(crate) all_keys: bool,
    pub(crate) all_channels: bool,
    pub(crate) all_commands: bool,
    /// Whether commands that are unknown now would be allowed.
    future: bool,
    /// The places of the allowed commands in the catalogue.
    commands: BTreeSet<usize>,
    /// First arguments with which a command is allowed that is not otherwise.
    first_arguments: BTreeMap<usize, Vec<Vec<u8>>>,
    pub(crate) patterns: Vec<KeyPattern>,
    pub(crate) channels: Vec<Vec<u8>>,
}

/// A pattern of keys, with the access that it allows.
#[derive(Debug, Clone)]
pub(crate) struct KeyPattern {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) pattern: Vec<u8>,
}

/// The reason why a rule is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Unknown,
    Syntax,
    AfterAllKeys,
    AfterAllChannels,
    NoSuchPassword,
    BadHash,
    FirstArgument,
}

impl Fault {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::AfterAllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::AfterAllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Self::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::FirstArgument => "Allowing first-arg of a subcommand is not supported",
        }
    }
}

impl User {
    /// A user who can do nothing, but use all channels if that is the default.
    pub(crate) fn new(all_channels: bool) -> Self {
        Self {
            is_on: false,
            has_no_password: false,
            sanitizes: None,
            passwords: Vec::new(),
            selectors: vec![Selector::new(all_channels)],
        }
    }

    /// The user of clients that have not authenticated, who can do everything without a password.
    pub(crate) fn default_user() -> Self {
        let mut user = Self::new(true);
        for rule in ["+@all", "~*", "&*", "on", "nopass"] {
            user.set(rule.as_bytes(), true).expect("these rules exist");
        }
        user
    }

    /// Whether the user can do everything.
    pub(crate) fn is_free(&self) -> bool {
        let free = |one: &Selector| one.all_keys && one.all_channels && one.all_commands;
        self.is_on && self.selectors.iter().any(free)
    }

    /// Whether a password is one of the user's. The comparison takes the same time wherever hashes differ.
    pub(crate) fn takes(&self, password: &[u8]) -> bool {
        if self.has_no_password {
            return true;
        }
        let hash = hashed(password);
        let is_same = |known: &String| {
            let bytes = hash.bytes().zip(known.bytes());
            let difference = bytes.fold(0, |all, (one, other)| all | (one ^ other));
            hash.len() == known.len() && difference == 0
        };
        self.passwords
            .iter()
            .fold(false, |any, known| any | is_same(known))
    }

    /// Applies a rule.
    ///
    /// # Errors
    /// The reason for which the rule is refused.
    pub(crate) fn set(&mut self, rule: &[u8], all_channels: bool) -> Result<(), Fault> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"sanitize-payload" => self.sanitizes = Some(true),
            b"skip-sanitize-payload" => self.sanitizes = Some(false),
            b"nopass" => {
                self.has_no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.has_no_password = false;
                self.passwords.clear();
            }
            b"clearselectors" => self.selectors.truncate(1),
            b"reset" => {
                *self = Self {
                    sanitizes: Some(true),
                    ..Self::new(all_channels)
                }
            }
            [b'>' | b'#' | b'<' | b'!', ..] => return self.set_password(rule[0], &rule[1..]),
            [b'(', .., b')'] => {
                let mut selector = Selector::new(all_channels);
                let rules = rule[1..rule.len() - 1].split(u8::is_ascii_whitespace);
                for rule in rules.filter(|rule| !rule.is_empty()) {
                    selector.set(rule)?;
                }
                self.selectors.push(selector);
            }
            _ => return self.selectors[0].set(rule),
        }
        Ok(())
    }

    fn set_password(&mut self, kind: u8, text: &[u8]) -> Result<(), Fault> {
        let hash = match kind {
            b'>' | b'<' => hashed(text),
            _ => {
                let is_hash = text.len() == 64
                    && text
                        .iter()
                        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
                if !is_hash {
                    return Err(Fault::BadHash);
                }
                String::from_utf8_lossy(text).into_owned()
            }
        };
        let place = self.passwords.iter().position(|known| *known == hash);
        match (kind, place) {
            (b'<' | b'!', None) => return Err(Fault::NoSuchPassword),
            (b'<' | b'!', Some(place)) => {
                self.passwords.remove(place);
            }
            (_, None) => {
                self.passwords.push(hash);
                self.has_no_password = false;
            }
            (_, Some(_)) => self.has_no_password = false,
        }
        Ok(())
    }

    /// The flags of the user.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let all = [
            (self.is_on, "on"),
            (!self.is_on, "off"),
            (self.has_no_password, "nopass"),
            (self.sanitizes == Some(false), "skip-sanitize-payload"),
            (self.sanitizes == Some(true), "sanitize-payload"),
        ];
        let set = all.into_iter().filter(|(is_set, _)| *is_set);
        set.map(|(_, name)| name).collect()
    }

    /// The rules that make this user.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for flag in self.flags() {
            text.extend_from_slice(flag.as_bytes());
            text.push(b' ');
        }
        for password in &self.passwords {
            text.extend_from_slice(format!("#{password} ").as_bytes());
        }
        for (number, selector) in self.selectors.iter().enumerate() {
            if number == 0 {
                text.extend(selector.text());
            } else {
                text.extend([b" (", &*selector.text(), b")"].concat());
            }
        }
        text
    }
}

impl Selector {
    fn new(all_channels: bool) -> Self {
        Self {
            all_channels,
            ..Self::default()
        }
    }

    /// Applies a rule about commands, keys or channels.
    fn set(&mut self, rule: &[u8]) -> Result<(), Fault> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => {
                self.all_keys = true;
                self.patterns.clear();
            }
            b"resetkeys" => {
                self.all_keys = false;
                self.patterns.clear();
            }
            b"allchannels" | b"&*" => {
                self.all_channels = true;
                self.channels.clear();
            }
            b"resetchannels" => {
                self.all_channels = false;
                self.channels.clear();
            }
            b"allcommands" | b"+@all" => self.set_all(true),
            b"nocommands" | b"-@all" => self.set_all(false),
            [b'~' | b'%', ..] => return self.add_pattern(rule),
            [b'&', ..] => {
                if self.all_channels {
                    return Err(Fault::AfterAllChannels);
                }
                let pattern = &rule[1..];
                if has_spaces(pattern) {
                    return Err(Fault::Syntax);
                }
                if !self.channels.iter().any(|known| known == pattern) {
                    self.channels.push(pattern.to_vec());
                }
            }
            [sign @ (b'+' | b'-'), b'@', ..] => {
                let name = std::str::from_utf8(&rule[2..]).map_err(|_| Fault::Unknown)?;
                let category = category(name).ok_or(Fault::Unknown)?;
                self.set_category(category, *sign == b'+');
            }
            [b'+', ..] => return self.allow(&rule[1..]),
            [b'-', ..] => {
                let place = Catalogue::get().place(&rule[1..]).ok_or(Fault::Unknown)?;
                self.set_command(place, false);
            }
            _ => return Err(Fault::Syntax),
        }
        Ok(())
    }

    fn set_all(&mut self, is_allowed: bool) {
        self.all_commands = is_allowed;
        self.future = is_allowed;
        self.first_arguments.clear();
        self.commands = match is_allowed {
            true => (0..Catalogue::get().items.len()).collect(),
            false => BTreeSet::new(),
        };
    }

    fn add_pattern(&mut self, rule: &[u8]) -> Result<(), Fault> {
        if self.all_keys {
            return Err(Fault::AfterAllKeys);
        }
        let (mut reads, mut writes, mut pattern) = (false, false, &rule[1..]);
        if rule[0] == b'~' {
            (reads, writes) = (true, true);
        } else {
            while let Some((letter, rest)) = pattern.split_first() {
                pattern = rest;
                match letter.to_ascii_uppercase() {
                    b'R' if !reads => reads = true,
                    b'W' if !writes => writes = true,
                    b'~' => break,
                    _ => return Err(Fault::Syntax),
                }
            }
        }
        if has_spaces(pattern) {
            return Err(Fault::Syntax);
        }
        let known = self
            .patterns
            .iter_mut()
            .find(|known| known.pattern == pattern);
        match known {
            Some(known) => {
                known.reads |= reads;
                known.writes |= writes;
            }
            None => self.patterns.push(KeyPattern {
                reads,
                writes,
                pattern: pattern.to_vec(),
            }),
        }
        Ok(())
    }

    /// Allows a command, a subcommand, or a command with a first argument.
    fn allow(&mut self, name: &[u8]) -> Result<(), Fault> {
        let catalogue = Catalogue::get();
        if let Some(place) = catalogue.place(name) {
            self.set_command(place, true);
            return Ok(());
        }
        let bar = name
            .iter()
            .rposition(|byte| *byte == b'|')
            .ok_or(Fault::Unknown)?;
        let (command, argument) = (&name[..bar], &name[bar + 1..]);
        let place = catalogue.place(command).ok_or(Fault::Unknown)?;
        if command.contains(&b'|') {
            return Err(Fault::FirstArgument);
        }
        if argument.is_empty() {
            return Err(Fault::Syntax);
        }
        if catalogue.subcommands(place).next().is_some() {
            return Err(Fault::Unknown);
        }
        let known = self.first_arguments.entry(place).or_default();
        if !known
            .iter()
            .any(|known| known.eq_ignore_ascii_case(argument))
        {
            known.push(argument.to_vec());
        }
        Ok(())
    }

    /// Allows or forbids a command with its subcommands.
    fn set_command(&mut self, place: usize, is_allowed: bool) {
        self.first_arguments.remove(&place);
        let subcommands = Catalogue::get().subcommands(place);
        for place in std::iter::once(place).chain(subcommands) {
            if is_allowed {
                self.commands.insert(place);
            } else {
                self.commands.remove(&place);
                self.all_commands = false;
            }
        }
    }

    fn set_category(&mut self, category: usize, is_allowed: bool) {
        for (place, item) in Catalogue::get().items.iter().enumerate() {
            if item.is_in(category) {
                self.set_command(place, is_allowed);
            }
        }
    }

    /// Whether a command can be executed; `argument` is its first one.
    pub(crate) fn may_run(&self, place: usize, argument: Option<&[u8]>) -> bool {
        let is_first = |argument: &[u8]| {
            let known = self.first_arguments.get(&place).into_iter().flatten();
            known
                .into_iter()
                .any(|known| known.eq_ignore_ascii_case(argument))
        };
        self.all_commands || self.commands.contains(&place) || argument.is_some_and(is_first)
    }

    /// The patterns of keys, as they are set.
    pub(crate) fn keys_text(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let texts = self.patterns.iter().map(|known| {
            let mark: &[u8] = match (known.reads, known.writes) {
                (true, true) => b"~",
                (true, false) => b"%R~",
                _ => b"%W~",
            };
            [mark, &known.pattern].concat()
        });
        texts.collect::<Vec<_>>().join(&b' ')
    }

    /// The patterns of channels, as they are set.
    pub(crate) fn channels_text(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let texts = self.channels.iter().map(|known| [b"&", &**known].concat());
        texts.collect::<Vec<_>>().join(&b' ')
    }

    fn text(&self) -> Vec<u8> {
        let mut text = self.keys_text();
        if !text.is_empty() {
            text.push(b' ');
        }
        if !self.all_channels {
            text.extend_from_slice(b"resetchannels ");
        }
        let channels = self.channels_text();
        if !channels.is_empty() {
            text.extend(channels);
            text.push(b' ');
        }
        text.extend(self.commands_text());
        text
    }

    /// The rules about commands. As in Redis, categories that fit best come first, then single commands that differ.
    pub(crate) fn commands_text(&self) -> Vec<u8> {
        let catalogue = Catalogue::get();
        let mut made = Self::default();
        made.set_all(self.future);
        let (first, sign) = if self.future {
            ("+@all", "-")
        } else {
            ("-@all", "+")
        };
        let mut rules = vec![first.as_bytes().to_vec()];
        // What no category has described so far.
        let mut rest = self.commands.clone();
        let mut left: Vec<usize> = (0..CATEGORIES.len()).collect();
        while let Some(best) = best_category(&rest, &left, self.future) {
            made.set_category(best, !self.future);
            let mut described = Self {
                commands: rest,
                ..Self::default()
            };
            described.set_category(best, self.future);
            rest = described.commands;
            left.retain(|other| *other != best);
            rules.push(format!("{sign}@{}", CATEGORIES[best]).into_bytes());
        }
        for (place, item) in catalogue.items.iter().enumerate() {
            let is_allowed = self.commands.contains(&place);
            if is_allowed != made.commands.contains(&place) {
                let sign = if is_allowed { '+' } else { '-' };
                rules.push(format!("{sign}{}", item.name).into_bytes());
                made.set_command(place, is_allowed);
            }
            if let Some(arguments) = self.first_arguments.get(&place).filter(|_| !is_allowed) {
                for argument in arguments {
                    let name = item.name.as_bytes();
                    rules.push([b"+", name, b"|", argument].concat());
                }
            }
        }
        rules.join(&b' ')
    }
}

/// The category that describes most of what is left with the fewest exceptions, if there is one that has more commands in
/// common than not.
fn best_category(rest: &BTreeSet<usize>, left: &[usize], is_future: bool) -> Option<usize> {
    let mut best = None;
    for category in left {
        let (mut on, mut off) = (0, 0);
        for (place, item) in Catalogue::get().items.iter().enumerate() {
            if item.is_in(*category) {
                *(if rest.contains(&place) {
                    &mut on
                } else {
                    &mut off
                }) += 1;
            }
        }
        let (different, same) = if is_future { (on, off) } else { (off, on) };
        let is_better = |(_, fewest, most): (usize, usize, usize)| {
            different < fewest || different == fewest && same > most
        };
        if same > different && best.is_none_or(is_better) {
            best = Some((*category, different, same));
        }
    }
    best.map(|(category, ..)| category)
}

/// Whether a word could not be read back from a line.
pub(crate) fn has_spaces(word: &[u8]) -> bool {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b || *byte == 0;
    word.iter().any(is_space)
}

/// Puts rules together that parentheses hold together.
///
/// # Errors
/// The place of the rule whose parenthesis is not closed.
pub(crate) fn merged(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, usize> {
    let mut merged = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (place, rule) in rules.iter().enumerate() {
        match &mut open {
            None if rule.first() == Some(&b'(') && rule.last() != Some(&b')') => {
                open = Some((place, rule.to_vec()));
            }
            None => merged.push(rule.to_vec()),
            Some((_, selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(rule);
                if rule.last() == Some(&b')') {
                    merged.extend(open.take().map(|(_, selector)| selector));
                }
            }
        }
    }
    match open {
        Some((place, _)) => Err(place),
        None => Ok(merged),
    }
}
