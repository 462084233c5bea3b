//! A server program, and the configuration file that it is started with.

use std::fmt;
use std::path::PathBuf;

/// Text between a program and its configuration file.
pub(super) const CONFIG: &str = "?config=";

/// A program that accepts the arguments of redis-server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its path, or a name to be found on PATH.
    pub(crate) path: PathBuf,
    /// The file with its settings; without one, it has its defaults and no persistence.
    pub(crate) config: Option<PathBuf>,
}

impl Program {
    /// Reads `PROGRAM[?config=FILE]`.
    ///
    /// # Errors
    /// A sentence about the missing or unknown part.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let form = "write spawn:redis-server?config=FILE.";
        match text.split_once(CONFIG) {
            Some(("", _)) => Err(format!("the program is missing; {form}")),
            Some((_, "")) => Err(format!("the configuration file is missing; {form}")),
            Some((path, file)) => Ok(Self {
                path: path.into(),
                config: Some(file.into()),
            }),
            None if text.contains('?') => Err(format!(
                "only `?config=FILE` may follow the program; {form}"
            )),
            None => Ok(text.into()),
        }
    }
}

impl From<&str> for Program {
    fn from(path: &str) -> Self {
        Self {
            path: path.into(),
            config: None,
        }
    }
}

/// The program as it is typed after `spawn:`.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match &self.config {
            Some(file) => write!(f, "{CONFIG}{}", file.display()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;

    #[test]
    fn configuration_file_follows_the_program() {
        let text = "spawn:/opt/redis-server?config=/etc/redis/a b.conf";
        let target = Target::parse(text).unwrap();
        let program = Program {
            path: "/opt/redis-server".into(),
            config: Some("/etc/redis/a b.conf".into()),
        };
        assert_eq!(target, Target::Spawn(program));
        assert_eq!(target.to_string(), text);
    }
}
