//! Users with their rights, and the log of what was denied to them.

mod log;
mod rules;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub(crate) use log::{AclLog, Denial, Entry};
pub(crate) use rules::{KeyPattern, Selector, User, has_spaces, merged};

/// The name of the user of clients that have not authenticated.
pub(crate) const DEFAULT: &[u8] = b"default";

/// Wrong passwords in a second after which clients wait for the reply to further ones.
const FREE_GUESSES: u64 = 32;

/// The time for which they wait, in milliseconds.
pub(crate) const GUESS_MS: u64 = 250;

/// All users.
#[derive(Debug)]
pub(crate) struct Acl {
    users: BTreeMap<Vec<u8>, User>,
    /// Whether all users can do everything.
    is_plain: bool,
    /// The password of the default user as it was configured.
    password: String,
    /// Whether new users can use all channels.
    pub(crate) all_channels: bool,
    /// The file of ACL LOAD and ACL SAVE.
    pub(crate) file: Option<PathBuf>,
    pub(crate) log: AclLog,
    /// The second of the last wrong password, and the number of them in that second.
    guesses: (u64, u64),
}

impl Acl {
    pub(crate) fn new(password: Option<&str>) -> Self {
        let mut acl = Self {
            users: BTreeMap::from([(DEFAULT.to_vec(), User::default_user())]),
            is_plain: true,
            password: String::new(),
            all_channels: false,
            file: None,
            log: AclLog::default(),
            guesses: (0, 0),
        };
        if let Some(password) = password {
            acl.set_password(password);
        }
        acl
    }

    /// Whether all users can do everything, so that commands need no check.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether a new connection can execute commands.
    pub(crate) fn is_open(&self) -> bool {
        let user = self.users.get(DEFAULT);
        user.is_some_and(|user| user.is_on && user.has_no_password)
    }

    /// Whether the default user needs no password.
    pub(crate) fn is_unprotected(&self) -> bool {
        let user = self.users.get(DEFAULT);
        user.is_some_and(|user| user.has_no_password)
    }

    pub(crate) fn user(&self, name: &[u8]) -> Option<&User> {
        self.users.get(name)
    }

    /// All users by their names, in order.
    pub(crate) fn users(&self) -> impl ExactSizeIterator<Item = (&Vec<u8>, &User)> {
        self.users.iter()
    }

    pub(crate) fn password(&self) -> &str {
        &self.password
    }

    /// Sets the password of the default user; an empty one ends the need of a password.
    pub(crate) fn set_password(&mut self, password: &str) {
        password.clone_into(&mut self.password);
        let user = self.users.entry(DEFAULT.to_vec());
        let user = user.or_insert_with(User::default_user);
        let rule = match password {
            "" => "nopass".to_owned(),
            password => format!(">{password}"),
        };
        for rule in [b"resetpass", rule.as_bytes()] {
            user.set(rule, true).expect("these rules exist");
        }
    }

    /// A copy of a user, or a new one, with further rules.
    ///
    /// # Errors
    /// The text that names the first rule that is refused.
    pub(crate) fn changed(&self, name: &[u8], rules: &[&[u8]]) -> Result<User, Vec<u8>> {
        let rules = merged(rules).map_err(|place| {
            let begin = b"ERR Unmatched parenthesis in acl selector starting at '";
            [&begin[..], rules[place], b"'."].concat()
        })?;
        let known = self.users.get(name).cloned();
        let mut user = known.unwrap_or_else(|| User::new(self.all_channels));
        for rule in rules {
            user.set(&rule, self.all_channels).map_err(|fault| {
                let begin = b"ERR Error in ACL SETUSER modifier '";
                [&begin[..], &rule, b"': ", fault.text().as_bytes()].concat()
            })?;
        }
        Ok(user)
    }

    pub(crate) fn put(&mut self, name: &[u8], user: User) {
        self.users.insert(name.to_vec(), user);
        self.note();
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let was_there = self.users.remove(name).is_some();
        self.note();
        was_there
    }

    fn note(&mut self) {
        self.is_plain = self.users.values().all(User::is_free);
    }

