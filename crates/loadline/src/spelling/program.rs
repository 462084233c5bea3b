//! A server program, and the configuration that it is started with.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Text between a program and its configuration file.
pub(super) const CONFIG: &str = "?config=";

/// Settings about the place of a server and the way in, which are ours, and about other servers, which a copy must not
/// join.
const LEFT_OUT: [&str; 15] = [
    "aclfile",
    "bind",
    "bind-source-addr",
    "daemonize",
    "dir",
    "locale-collate",
    "logfile",
    "pidfile",
    "port",
    "replicaof",
    "requirepass",
    "slaveof",
    "supervised",
    "unixsocket",
    "user",
];

/// Beginnings of the names of further such settings.
const LEFT_OUT_FAMILIES: [&str; 12] = [
    "cluster-",
    "masterauth",
    "masteruser",
    "min-replicas-",
    "min-slaves-",
    "oom-score-adj",
    "repl-",
    "replica-",
    "slave-",
    "syslog-",
    "tls-",
    "unixsocketperm",
];

/// Whether the setting `name`, in lower case, would harm or hinder a second server with the settings of another one.
pub(crate) fn is_left_out(name: &str) -> bool {
    let mut families = LEFT_OUT_FAMILIES.iter();
    LEFT_OUT.contains(&name)
        || families.any(|family| name.starts_with(family))
        // CPUs of another machine.
        || name.ends_with("cpulist")
}

/// A program that accepts the arguments of redis-server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its path, or a name to be found on PATH.
    pub(crate) path: PathBuf,
    /// Its settings; without them, it has its defaults and no persistence.
    pub(crate) config: Option<Configuration>,
}

/// Settings of a server program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Configuration {
    /// Those in a configuration file.
    File(PathBuf),
    /// Those of a running server.
    Copied(Copied),
}

/// Settings of a running server, with changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copied {
    /// The name of the server.
    pub(crate) of: String,
    /// Settings that differ from the server's on purpose.
    pub(crate) changes: Vec<Setting>,
    /// The text of the configuration; empty until the server was asked.
    pub(crate) text: Arc<[u8]>,
}

/// A setting and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The name, in lower case.
    pub(crate) name: String,
    /// The value, in the form of CONFIG GET.
    pub(crate) value: String,
}

impl Setting {
    /// Reads `NAME=VALUE`.
    ///
    /// # Errors
    /// A sentence about the form.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self {
                name: name.to_ascii_lowercase(),
                value: value.to_owned(),
            }),
            _ => Err("write NAME=VALUE, such as io-threads=4".to_owned()),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
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
                config: Some(Configuration::File(file.into())),
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
            Some(Configuration::File(file)) => write!(f, "{CONFIG}{}", file.display()),
            Some(Configuration::Copied(copied)) => {
                write!(f, " (settings of {}", copied.of)?;
                for change in &copied.changes {
                    write!(f, ", {change}")?;
                }
                f.write_str(")")
            }
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
            config: Some(Configuration::File("/etc/redis/a b.conf".into())),
        };
        assert_eq!(target, Target::Spawn(program));
        assert_eq!(target.to_string(), text);
    }
}
