//! Replies of a server that has become a replica, and whether a request that it answered has written anything.

use loadline_resp::{Decoder, Limits, Reply};

use crate::facts;
use crate::flags::Flags;

/// Start of the reply to a write on a replica.
const READ_ONLY: &[u8] = b"-READONLY ";
/// Start of the reply to `EXEC` if the server became a replica after it had queued the commands.
const DISCARDED: &[u8] = b"-EXECABORT Transaction discarded because of: READONLY";

/// Whether a reply, by its bytes, says that the server is a replica and has refused a write.
pub(crate) fn is_read_only(reply: &[u8]) -> bool {
    reply.starts_with(READ_ONLY) || reply.starts_with(DISCARDED)
}

/// Whether a request that a replica has answered has written nothing, so that it can be sent again as a whole: each of
/// its commands was refused or only reads, or they are a transaction that was discarded.
pub(crate) fn is_unwritten(wire: &[u8], replies: &[u8]) -> bool {
    let (Some(commands), Some(replies)) = (all(wire), all(replies)) else {
        return false;
    };
    let code = |reply: &Reply<'_>, code: &[u8]| {
        let text = reply.error_text().unwrap_or_default();
        text.split(|&byte| byte == b' ').next() == Some(code)
    };
    let is_transaction = commands.first().is_some_and(|first| name(first) == "MULTI");
    if is_transaction {
        return replies.last().is_some_and(|last| code(last, b"EXECABORT"));
    }
    commands.len() == replies.len()
        && replies.iter().any(|reply| code(reply, b"READONLY"))
        && commands.iter().zip(&replies).all(|(command, reply)| {
            code(reply, b"READONLY") || code(reply, b"LOADING") || only_reads(command)
        })
}

/// All messages of which these are the bytes.
fn all(mut bytes: &[u8]) -> Option<Vec<Reply<'_>>> {
    let mut decoder = Decoder::new(Limits::default());
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (message, used) = decoder.decode(bytes).ok()??;
        found.push(message);
        bytes = &bytes[used..];
    }
    Some(found)
}

fn name(command: &Reply<'_>) -> String {
    let Reply::Array(words) = command else {
        return String::new();
    };
    let name = words.first().and_then(Reply::as_bytes).unwrap_or_default();
    String::from_utf8_lossy(name).to_ascii_uppercase()
}

fn only_reads(command: &Reply<'_>) -> bool {
    let Reply::Array(words) = command else {
        return false;
    };
    let args = words.iter().skip(1).filter_map(Reply::as_bytes);
    let meta = facts::with_arguments(facts::lookup(&name(command)), args);
    meta.flags.contains(Flags::READ_ONLY)
}

#[cfg(test)]
mod tests {
    use loadline_resp::encode;

    use super::*;

    fn unwritten(commands: &[&str], replies: &str) -> bool {
        let mut wire = Vec::new();
        for command in commands {
            encode::command(&mut wire, &command.split(' ').collect::<Vec<_>>());
        }
        is_unwritten(&wire, replies.as_bytes())
    }

    #[test]
    fn request_is_unwritten_if_each_write_of_it_was_refused() {
        let refused = "-READONLY You can't write against a read only replica.\r\n";
        assert!(is_read_only(refused.as_bytes()));
        assert!(unwritten(&["INCR n"], refused));
        assert!(unwritten(&["INCR n", "INCR n"], &refused.repeat(2)));
        assert!(unwritten(
            &["GET a", "INCR n"],
            &format!("$1\r\n1\r\n{refused}")
        ));
        assert!(!unwritten(
            &["INCR n", "INCR n"],
            &format!(":1\r\n{refused}")
        ));
        assert!(!unwritten(
            &["UNHEARD.OF", "INCR n"],
            &format!(":1\r\n{refused}")
        ));
        assert!(
            !unwritten(&["INCR n", "INCR n"], refused),
            "a reply is missing"
        );
        assert!(!unwritten(&["GET a"], "$1\r\n1\r\n"), "nothing was refused");
    }

    #[test]
    fn transaction_is_unwritten_if_it_was_discarded() {
        let commands = ["MULTI", "INCR n", "EXEC"];
        let refused = "-READONLY You can't write against a read only replica.\r\n";
        let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
        assert!(unwritten(&commands, &format!("+OK\r\n{refused}{aborted}")));
        let late = "-EXECABORT Transaction discarded because of: READONLY You can't write\r\n";
        assert!(is_read_only(late.as_bytes()));
        assert!(unwritten(&commands, &format!("+OK\r\n+QUEUED\r\n{late}")));
        let executed = "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n";
        assert!(!unwritten(&commands, executed));
    }
}
