//! Targets that sentinels know by a name.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::{Address, Server, parse_tcp};

/// The port of a sentinel that is named without one.
const DEFAULT_PORT: u16 = 26_379;
/// The characters that a name has in a URL only with an escape.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'/').add(b'?').add(b'#').add(b'%');

/// The master of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// The name.
    pub(crate) name: String,
    /// The sentinels, each with the login, the database and the encryption of the master.
    pub(crate) sentinels: Vec<Server>,
}

impl Named {
    /// Reads `sentinel://[user:password@]host[:port][,host[:port]].../name[/database]`, or the same with TLS as
    /// `sentinels://`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let form = "write sentinel://HOST:PORT[,HOST:PORT]/NAME[/DB].";
        let (scheme, rest) = match text.split_once("://") {
            Some(("sentinel", rest)) => ("redis", rest),
            Some((_, rest)) => ("rediss", rest),
            None => return Err(form.into()),
        };
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (format!("{login}@"), rest),
            None => (String::new(), rest),
        };
        let mut parts = rest.splitn(3, '/');
        let hosts = parts.next().unwrap_or_default();
        let name = parts.next().unwrap_or_default();
        let database = parts.next().unwrap_or_default();
        if name.is_empty() {
            return Err(format!("the name of the master is missing; {form}"));
        }
        if hosts.split(',').any(str::is_empty) {
            return Err(format!("a host is missing; {form}"));
        }
        let name = percent_decode_str(name).decode_utf8();
        let name = name.map_err(|_| format!("the name is not UTF-8; {form}"))?;
        let sentinel = |host: &str| {
            let mut server = parse_tcp(&format!("{scheme}://{login}{host}/{database}"))?;
            if let Address::Tcp { port, .. } = &mut server.address
                && !host.ends_with(&format!(":{port}"))
            {
                *port = DEFAULT_PORT;
            }
            Ok(server)
        };
        let sentinels: Result<Vec<Server>, String> = hosts.split(',').map(sentinel).collect();
        Ok(Self {
            name: name.into_owned(),
            sentinels: sentinels?,
        })
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = &self.sentinels[0];
        let scheme = if first.tls { "sentinels" } else { "sentinel" };
        write!(f, "{scheme}://{}", first.login)?;
        for (place, sentinel) in self.sentinels.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{}", sentinel.address)?;
        }
        write!(f, "/{}", utf8_percent_encode(&self.name, ESCAPED))?;
        match first.database {
            0 => Ok(()),
            database => write!(f, "/{database}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;

    fn named(text: &str) -> Named {
        match Target::parse(text) {
            Ok(Target::Sentinel(named)) => named,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn name_and_sentinels_are_read_and_shown_without_the_password() {
        let text = "sentinel://ann:p%40ss@a:1,[::1],c/my%20master/3";
        let target = named(text);
        assert_eq!(target.name, "my master");
        let shown = "sentinel://ann:***@a:1,[::1]:26379,c:26379/my%20master/3";
        assert_eq!(target.to_string(), shown);
        let first = &target.sentinels[0];
        assert_eq!((first.database, first.tls), (3, false));
        assert_eq!(first.login.password.as_ref().unwrap().reveal(), "p@ss");
        let secure = named("sentinels://a/m");
        assert!(secure.sentinels[0].tls);
        assert_eq!(secure.to_string(), "sentinels://a:26379/m");
    }

    #[test]
    fn incomplete_name_is_a_usage_error_without_the_password() {
        for (text, said) in [
            ("sentinel://:hunter2@a:1", "name of the master is missing"),
            ("sentinel://:hunter2@a:1/", "name of the master is missing"),
            ("sentinel://:hunter2@a:1,/m", "a host is missing"),
            ("sentinel://:hunter2@a:1/m/x", "database"),
            ("sentinel://:hunter2@a:x/m", "port"),
            ("sentinel:a", "sentinel://HOST:PORT"),
            ("sentinel", "the address is missing"),
        ] {
            let failure = Target::parse(text).unwrap_err();
            assert_eq!(failure.exit(), crate::exit::Exit::Usage);
            let shown = failure.to_string();
            assert!(
                shown.contains(said) && !shown.contains("hunter2"),
                "{shown}"
            );
        }
    }
}
