//! A server whose disk is small, or full.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use loadline_store::Durability;

use super::model::Rig;
use crate::persistence::Persistence;
use crate::state::wall_ms;

/// A file system of 20 MiB, which is unmounted with this value.
struct Small(tempfile::TempDir);

impl Small {
    /// Mounts one. `None`, said past the capturing of the test harness, where that needs more rights.
    fn mount() -> Option<Self> {
        use std::io::Write;
        if !rustix::process::geteuid().is_root() {
            let said = b"\n*** NOT TESTED: a server on a full file system, since that needs root\n";
            std::io::stderr().write_all(said).unwrap();
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=20m", "loadline-server"];
        let mounted = Command::new("mount").args(mount).arg(dir.path()).status();
        assert!(mounted.unwrap().success());
        Some(Self(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

/// A server over the log in a directory.
fn open(dir: &Path) -> Rig {
    let mut rig = Rig::new();
    Persistence::open(dir.to_owned(), Durability::Process, &mut rig.shared).unwrap();
    rig.shared.now = wall_ms();
    rig
}

/// Sends a command in a turn of its own, and returns the reply that a client sees, as far as it is no data.
fn ask(rig: &mut Rig, words: &[&str]) -> String {
    rig.shared.begin_turn();
    let reply = String::from_utf8(rig.ask(words)).unwrap();
    match rig.shared.commit() {
        true => reply,
        false => "MISCONF, not committed".to_owned(),
    }
}

/// Lets the timer run until there is room for `SET key value`.
fn set_when_there_is_room(rig: &mut Rig, key: &str, value: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let reply = ask(rig, &["SET", key, value]);
        if reply == "+OK\r\n" {
            return;
        }
        assert!(Instant::now() < until, "{reply}");
        rig.shared.check_log();
        std::thread::yield_now();
    }
}

#[test]
fn few_data_are_overwritten_on_a_small_disk() {
    let Some(small) = Small::mount() else { return };
    let mut rig = open(&small.0.path().join("data"));
    let value = "v".repeat(20_000);
    for round in 0..3_000 {
        let key = format!("key:{}", round % 10);
        let reply = ask(&mut rig, &["SET", &key, &value]);
        assert_eq!(reply, "+OK\r\n", "SET {round}");
    }
}

#[test]
fn full_disk_takes_what_makes_room() {
    let Some(small) = Small::mount() else { return };
    let dir = small.0.path().join("data");
    for bytes in [500, 20_000] {
        let mut rig = open(&dir);
        let value = "v".repeat(bytes);
        let fill = |rig: &mut Rig, prefix: &str| {
            let reply = |number| ask(rig, &["SET", &format!("{prefix}:{number}"), &value]);
            let replies = (0..100_000).map(reply);
            replies.take_while(|reply| reply == "+OK\r\n").count()
        };
        let count = fill(&mut rig, "key");
        assert!(
            (15 << 20..20 << 20).contains(&(count * bytes)),
            "{count} keys"
        );
        let refused = ask(&mut rig, &["SET", "one more", &value]);
        let expected = "-MISCONF Errors writing to the AOF file: No space left on device\r\n";
        assert_eq!(refused, expected);
        for number in 0..count / 4 {
            assert_eq!(
                ask(&mut rig, &["DEL", &format!("key:{number}")]),
                ":1\r\n",
                "{number}"
            );
        }
        set_when_there_is_room(&mut rig, "one more", &value);
        // Full again, and started again.
        fill(&mut rig, "more");
        drop(rig);
        let mut rig = open(&dir);
        assert_eq!(ask(&mut rig, &["GET", "key:0"]), "$-1\r\n");
        assert!(ask(&mut rig, &["BGREWRITEAOF"]).starts_with("+Background"));
        let until = Instant::now() + Duration::from_secs(60);
        while (rig.shared.persistence.as_ref()).is_some_and(|it| it.rewrites.is_under_way()) {
            assert!(Instant::now() < until, "the rewrite does not end");
            rig.shared.rewrite_some();
            rig.shared.check_rewrite();
            std::thread::yield_now();
        }
        let persistence = rig.shared.persistence.as_ref().unwrap();
        assert!(persistence.rewrites.last_succeeded());
        assert_eq!(ask(&mut rig, &["FLUSHALL"]), "+OK\r\n");
        set_when_there_is_room(&mut rig, "one more", &value);
        assert!(fill(&mut rig, "key") > count * 3 / 4);
        // The next values find an empty disk, not one that is being emptied.
        drop(rig);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

/// A change that is longer than all room there is: what removes it makes it void.
#[test]
fn change_that_does_not_fit_is_flushed() {
    let Some(small) = Small::mount() else { return };
    let mut rig = open(&small.0.path().join("data"));
    let reply = ask(&mut rig, &["SET", "long", &"v".repeat(30 << 20)]);
    assert!(reply.contains("MISCONF"));
    assert!(ask(&mut rig, &["SET", "short", "v"]).contains("MISCONF"));
    assert_eq!(ask(&mut rig, &["FLUSHALL"]), "MISCONF, not committed");
    rig.shared.check_log();
    set_when_there_is_room(&mut rig, "short", "v");
}
