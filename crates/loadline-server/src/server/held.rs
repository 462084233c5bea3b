//! Replies that are held back until the log has reached the disk.

use std::io::{ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use super::rig::{Rig, said};
use super::*;
use crate::Durability;

#[test]
fn dependent_reply_waits_for_the_sync_of_the_change() {
    let (mut rig, mut writer) = Rig::hanging();
    let (mut reader, mut watcher) = (rig.connect(), rig.connect());
    rig.send(&mut reader, "GET k");
    assert_eq!(said(&mut reader), "$3\r\nold\r\n", "it is on the disk");
    rig.send(&mut writer, "PING\r\nSET k new");
    rig.send(&mut reader, "GET k");
    rig.send(&mut reader, "PING");
    rig.send(&mut watcher, "PING\r\nECHO x\r\nCLIENT ID");
    assert_eq!(said(&mut watcher), "+PONG\r\n$1\r\nx\r\n:3\r\n");
    rig.send(&mut watcher, "INFO persistence");
    let info = said(&mut watcher);
    assert!(info.contains("aof_pending_bio_fsync:1"), "{info}");
    for see in [
        "DBSIZE",
        "EXISTS other k",
        "SCAN 0",
        "SORT_RO other",
        "RANDOMKEY",
    ] {
        let mut stream = rig.connect();
        rig.send(&mut stream, see);
        assert_eq!(said(&mut stream), "", "{see}");
    }
    // Nothing leaves before the sync, whatever else happens.
    for _ in 0..3 {
        rig.send(&mut watcher, "PING");
        assert_eq!(said(&mut watcher), "+PONG\r\n");
    }
    assert_eq!((said(&mut writer), said(&mut reader)), <_>::default());
    rig.go_on();
    assert_eq!(said(&mut writer), "+PONG\r\n+OK\r\n");
    assert_eq!(said(&mut reader), "$3\r\nnew\r\n+PONG\r\n");
    rig.send(&mut watcher, "INFO persistence");
    let info = said(&mut watcher);
    assert!(info.contains("aof_pending_bio_fsync:0"), "{info}");
}

#[test]
fn sync_releases_what_it_covers_and_no_more() {
    let (mut rig, mut first) = Rig::hanging();
    let mut second = rig.connect();
    rig.send(&mut first, "SET a 1");
    let covered = rig.persistence().log.position();
    rig.send(&mut second, "SET b 2");
    rig.send(&mut first, "GET b");
    rig.persistence().log.sync().unwrap();
    rig.persistence().hangs_at = Some(covered);
    rig.server.answer(false);
    assert_eq!(said(&mut first), "+OK\r\n");
    assert_eq!(said(&mut second), "");
    rig.go_on();
    assert_eq!(said(&mut first), "$1\r\n2\r\n");
    assert_eq!(said(&mut second), "+OK\r\n");
}

/// A disk that hangs delays what depends on changes, and nothing else, even if every connection waits for it.
#[test]
fn new_connections_are_served_while_all_others_wait() {
    let (mut rig, mut writer) = Rig::hanging();
    rig.send(&mut writer, "SET other 1\r\nSADD set a");
    rig.send(&mut writer, "SET k new");
    assert_eq!(said(&mut writer), "");
    for (command, reply) in [
        ("PING", "+PONG\r\n"),
        ("GET durable", "$-1\r\n"),
        ("MGET durable missing", "*2\r\n$-1\r\n$-1\r\n"),
        ("GET k", ""),
        ("MGET durable k", ""),
        ("SINTER missing set", ""),
        ("OBJECT ENCODING other", ""),
        ("EXISTS missing", ":0\r\n"),
        ("SELECT 1\r\nGET k", "+OK\r\n$-1\r\n"),
    ] {
        let mut stream = rig.connect();
        rig.send(&mut stream, command);
        assert_eq!(said(&mut stream), reply, "{command}");
    }
    let mut stream = rig.connect();
    rig.send(&mut stream, "INFO persistence");
    assert!(said(&mut stream).contains("aof_pending_bio_fsync:1"));
    rig.go_on();
    assert_eq!(said(&mut writer), "+OK\r\n:1\r\n+OK\r\n");
    rig.send(&mut stream, "GET k");
    assert_eq!(said(&mut stream), "$3\r\nnew\r\n");
}

/// Changes of whole databases concern every key.
#[test]
fn reads_wait_for_changes_of_databases() {
    for (change, command, replies) in [
        ("FLUSHALL", "GET k", "$-1\r\n"),
        ("SWAPDB 0 1", "GET k", "$-1\r\n"),
        ("SWAPDB 0 1", "SELECT 1\r\nGET k", "+OK\r\n$3\r\nold\r\n"),
        ("RENAME k l", "GET l", "$3\r\nold\r\n"),
        ("COPY k l", "GET l", "$3\r\nold\r\n"),
        ("EXPIRE k 100", "TYPE k", "+string\r\n"),
        ("DEL k", "GET k", "$-1\r\n"),
    ] {
        let (mut rig, mut writer) = Rig::hanging();
        rig.send(&mut writer, change);
        let mut reader = rig.connect();
        rig.send(&mut reader, command);
        let first = said(&mut reader);
        assert!(first.is_empty() || first == "+OK\r\n", "{change}: {first}");
        rig.go_on();
        assert_eq!(first + &said(&mut reader), replies, "{change}");
        rig.hang();
        rig.send(&mut reader, "GET missing");
        assert_eq!(said(&mut reader), "$-1\r\n", "{change}");
    }
}

/// The thread in the background syncs and wakes the event loop, also if all connections wait: a sync of the loop itself
/// could hang.
#[test]
fn sync_in_the_background_is_an_event() {
    const MOST_TURNS: usize = 600;
    for others in [0, 1] {
        let mut rig = Rig::new();
        let _others: Vec<UnixStream> = (0..others).map(|_| rig.connect()).collect();
        let mut stream = rig.connect();
        rig.send(&mut stream, "SET k v");
        // It would be there if the event loop had synced.
        assert_eq!(said(&mut stream), "", "{others} other connections");
        let (mut has_come, mut text) = (false, String::new());
        for _ in 0..MOST_TURNS {
            if has_come && !text.is_empty() {
                break;
            }
            rig.turn();
            has_come |= rig.events.iter().any(|event| event.data.u64() == WOKEN);
            text += &said(&mut stream);
        }
        assert!(has_come, "{others} other connections");
        assert_eq!(text, "+OK\r\n");
    }
}

#[test]
fn after_an_error_of_a_sync_held_writes_get_an_error() {
    const ERROR: &str = "-MISCONF Errors writing to the AOF file: the log has failed and takes no writes until the store \
                         is opened again: broken\r\n";
    let (mut rig, mut writer) = Rig::hanging();
    let (mut reader, mut other) = (rig.connect(), rig.connect());
    rig.send(
        &mut writer,
        "SET a 1\r\nGET a\r\nMULTI\r\nINCR a\r\nGET a\r\nEXEC",
    );
    rig.send(&mut writer, "PING\r\nAPPEND k er");
    rig.send(&mut reader, "GET a");
    assert_eq!((said(&mut writer), said(&mut reader)), <_>::default());
    rig.persistence().fault = Some("broken".to_owned());
    rig.send(&mut other, "PING");
    assert_eq!(said(&mut other), "+PONG\r\n");
    let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n";
    assert_eq!(
        said(&mut writer),
        format!("{ERROR}$1\r\n1\r\n{queued}{ERROR}+PONG\r\n{ERROR}")
    );
    assert_eq!(said(&mut reader), "$1\r\n2\r\n");
    rig.send(&mut other, "SET a 3\r\nGET k");
    assert_eq!(said(&mut other), format!("{ERROR}$5\r\nolder\r\n"));
    rig.send(&mut other, "INFO persistence");
    let info = said(&mut other);
    assert!(info.contains("aof_last_write_status:err"), "{info}");
}

#[test]
fn transactions_and_watched_keys_are_as_without_a_wait() {
    let (mut rig, mut writer) = Rig::hanging();
    let mut watcher = rig.connect();
    rig.send(&mut watcher, "WATCH k");
    assert_eq!(said(&mut watcher), "+OK\r\n");
    rig.send(&mut writer, "MULTI\r\nSET k new\r\nINCR n\r\nEXEC");
    // It says that the key was changed.
    rig.send(&mut watcher, "MULTI\r\nPING\r\nEXEC");
    assert_eq!((said(&mut writer), said(&mut watcher)), <_>::default());
    rig.go_on();
    let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n";
    assert_eq!(said(&mut writer), format!("{queued}*2\r\n+OK\r\n:1\r\n"));
    assert_eq!(said(&mut watcher), "+OK\r\n+QUEUED\r\n*-1\r\n");
}

/// The item that a waiting client gets is the change of another one, and has to be on the disk first.
#[test]
fn waiting_client_is_answered_after_the_sync_of_its_item() {
    let (mut rig, mut writer) = Rig::hanging();
    let mut waiter = rig.connect();
    rig.send(&mut waiter, "BLPOP q 0\r\nPING");
    rig.send(&mut writer, "RPUSH q a b");
    assert_eq!((said(&mut writer), said(&mut waiter)), <_>::default());
    rig.go_on();
    assert_eq!(said(&mut writer), ":2\r\n");
    assert_eq!(said(&mut waiter), "*2\r\n$1\r\nq\r\n$1\r\na\r\n+PONG\r\n");
    rig.hang();
    rig.send(&mut waiter, "BLPOP r 0");
    rig.send(&mut writer, "RPUSH r c");
    rig.persistence().fault = Some("broken".to_owned());
    rig.send(&mut writer, "PING");
    assert!(said(&mut waiter).starts_with("-MISCONF"));
    // The log has the items that no client took.
    let Rig { server, dir, .. } = rig;
    drop(server);
    let options = loadline_store::Options::new();
    let (_, databases) =
        loadline_store::ChangeLog::open(dir.path().join("data"), &options).unwrap();
    let left = databases[0].entry(b"q", 0).unwrap().value;
    let loadline_store::Value::List(items) = left else {
        panic!("{left:?}")
    };
    assert_eq!(items.iter().collect::<Vec<_>>(), [b"b"]);
    assert_eq!(databases[0].entry(b"r", 0), None);
}

#[test]
fn connections_that_end_while_they_wait() {
    let (mut rig, mut gone) = Rig::hanging();
    let [mut half, mut quits, mut faulty, mut killed, mut killer] =
        std::array::from_fn(|_| rig.connect());
    rig.send(&mut gone, "SET gone 1");
    rig.send(&mut half, "SET half 1");
    half.shutdown(Shutdown::Write).unwrap();
    rig.turn();
    rig.send(&mut quits, "SET quits 1\r\nQUIT\r\nSET more 1");
    rig.send(&mut faulty, "SET faulty 1\r\n*1\r\n$x");
    rig.send(&mut killed, "CLIENT ID\r\nSET killed 1");
    // One that is gone is closed at once, instead of waking the loop until the sync.
    let before = rig.server.net.connections.len();
    drop(gone);
    rig.turn();
    assert_eq!(rig.server.net.connections.len(), before - 1);
    rig.send(&mut killer, "CLIENT KILL ID 5");
    assert_eq!(said(&mut killer), ":1\r\n");
    assert_eq!(said(&mut killed), "(end)");
    assert_eq!(rig.server.net.connections.len(), before - 2);
    for stream in [&mut half, &mut quits, &mut faulty] {
        assert_eq!(said(stream), "");
    }
    rig.go_on();
    assert_eq!(said(&mut half), "+OK\r\n(end)");
    assert_eq!(said(&mut quits), "+OK\r\n+OK\r\n(end)");
    assert_eq!(
        said(&mut faulty),
        "+OK\r\n-ERR Protocol error: invalid bulk length\r\n(end)"
    );
    rig.send(&mut killer, "EXISTS gone half quits faulty killed more");
    rig.until_said(&mut killer, ":5\r\n");
}

/// A server that ends syncs the log and answers.
#[test]
fn held_replies_leave_at_the_end() {
    for is_signal in [true, false] {
        let (mut rig, mut writer) = Rig::hanging();
        let mut operator = rig.connect();
        rig.send(&mut writer, "SET k new\r\nINCR n");
        assert_eq!(said(&mut writer), "");
        rig.persistence().hangs_at = None;
        if !is_signal {
            operator.write_all(b"SET l 1\r\nSHUTDOWN\r\n").unwrap();
        }
        rig.server.run(&AtomicBool::new(is_signal)).unwrap();
        assert_eq!(said(&mut writer), "+OK\r\n:1\r\n", "{is_signal}");
        let Rig { server, dir, .. } = rig;
        drop(server);
        let expected = if is_signal { "(end)" } else { "+OK\r\n(end)" };
        assert_eq!(said(&mut operator), expected);
        let options = loadline_store::Options::new();
        let (_, databases) =
            loadline_store::ChangeLog::open(dir.path().join("data"), &options).unwrap();
        assert_eq!(databases[0].len(), if is_signal { 2 } else { 3 });
    }
}

/// CONFIG SET appendfsync while the server runs: a reply waits for what was in force at any time of its turn.
#[test]
fn durability_can_be_changed_between_turns() {
    let (mut rig, mut writer) = Rig::hanging();
    let mut operator = rig.connect();
    rig.send(&mut writer, "SET k held");
    rig.send(
        &mut operator,
        "SET o held\r\nCONFIG SET appendfsync no\r\nCONFIG GET appendfsync",
    );
    assert_eq!((said(&mut writer), said(&mut operator)), <_>::default());
    assert_eq!(rig.persistence().log.durability(), Durability::Process);
    // From this turn on, replies leave at once, but in order.
    let mut other = rig.connect();
    rig.send(&mut other, "SET k free\r\nGET k");
    assert_eq!(said(&mut other), "+OK\r\n$4\r\nfree\r\n");
    rig.send(&mut writer, "SET k last");
    assert_eq!(said(&mut writer), "", "behind a reply that waits");
    rig.go_on();
    assert_eq!(said(&mut writer), "+OK\r\n+OK\r\n");
    let setting = "*2\r\n$11\r\nappendfsync\r\n$2\r\nno\r\n";
    assert_eq!(said(&mut operator), format!("+OK\r\n+OK\r\n{setting}"));

    rig.hang();
    rig.send(&mut writer, "SET k early");
    assert_eq!(said(&mut writer), "+OK\r\n");
    rig.send(&mut operator, "CONFIG SET appendfsync ALWAYS");
    assert_eq!(said(&mut operator), "+OK\r\n");
    // Writes acknowledged before have not reached the disk either.
    rig.send(&mut other, "GET k");
    rig.send(&mut writer, "SET k late");
    assert_eq!((said(&mut writer), said(&mut other)), <_>::default());
    rig.go_on();
    assert_eq!(said(&mut other), "$5\r\nearly\r\n");
    assert_eq!(said(&mut writer), "+OK\r\n");
}

/// Replies that wait when the durability changes leave by a sync that is begun for them.
#[test]
fn replies_that_wait_leave_after_the_durability_was_changed() {
    for (first, second) in [("always", "no"), ("no", "always"), ("always", "everysec")] {
        let mut rig = Rig::new();
        let (mut writer, mut operator) = (rig.connect(), rig.connect());
        rig.send(&mut operator, &format!("CONFIG SET appendfsync {first}"));
        rig.until_said(&mut operator, "+OK\r\n");
        let set = format!("SET k v\r\nCONFIG SET appendfsync {second}\r\nINCR n");
        rig.send(&mut writer, &set);
        rig.until_said(&mut writer, "+OK\r\n+OK\r\n:1\r\n");
        let synced = rig.server.shared.unsynced().is_none() || second != "always";
        assert!(synced, "{first} to {second}");
    }
}

/// Connections that write and go leave nothing behind but their changes.
#[test]
fn connections_that_come_and_go_while_a_sync_hangs_do_not_add_up() {
    const COUNT: usize = 500;
    let (mut rig, mut writer) = Rig::hanging();
    rig.send(&mut writer, "SET k new");
    for _ in 0..COUNT {
        let mut stream = rig.connect();
        rig.send(&mut stream, "INCR n");
        drop(stream);
        while rig.server.net.connections.len() > 1 {
            rig.turn();
        }
    }
    assert!(
        rig.server.held.len() <= 4 * MOST_HELD,
        "{}",
        rig.server.held.len()
    );
    rig.go_on();
    assert_eq!(said(&mut writer), "+OK\r\n");
    rig.send(&mut writer, "GET n");
    rig.until_said(&mut writer, &format!("$3\r\n{COUNT}\r\n"));
}

/// A peer that goes on sending is not read any more, and gets all of its replies later.
#[test]
fn held_replies_are_bounded() {
    const TURNS: usize = 3 * MOST_HELD;
    let (mut rig, mut writer) = Rig::hanging();
    let (request, reply) = ("INCR n\r\n", ":0\r\n".len());
    let mut other = rig.connect();
    for _ in 0..TURNS {
        writer.write_all(request.as_bytes()).unwrap();
        rig.send(&mut other, "PING");
    }
    assert_eq!(rig.server.held.len(), MOST_HELD);
    assert_eq!(said(&mut other), "+PONG\r\n".repeat(TURNS));
    assert_eq!(said(&mut writer), "");
    rig.go_on();
    let expected: String = (1..=TURNS).map(|number| format!(":{number}\r\n")).collect();
    assert!(expected.len() > TURNS * reply);
    rig.until_said(&mut writer, &expected);
    // Long replies are bounded by their bytes. Requests wait, and are executed once there is room.
    rig.hang();
    let long = "x".repeat(500_000);
    let requests = format!(
        "*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n$500000\r\n{long}\r\n{}",
        "GET long\r\n".repeat(20)
    );
    let mut rest = requests.as_bytes();
    for _ in 0..40 {
        match writer.write(rest) {
            Ok(bytes) => rest = &rest[bytes..],
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        rig.send(&mut other, "PING");
    }
    let connections = &rig.server.net.connections;
    let pending = (0..10).filter_map(|token| connections.borrow(token));
    let pending = pending.map(|connection| connection.pending_bytes());
    let most = pending.max().unwrap();
    assert!(most > 500_000 && most < 2_000_000, "{most}");
    rig.go_on();
    let mut text = String::new();
    while text.len() < 20 * long.len() {
        rig.turn();
        text += &said(&mut writer);
    }
    assert_eq!(
        text.matches(&format!("${}\r\n{long}\r\n", long.len()))
            .count(),
        20
    );
}
