//! Passwords: one type that does not show them, and the redaction of text that may hold one.

use std::ffi::OsStr;
use std::fmt;

/// The environment variable that a password can come from.
pub(crate) const PASSWORD_VARIABLE: &str = "LOADLINE_REDIS_PASSWORD";

/// The environment variable that the password for sentinels comes from.
const SENTINEL_PASSWORD_VARIABLE: &str = "LOADLINE_SENTINEL_PASSWORD";

/// The environment variable that the password for the coordinator of several agents comes from.
const COORDINATOR_PASSWORD_VARIABLE: &str = "LOADLINE_COORDINATOR_PASSWORD";

/// Replacement of a secret in output.
const MASK: &str = "***";

/// A password. It shows itself as `***`; only [`reveal`](Self::reveal) gives it away.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// Wraps a password.
    pub(crate) fn new(password: String) -> Self {
        Self(password)
    }

    /// The password in the environment, where there is one.
    pub(crate) fn from_environment() -> Option<Self> {
        Self::in_variable(PASSWORD_VARIABLE)
    }

    /// The password for sentinels in the environment, if there is one. A target's own password is not sent to them.
    pub(crate) fn of_sentinels() -> Option<Self> {
        Self::in_variable(SENTINEL_PASSWORD_VARIABLE)
    }

    /// The password for the coordinator in the environment, if there is one.
    pub(crate) fn of_coordinator() -> Option<Self> {
        Self::in_variable(COORDINATOR_PASSWORD_VARIABLE)
    }

    fn in_variable(name: &str) -> Option<Self> {
        std::env::var(name)
            .ok()
            .filter(|password| !password.is_empty())
            .map(Self)
    }

    /// The password itself, for the wire.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// `text` with the passwords of the URLs in it masked. A URL ends at white space or a quote.
pub(crate) fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        let end = url
            .find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`'))
            .unwrap_or(url.len());
        out.push_str(before);
        out.push_str(&masked(&url[..end]));
        rest = &url[end..];
    }
    out.push_str(rest);
    out
}

/// One argument of a command line, redacted: white space and quotes in it may be part of a password.
pub(crate) fn redact_argument(argument: &str) -> String {
    match argument.find("://") {
        Some(at) => format!("{}{}", &argument[..at + 3], masked(&argument[at + 3..])),
        None => argument.to_owned(),
    }
}

/// Redacts a typed target, also if it lacks the `://` of a URL.
pub(crate) fn redact_target(text: &str) -> String {
    match text.rfind('@') {
        Some(at) if !text.contains("://") => format!("{MASK}{}", &text[at..]),
        _ => redact_argument(text),
    }
}

/// The command line as it may be recorded: redacted, and quoted so that a shell reads it back.
pub(crate) fn command_line<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> String {
    let words: Vec<String> = arguments
        .into_iter()
        .map(|word| quoted(&redact_argument(&word.as_ref().to_string_lossy())))
        .collect();
    words.join(" ")
}

/// The part after `://`, with the user kept and a possible password masked. The last `@` counts: a
/// password that was not percent-encoded may hold one.
fn masked(rest: &str) -> String {
    let Some(at) = rest.rfind('@') else {
        return rest.to_owned();
    };
    let (user, host) = (&rest[..at], &rest[at..]);
    match user.split_once(':') {
        Some((user, _)) => format!("{user}:{MASK}{host}"),
        // Redis users without a colon are as often a password by mistake.
        None => format!("{MASK}{host}"),
    }
}

/// A word as a shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@,+%*~".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn urls_lose_their_passwords_and_nothing_else() {
        for (text, wanted) in [
            ("redis://ann:hunter2@db:1/0", "redis://ann:***@db:1/0"),
            ("redis://:hunter2@db", "redis://:***@db"),
            ("redis://hunter2@db", "redis://***@db"),
            (
                "at 'rediss://a:p@ss@h' and redis://h",
                "at 'rediss://a:***@h' and redis://h",
            ),
            (
                "a redis://a:b@h, b redis://c:d@i.",
                "a redis://a:***@h, b redis://c:***@i.",
            ),
            ("unix:///run/redis.sock", "unix:///run/redis.sock"),
            ("no url, mail@host", "no url, mail@host"),
        ] {
            assert_eq!(redact(text), wanted);
        }
        assert_eq!(
            redact_argument("redis://ann:two words@db"),
            "redis://ann:***@db"
        );
    }

    #[test]
    fn secret_shows_itself_as_stars() {
        let secret = Secret::new("hunter2".into());
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert_eq!(secret.reveal(), "hunter2");
    }

    #[test]
    fn command_line_is_redacted_and_quoted() {
        let words = [
            "loadline",
            "run",
            "redis://u:p w@h",
            "--command",
            "SET {key} it's",
        ];
        assert_eq!(
            command_line(words),
            r"loadline run redis://u:***@h --command 'SET {key} it'\''s'"
        );
    }

    proptest! {
        #[test]
        fn no_password_survives(password in "[a-zA-Z0-9@:/%]{6,20}", before in "[a-z ]{0,9}") {
            let text = format!("{before}redis://user:{password}@host:6379/0");
            prop_assert!(!redact(&text).contains(&password));
        }
    }
}
