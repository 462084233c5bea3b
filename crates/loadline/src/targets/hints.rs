//! What to do about an error: one table, for connections, loading and runs alike.

/// Words of servers and of rustls, each with what to do about them. The first that occur in a text count.
const HINTS: [(&str, &str); 25] = [
    ("WRONGPASS", WRONG_PASSWORD),
    // Before Redis 6.
    ("invalid password", WRONG_PASSWORD),
    (
        "without any password configured",
        "The server asks for no password: leave it out of the URL, of LOADLINE_REDIS_PASSWORD and of --password-file.",
    ),
    (
        "NOAUTH",
        "Give a user and password in the URL, in LOADLINE_REDIS_PASSWORD or with --password-file.",
    ),
    (
        "NOPERM",
        "The user lacks this permission: grant it with ACL SETUSER, or log in as another user.",
    ),
    (
        "DB index is out of range",
        "The server has no database with this number: `CONFIG GET databases` shows how many it has.",
    ),
    (
        "SELECT is not allowed",
        "A cluster has only database 0: remove the number.",
    ),
    (
        "max number of clients",
        "The server takes no more connections: raise its maxclients, or lower --connections.",
    ),
    (
        "READONLY",
        "It is a replica that takes no writes: name its primary.",
    ),
    (
        "OOM",
        "Its maxmemory is reached: raise it, or lower --keys or --value-size.",
    ),
    ("CLUSTERDOWN", WHOLE_CLUSTER),
    ("MOVED", WHOLE_CLUSTER),
    ("ASK", WHOLE_CLUSTER),
    (
        "LOADING",
        "The server still reads its data set: wait until it is done.",
    ),
    (
        "MISCONF",
        "It cannot save its data set and takes no writes: see its log.",
    ),
    (
        "NOREPLICAS",
        "It asks for replicas (min-replicas-to-write) and has too few.",
    ),
    ("NOPROTO", RESP2),
    ("HELLO", RESP2),
    (
        "CertificateRequired",
        "The server asks for a client certificate: give one with --tls-cert and --tls-key.",
    ),
    (
        "CaUsedAsEndEntity",
        "The server shows the certificate of an authority, which proves no server: let that authority sign one for it, or use --tls-insecure.",
    ),
    (
        "not valid for name",
        "Use a host name that its certificate is for, or --tls-insecure.",
    ),
    (
        "certificate",
        "Name the certificate it goes back to (a self-signed one: itself) with --tls-ca, or use --tls-insecure.",
    ),
    (
        "No space left",
        "Its disk is full: make room, or switch persistence off.",
    ),
    (
        "refused (os error",
        "Check that a server listens there: nothing does at the moment.",
    ),
    (
        "timed out",
        "Check that the server is up and that no firewall is in between.",
    ),
];

const WRONG_PASSWORD: &str =
    "Check the user and the password (URL, LOADLINE_REDIS_PASSWORD or --password-file).";
const WHOLE_CLUSTER: &str = "It is a node of a cluster, or its slots are moving: `cluster://HOST:PORT` names the whole cluster.";
const RESP2: &str = "Use --resp 2 with a server that does not speak RESP3.";

/// What to do about an error with this text, if that is known.
pub(crate) fn hint(text: &str) -> Option<&'static str> {
    HINTS
        .iter()
        .find(|(words, _)| contains_words(text, words))
        .map(|(_, hint)| *hint)
}

/// Whether `words` occur in `text`, and not as a part of longer words.
fn contains_words(text: &str, words: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric();
    text.match_indices(words).any(|(at, _)| {
        !text[..at].ends_with(is_word) && !text[at + words.len()..].starts_with(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_the_hint_that_fits() {
        for (text, part) in [
            (
                "the server refused HELLO with `WRONGPASS invalid username-password pair or user is disabled.`",
                "Check the user",
            ),
            (
                "the server refused HELLO with `NOAUTH HELLO must be called with the client already authenticated`",
                "Give a user and password",
            ),
            (
                "the server refused AUTH with `ERR AUTH <password> called without any password configured for the default user.`",
                "asks for no password",
            ),
            (
                "the server refused SELECT with `ERR DB index is out of range`",
                "no database with this number",
            ),
            (
                "the server refused HELLO with `ERR max number of clients reached`",
                "maxclients",
            ),
            (
                "NOPERM this user has no permissions to run the 'unlink' command",
                "ACL SETUSER",
            ),
            (
                "the server refused HELLO with `NOPROTO unsupported protocol version`",
                "--resp 2",
            ),
            ("Connection refused (os error 111)", "listens there"),
        ] {
            let hint = hint(text).unwrap_or_else(|| panic!("{text}"));
            assert!(hint.contains(part), "{text}: {hint}");
        }
        assert_eq!(hint("TASKS are UNMOVED"), None);
    }
}
