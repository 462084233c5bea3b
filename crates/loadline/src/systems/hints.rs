//! Hints for errors: one table for connections, loading and runs.

/// Texts of servers and of rustls, each with a hint. The first one that occurs in an error applies.
const HINTS: [(&str, &str); 25] = [
    ("WRONGPASS", WRONG_PASSWORD),
    // Redis before version 6.
    ("invalid password", WRONG_PASSWORD),
    (
        "without any password configured",
        "The server has no password: remove it from the URL, LOADLINE_REDIS_PASSWORD or --password-file.",
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
        "The server has no database with this number; `CONFIG GET databases` shows the number of databases.",
    ),
    (
        "SELECT is not allowed",
        "A cluster has only database 0: remove the number.",
    ),
    (
        "max number of clients",
        "The server accepts no more connections: raise its maxclients, or lower --connections.",
    ),
    (
        "READONLY",
        "The server is a replica and accepts no writes: use its primary.",
    ),
    (
        "OOM",
        "The server has reached its maxmemory: raise it, or lower --keys or --value-size.",
    ),
    ("CLUSTERDOWN", WHOLE_CLUSTER),
    ("MOVED", WHOLE_CLUSTER),
    ("ASK", WHOLE_CLUSTER),
    (
        "LOADING",
        "The server is loading its data set: wait until it has finished.",
    ),
    (
        "MISCONF",
        "The server cannot save its data set and accepts no writes: see its log.",
    ),
    (
        "NOREPLICAS",
        "The server has fewer replicas than its min-replicas-to-write requires.",
    ),
    ("NOPROTO", RESP2),
    ("HELLO", RESP2),
    (
        "CertificateRequired",
        "The server requires a client certificate: set one with --tls-cert and --tls-key.",
    ),
    (
        "CaUsedAsEndEntity",
        "The server uses a CA certificate as its own: issue a server certificate from it, or use --tls-insecure.",
    ),
    (
        "not valid for name",
        "Use a host name in the server's certificate, or --tls-insecure.",
    ),
    (
        "certificate",
        "Set the issuing CA certificate with --tls-ca (for a self-signed certificate, itself), or use --tls-insecure.",
    ),
    (
        "No space left",
        "The disk is full: free space there, or name another directory with --dir. A server can also run without persistence.",
    ),
    (
        "refused (os error",
        "Check that a server is running and listens on this address.",
    ),
    (
        "timed out",
        "Check that the server is running and that no firewall blocks the connection.",
    ),
];

const WRONG_PASSWORD: &str =
    "Check the user and the password (URL, LOADLINE_REDIS_PASSWORD or --password-file).";
const WHOLE_CLUSTER: &str = "The server is a node of a cluster, or its slots are moving: use `cluster://HOST:PORT` for the whole cluster.";
const RESP2: &str = "Use --resp 2 with a server that does not speak RESP3.";

/// The hint for an error with this text, if there is one.
pub(crate) fn hint(text: &str) -> Option<&'static str> {
    HINTS
        .iter()
        .find(|(words, _)| contains_words(text, words))
        .map(|(_, hint)| *hint)
}

/// Whether `words` occur in `text` as whole words.
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
                "has no password",
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
            (
                "Connection refused (os error 111)",
                "listens on this address",
            ),
        ] {
            let hint = hint(text).unwrap_or_else(|| panic!("{text}"));
            assert!(hint.contains(part), "{text}: {hint}");
        }
        assert_eq!(hint("TASKS are UNMOVED"), None);
    }
}