    /// Replaces all users by those of a file, and returns the names of those that are no longer there.
    ///
    /// # Errors
    /// The text that names what is wrong; nothing is changed then.
    pub(crate) fn load(&mut self, path: &str, text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let (mut users, mut errors) = (BTreeMap::new(), String::new());
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let words = line.split(u8::is_ascii_whitespace);
            let words: Vec<&[u8]> = words.filter(|word| !word.is_empty()).collect();
            if words.is_empty() {
                continue;
            }
            if let Err(error) = self.load_line(&words, &mut users, path, number + 1) {
                errors += &error;
            }
        }
        if !errors.is_empty() {
            return Err(errors
                + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
        }
        users
            .entry(DEFAULT.to_vec())
            .or_insert_with(User::default_user);
        let old = std::mem::replace(&mut self.users, users);
        self.note();
        let gone = old
            .into_keys()
            .filter(|name| !self.users.contains_key(name));
        Ok(gone.collect())
    }

    fn load_line(
        &self,
        words: &[&[u8]],
        users: &mut BTreeMap<Vec<u8>, User>,
        path: &str,
        number: usize,
    ) -> Result<(), String> {
        let [b"user", name, rules @ ..] = words else {
            return Err(format!(
                "{path}:{number} should start with user keyword followed by the username. "
            ));
        };
        if users.contains_key(*name) {
            let name = String::from_utf8_lossy(name);
            return Err(format!(
                "WARNING: Duplicate user '{name}' found on line {number}. "
            ));
        }
        let rules = merged(rules).map_err(|_| {
            format!("{path}:{number}: Unmatched parenthesis in selector definition.")
        })?;
        let mut user = User::new(self.all_channels);
        for rule in rules {
            user.set(&rule, self.all_channels).map_err(|fault| {
                let text = fault.text();
                match fault {
                    rules::Fault::Unknown => {
                        let rule = String::from_utf8_lossy(&rule);
                        format!("{path}:{number}: Error in applying operation '{rule}': {text}. ")
                    }
                    _ => format!("{path}:{number}: {text}. "),
                }
            })?;
        }
        users.insert(name.to_vec(), user);
        Ok(())
    }

    /// Counts a wrong password, and returns whether there were so many in this second that the client has to wait.
    pub(crate) fn note_guess(&mut self, now_ms: u64) -> bool {
        let second = now_ms / 1_000;
        let before = if self.guesses.0 == second {
            self.guesses.1
        } else {
            0
        };
        self.guesses = (second, before + 1);
        before >= FREE_GUESSES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hashes() {
        let mut acl = Acl::new(Some("secret"));
        assert!(!acl.is_open());
        let user = acl.user(DEFAULT).unwrap();
        assert!(user.takes(b"secret") && !user.takes(b"secre") && !user.takes(b""));
        // The hash that sha256sum prints.
        let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        assert_eq!(user.passwords, [hash]);
        acl.set_password("");
        assert!(acl.is_open());
    }

    #[test]
    fn many_wrong_passwords_in_a_second_are_slow() {
        let mut acl = Acl::new(None);
        let waits = |acl: &mut Acl, now: u64| (0..40).filter(|_| acl.note_guess(now)).count();
        assert_eq!(waits(&mut acl, 5_000), 40 - FREE_GUESSES as usize);
        assert_eq!(waits(&mut acl, 6_000), 40 - FREE_GUESSES as usize);
    }

    #[test]
    fn file_with_a_fault_changes_nothing() {
        let mut acl = Acl::new(None);
        for (text, part) in [
            (
                "user a on\nuser a on\n",
                "Duplicate user 'a' found on line 2",
            ),
            ("usr a on\n", "users.acl:1 should start with user"),
            ("user a on +nosuch\n", "operation '+nosuch'"),
            ("user a on (+get\n", "Unmatched parenthesis"),
        ] {
            let error = acl.load("users.acl", text.as_bytes()).unwrap_err();
            assert!(error.contains(part), "{error}");
            assert_eq!(acl.users().len(), 1);
        }
        acl.load("users.acl", b"\nuser a on >x ~k* -@all +get (%R~a +get)\n")
            .unwrap();
        let text = acl.user(b"a").unwrap().text();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.ends_with("~k* resetchannels -@all +get (%R~a resetchannels -@all +get)"),
            "{text}"
        );
        assert!(!acl.is_plain());
    }
}
