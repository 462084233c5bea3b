//! URLs that name sentinels and the master that they know.

use percent_encoding::percent_decode_str;

use super::names::{DEFAULT_PORT, Role, Sentinel};
use crate::cluster::Node;
use crate::{Address, Config, Error, Password};

/// The form of a URL.
const FORM: &str =
    "expected sentinel://[user:password@]host[:port][,host[:port]...]/name[/database]";

impl Sentinel {
    /// Reads `sentinel:` and `sentinels:`: the sentinels and the name, and a URL with the remainder, in which a server
    /// stands for the sentinels. `None` for any other scheme.
    ///
    /// # Errors
    /// `Url` with the reason. It contains no part of the URL that can belong to a password.
    pub(crate) fn split_url(url: &str) -> Result<Option<(Self, String)>, Error> {
        let tls = match url.split_once(':') {
            Some(("sentinel", _)) => false,
            Some(("sentinels", _)) => true,
            _ => return Ok(None),
        };
        let wrong = || Error::Url(format!("invalid URL of sentinels: {FORM}"));
        let (_, rest) = url.split_once("://").ok_or_else(wrong)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), authority),
        };
        let end = rest.find(['?', '#']).unwrap_or(rest.len());
        let (path, options) = rest.split_at(end);
        let mut path = path.trim_start_matches('/').splitn(2, '/');
        let name = path.next().unwrap_or_default();
        let database = path.next().unwrap_or_default();
        let name = percent_decode_str(name)
            .decode_utf8()
            .map_err(|_| wrong())?;
        if name.is_empty() {
            return Err(Error::Url(format!(
                "the URL lacks the name of the master: {FORM}"
            )));
        }
        let sentinels: Result<Vec<Node>, Error> = hosts.split(',').map(node).collect();
        let sentinel = Self::new(name, sentinels?).encrypted(tls, tls);
        Ok(Some((
            sentinel,
            format!("redis://{login}host/{database}{options}"),
        )))
    }

    /// Sets an option by its name in a URL; `None` for an unknown name.
    ///
    /// # Errors
    /// `Url` for an invalid value.
    pub(crate) fn set_option(&mut self, option: &str, value: &str) -> Option<Result<(), Error>> {
        let invalid = |expected: &str| {
            let text = format!("invalid {option} in the URL: expected {expected}");
            Some(Err(Error::Url(text)))
        };
        let settings = self.settings();
        let changed = match option {
            "sentinel_user" => self.with(|settings| settings.user = Some(value.to_owned())),
            "sentinel_password" => {
                self.with(|settings| settings.password = Some(Password::new(value)))
            }
            "sentinel_tls" => match value {
                "on" => self.clone().encrypted(settings.tls, true),
                "off" => self.clone().encrypted(settings.tls, false),
                _ => return invalid("on or off"),
            },
            "role" => match value {
                "master" => self.clone().role(Role::Master),
                "replica" => self.clone().role(Role::Replica),
                _ => return invalid("master or replica"),
            },
            _ => return None,
        };
        *self = changed;
        Some(Ok(()))
    }
}

/// Reads `host[:port]`.
fn node(text: &str) -> Result<Node, Error> {
    let Address::Tcp { host, port } = Config::from_url(&format!("redis://{text}"))?.address else {
        return Err(Error::Url(format!("invalid URL of sentinels: {FORM}")));
    };
    let is_named = text.ends_with(&format!(":{port}"));
    Ok(Node::new(host, if is_named { port } else { DEFAULT_PORT }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> (Config, Sentinel) {
        let config = Config::from_url(url).unwrap();
        let Address::Sentinel(sentinel) = config.address.clone() else {
            panic!("{url}: {:?}", config.address)
        };
        (config, sentinel)
    }

    fn refused(url: &str) -> String {
        Config::from_url(url).unwrap_err().to_string()
    }

    #[test]
    fn url_names_sentinels_master_database_and_both_logins() {
        let url = "sentinel://me:p%40ss@a:1,b,[::1]:3/my%20master/2?sentinel_password=other&resp=2";
        let (config, sentinel) = read(url);
        let settings = sentinel.settings();
        let sentinels = [
            Node::new("a", 1),
            Node::new("b", 26379),
            Node::new("::1", 3),
        ];
        assert_eq!(settings.sentinels, sentinels);
        assert_eq!((settings.name.as_str(), config.database), ("my master", 2));
        assert_eq!(config.password.as_ref().unwrap().reveal(), "p@ss");
        assert_eq!(settings.password.as_ref().unwrap().reveal(), "other");
        let own = sentinel.own_config(&config);
        assert_eq!(
            (own.user, own.database),
            (None, 0),
            "the login of the master is not sent"
        );
        let shown = format!("{config:?}");
        assert!(
            !shown.contains("p@ss") && !shown.contains("other"),
            "{shown}"
        );
    }

    #[test]
    fn tls_of_sentinels_is_that_of_the_master_unless_said() {
        let tls = |url: &str| {
            let (_, sentinel) = read(url);
            let is_tls = |address| matches!(address, Address::Tls { .. });
            let node = Node::new("n", 1);
            (
                is_tls(sentinel.server(&node)),
                is_tls(sentinel.address_of(&node)),
            )
        };
        assert_eq!(tls("sentinel://a/m"), (false, false));
        assert_eq!(tls("sentinels://a/m"), (true, true));
        assert_eq!(tls("sentinels://a/m?sentinel_tls=off"), (true, false));
        assert_eq!(tls("sentinel://a/m?sentinel_tls=on"), (false, true));
    }

    #[test]
    fn incomplete_url_is_refused_without_its_password() {
        for url in [
            "sentinel://:hunter2@a",
            "sentinel://:hunter2@a/",
            "sentinel://:hunter2@a,/m",
            "sentinel://:hunter2@a/m/x",
            "sentinel://:hunter2@a:x/m",
            "sentinel://a/m?sentinel_password=hunter2&role=x",
            "sentinel://a/m?sentinel_password=hunter2&sentinel_tls=x",
            "sentinel:a",
        ] {
            assert!(!refused(url).contains("hunter2"), "{}", refused(url));
        }
        assert!(refused("sentinel://a").contains("name of the master"));
        assert!(refused("redis://a?role=replica").contains("unknown option"));
    }
}
