//! The handshake: protocol, login, name, database.

use std::io;

use loadline_resp::{Protocol, Reply, encode};

use super::carried::Settings;
use crate::config::Peer;
use crate::credentials::Password;
use crate::{Address, Config, Error, ServerError};

/// Commands of the handshake whose replies are to come, in one flight and one write. Where the server does
/// not know `HELLO` and the protocol was left to it, a second flight follows in RESP2.
#[derive(Debug)]
pub(crate) struct Greeting {
    login: Login,
    /// Commands that were sent and not answered yet, last first.
    asked: Vec<&'static str>,
    protocol: Protocol,
    /// Whether the server may decide for RESP2.
    yielding: bool,
    /// Whether `HELLO` was refused, so that the rest of the flight means nothing.
    refused: bool,
}

/// The step that may be refused: a name is only for `CLIENT LIST`, and a server without that command,
/// or a user without the right to it, works as well.
const NAMING: &str = "CLIENT SETNAME";
/// The step that asks a server that sentinels have named for its role. A user without the right to ask is let in without
/// an answer.
const ROLE: &str = "ROLE";

/// Settings that the handshake establishes.
#[derive(Clone, Debug)]
struct Login {
    user: Option<String>,
    password: Option<Password>,
    name: Option<String>,
    database: u32,
    readonly: bool,
    /// Whether the server has to be a master.
    is_master: bool,
    /// Commands that switch modes on, each with its name.
    modes: Vec<(&'static str, Vec<u8>)>,
}

impl Greeting {
    /// Appends the first flight to `out`.
    #[cfg(any(feature = "tokio", test))]
    pub(crate) fn start(config: &Config, out: &mut Vec<u8>) -> Self {
        Self::resume(config, &Settings::default(), out)
    }

    /// As [`Greeting::start`], with the settings that commands have made on the connection before.
    pub(crate) fn resume(config: &Config, settings: &Settings, out: &mut Vec<u8>) -> Self {
        let rotating = config.credentials.as_ref();
        let login = settings.login.clone();
        let login = login.or_else(|| rotating.map(crate::Credentials::present));
        let (user, password) = match login {
            Some((user, password)) => (user, Some(password)),
            None => (config.user.clone(), config.password.clone()),
        };
        let protocol = settings.protocol.or(config.protocol);
        let named = settings.name.as_ref().or(config.client_name.as_ref());
        let replica = config.peer == Peer::Node { readonly: true };
        let mut greeting = Self {
            login: Login {
                user,
                password,
                name: named.cloned(),
                database: settings.database.unwrap_or(config.database),
                readonly: settings.readonly.unwrap_or(replica),
                is_master: matches!(&config.address, Address::Sentinel(name) if name.wants_master()),
                modes: settings.modes.clone(),
            },
            asked: Vec::new(),
            protocol: protocol.unwrap_or(Protocol::Resp3),
            yielding: protocol.is_none(),
            refused: false,
        };
        greeting.flight(out);
        greeting
    }

    /// The number of replies that are still to come in this flight.
    #[cfg(feature = "tokio")]
    pub(crate) fn expected_replies(&self) -> u32 {
        // A flight has one command for each setting.
        self.asked.len() as u32
    }

    /// Takes the next reply; `Some` is the end, with the protocol that is spoken now. Commands of another
    /// flight are appended to `out`.
    ///
    /// # Errors
    /// `Login` where the server does not want us.
    pub(crate) fn reply(
        &mut self,
        reply: &Reply<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Protocol>, Error> {
        let step = self.asked.pop().unwrap_or("a command that was not sent");
        if let Some(text) = reply.error_text() {
            let answer = self.login.without_secrets(text);
            if step == "HELLO" && self.yielding && unknown(&answer) {
                self.refused = true;
            } else if !self.refused && step != NAMING && step != ROLE {
                return Err(Error::Login { step, answer });
            }
        } else if step == ROLE && !self.refused {
            check_role(reply)?;
        }
        if !self.asked.is_empty() {
            return Ok(None);
        }
        if !self.refused {
            return Ok(Some(self.protocol));
        }
        self.refused = false;
        self.protocol = Protocol::Resp2;
        self.flight(out);
        Ok(None)
    }

    fn flight(&mut self, out: &mut Vec<u8>) {
        let Login {
            user,
            password,
            name,
            database,
            readonly,
            is_master,
            modes,
        } = self.login.clone();
        let mut ask = |step, args: &[&str]| {
            encode::command(out, args);
            self.asked.insert(0, step);
        };
        let password = password.as_ref().map(Password::reveal);
        match (self.protocol, password) {
            (Protocol::Resp3, None) => ask("HELLO", &["HELLO", "3"]),
            (Protocol::Resp3, Some(password)) => {
                let user = user.as_deref().unwrap_or("default");
                ask("HELLO", &["HELLO", "3", "AUTH", user, password]);
            }
            // A server without users knows AUTH with a password only.
            (Protocol::Resp2, Some(password)) => match &user {
                Some(user) => ask("AUTH", &["AUTH", user, password]),
                None => ask("AUTH", &["AUTH", password]),
            },
            // A server that wants a password says so now, and not to the first request.
            (Protocol::Resp2, None) => ask("PING", &["PING"]),
        }
        if let Some(name) = &name {
            ask(NAMING, &["CLIENT", "SETNAME", name]);
        }
        if database != 0 {
            ask("SELECT", &["SELECT", &database.to_string()]);
        }
        if readonly {
            ask("READONLY", &["READONLY"]);
        }
        if is_master {
            ask(ROLE, &["ROLE"]);
        }
        for (mode, command) in modes {
            out.extend_from_slice(&command);
            self.asked.insert(0, mode);
        }
    }
}

impl Login {
    /// A refusal without the password: a server that does not know a command repeats its arguments.
    fn without_secrets(&self, text: &[u8]) -> ServerError {
        let answer = ServerError::new(text);
        let Some(password) = &self.password else {
            return answer;
        };
        let text = answer.text();
        let text = text.split(", with args").next().unwrap_or_default();
        match password.reveal() {
            "" => ServerError::new(text.as_bytes()),
            password => ServerError::new(text.replace(password, "***").as_bytes()),
        }
    }
}

/// Makes sure that the server is a master.
///
/// # Errors
/// `Connection` if it is a replica: one that is not promoted yet, or a master that was demoted.
fn check_role(reply: &Reply<'_>) -> Result<(), Error> {
    let Reply::Array(parts) = reply.without_attributes() else {
        return Ok(());
    };
    match parts.first().and_then(Reply::as_bytes) {
        None | Some(b"master") => Ok(()),
        Some(role) => {
            let role = String::from_utf8_lossy(role);
            let what = format!(
                "the server that the sentinels name is not the master: its ROLE is `{role}`"
            );
            let source = io::Error::new(io::ErrorKind::ConnectionRefused, what);
            Err(Error::connection(source, false))
        }
    }
}

/// Whether an error means that the server has no RESP3: one before Redis 6, or one configured that way.
fn unknown(answer: &ServerError) -> bool {
    answer.code() == "NOPROTO" || answer.text().starts_with("ERR unknown command")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::carried::{Carried, Outcome};

    fn start(url: &str) -> (Greeting, String) {
        let mut out = Vec::new();
        let greeting = Greeting::start(&Config::from_url(url).unwrap(), &mut out);
        (greeting, text(out))
    }

    /// The commands, with a space between arguments and a line for each.
    fn text(wire: Vec<u8>) -> String {
        let wire = String::from_utf8(wire).unwrap();
        let words = wire.split("\r\n").filter(|line| !line.starts_with('$'));
        let text: String = words
            .map(|line| match line.strip_prefix('*') {
                Some(_) => "\n".to_owned(),
                None => format!("{line} "),
            })
            .collect();
        text.lines()
            .map(str::trim)
            .collect::<Vec<_>>()
            .join("\n")
            .trim()
            .to_owned()
    }

    #[test]
    fn one_flight_says_all() {
        let (mut greeting, sent) = start("redis://me:pw@host/2?client_name=shop");
        assert_eq!(sent, "HELLO 3 AUTH me pw\nCLIENT SETNAME shop\nSELECT 2");
        let ok = Reply::Simple(b"OK");
        let mut out = Vec::new();
        assert_eq!(greeting.reply(&Reply::Map(vec![]), &mut out).unwrap(), None);
        assert_eq!(greeting.reply(&ok, &mut out).unwrap(), None);
        assert_eq!(
            greeting.reply(&ok, &mut out).unwrap(),
            Some(Protocol::Resp3)
        );
        assert!(out.is_empty());
    }

    #[test]
    fn settings_made_by_commands_replace_those_of_the_configuration() {
        let commands = [
            "AUTH you other",
            "CLIENT SETNAME desk",
            "SELECT 3",
            "READONLY",
            "CLIENT TRACKING ON",
            "CLIENT TRACKING OFF",
        ];
        let mut carried = Carried::default();
        for command in commands {
            let (mut wire, words) = (Vec::new(), command.split(' '));
            encode::command(&mut wire, &words.collect::<Vec<_>>());
            carried.follow(&wire, &[Outcome::Done]);
        }
        carried.broke();
        let config = Config::from_url("redis://me:pw@host/2?client_name=shop").unwrap();
        let mut out = Vec::new();
        Greeting::resume(&config, carried.settings(), &mut out);
        assert_eq!(
            text(out),
            "HELLO 3 AUTH you other\nCLIENT SETNAME desk\nSELECT 3\nREADONLY\nCLIENT TRACKING OFF"
        );
    }

    #[test]
    fn old_server_is_spoken_to_in_resp2() {
        let (mut greeting, sent) = start("redis://:pw@host/2");
        assert_eq!(sent, "HELLO 3 AUTH default pw\nSELECT 2");
        let mut out = Vec::new();
        let unknown = Reply::Error(b"ERR unknown command `HELLO`, with args beginning with: `3`, ");
        assert_eq!(greeting.reply(&unknown, &mut out).unwrap(), None);
        let noauth = Reply::Error(b"NOAUTH Authentication required.");
        assert_eq!(greeting.reply(&noauth, &mut out).unwrap(), None);
        assert_eq!(text(out), "AUTH pw\nSELECT 2");
        let (ok, mut out) = (Reply::Simple(b"OK"), Vec::new());
        assert_eq!(greeting.reply(&ok, &mut out).unwrap(), None);
        assert_eq!(
            greeting.reply(&ok, &mut out).unwrap(),
            Some(Protocol::Resp2)
        );
    }

    #[test]
    fn replica_is_asked_to_answer_reads() {
        let mut config = Config::from_url("redis://host").unwrap();
        config.peer = Peer::Node { readonly: true };
        let mut out = Vec::new();
        Greeting::start(&config, &mut out);
        assert_eq!(text(out), "HELLO 3\nREADONLY");
    }

    #[test]
    fn name_that_is_refused_is_done_without() {
        let (mut greeting, sent) = start("redis://host?client_name=shop");
        assert_eq!(sent, "HELLO 3\nCLIENT SETNAME shop");
        let mut out = Vec::new();
        assert_eq!(greeting.reply(&Reply::Map(vec![]), &mut out).unwrap(), None);
        let refused = Reply::Error(b"NOPERM this user has no permissions to run 'client|setname'");
        assert_eq!(
            greeting.reply(&refused, &mut out).unwrap(),
            Some(Protocol::Resp3)
        );
    }

    #[test]
    fn refusal_names_the_step_and_no_password() {
        let (mut greeting, _) = start("redis://:hunter2@host");
        let wrong = Reply::Error(b"WRONGPASS invalid username-password pair or user is disabled.");
        let error = greeting.reply(&wrong, &mut Vec::new()).unwrap_err();
        assert!(matches!(&error, Error::Login { step: "HELLO", .. }));
        assert!(!error.to_string().contains("hunter2"));
        assert!(!format!("{greeting:?}").contains("hunter2"));
        for repeated in [
            &b"ERR unknown command 'AUTH', with args beginning with: 'hunter2'"[..],
            b"ERR what is hunter2",
        ] {
            let (mut greeting, _) = start("redis://:hunter2@host?resp=2");
            let error = greeting
                .reply(&Reply::Error(repeated), &mut Vec::new())
                .unwrap_err();
            assert!(error.to_string().contains("ERR"), "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let (mut insisting, sent) = start("redis://host?resp=3");
        assert_eq!(sent, "HELLO 3");
        let refused = Reply::Error(b"NOPROTO unsupported protocol version");
        assert!(insisting.reply(&refused, &mut Vec::new()).is_err());
    }
}
