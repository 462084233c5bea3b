//! Tests that the effects of random commands survive the end of the process: the log is read again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use loadline_store::{ChangeLog, Durability, Keyspace, Options, Stream, StreamId, View};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::model::Rig;
use crate::persistence::Persistence;
use crate::settings::{Eviction, Settings};
use crate::state::wall_ms;

/// Every command that writes, in the forms that differ in what they do to a key. `k` stands for a key, `m` for a member or a
/// value, `n` for a whole number, `e` for the id of an entry, `t` for a life in milliseconds.
const COMMANDS: &str = "\
SET k m|SET k n|SET k m PX t|SET k m KEEPTTL|SET k m NX|SET k m XX GET|SET k m PXAT 1|SETNX k m|SETEX k 1000 m|PSETEX k t m|GETSET k m
GETDEL k|GETEX k PX t|GETEX k PERSIST|MSET k m k m|MSETNX k m k m|APPEND k m|SETRANGE k 3 m|SETRANGE k 0 m|INCR k|DECR k|INCRBY k n|DECRBY k n
INCRBYFLOAT k 1.5|SETBIT k 7 1|SETBIT k 100 1|SETBIT k 3 0|BITFIELD k SET u8 3 255 INCRBY i5 100 n GET u4 0|BITFIELD k OVERFLOW FAIL INCRBY u2 40 3|BITOP OR k k k|BITOP NOT k k
DEL k|UNLINK k k|RENAME k k|RENAMENX k k|COPY k k|COPY k k REPLACE|COPY k k DB 1 REPLACE|MOVE k 1|SELECT 0|SELECT 1|SELECT 0
PEXPIRE k t|EXPIRE k 1000|PEXPIRE k 0|EXPIREAT k 33177117420|PEXPIREAT k 33177117420000|PERSIST k|PERSIST k
SADD k m|SADD k n n|SADD k n|SADD k m m m|SREM k m m|SREM k n|SPOP k|SPOP k 2|SMOVE k k m|SMOVE k k n|SINTERSTORE k k k|SUNIONSTORE k k k|SDIFFSTORE k k k
HSET k m m|HSET k m n n m|HMSET k m m|HSETNX k m m|HINCRBY k n n|HINCRBYFLOAT k n 1.5|HDEL k m m|HDEL k n
HEXPIRE k 1000 FIELDS 2 m n|HPEXPIRE k t FIELDS 2 m n|HPEXPIRE k t NX FIELDS 1 m|HEXPIRE k 0 FIELDS 1 n|HEXPIREAT k 33177117420 FIELDS 1 m|HPEXPIREAT k 33177117420000 LT FIELDS 1 n|HPERSIST k FIELDS 2 m n|HGETEX k PX t FIELDS 2 m n|HGETEX k PERSIST FIELDS 1 m|HGETEX k PXAT 1 FIELDS 1 m|HGETDEL k FIELDS 2 m n|HSETEX k PX t FIELDS 2 m n n m|HSETEX k FNX FIELDS 1 n m|HSETEX k FXX KEEPTTL FIELDS 1 m n|HSETEX k PXAT 1 FIELDS 1 m n
XADD k * m m|XADD k * m n m m|XADD k MAXLEN 3 * m m|XADD k e m m|XADD k 50-* m m|XADD k MINID ~ e 50-* m m|XDEL k e e|XDEL k 50-0 50-1|XTRIM k MAXLEN 2|XTRIM k MINID e|XSETID k 60-0 ENTRIESADDED 9 MAXDELETEDID e
XGROUP CREATE k g e MKSTREAM|XGROUP CREATE k h 0 MKSTREAM ENTRIESREAD 1|XGROUP SETID k g e|XGROUP DESTROY k h|XGROUP CREATECONSUMER k g m|XGROUP DELCONSUMER k g m|XREADGROUP GROUP g m STREAMS k >|XREADGROUP GROUP h m COUNT 1 NOACK STREAMS k >|XREADGROUP GROUP g m STREAMS k 0|XACK k g e 50-0|XCLAIM k g m 0 50-0 e FORCE|XCLAIM k h m 0 e FORCE JUSTID RETRYCOUNT 3|XAUTOCLAIM k g m 0 0
LPUSH k m|LPUSH k m n m|RPUSH k m m|BLPOP k k 0|BRPOP k 0|BLMOVE k k LEFT RIGHT 0|BRPOPLPUSH k k 0|BLMPOP 0 2 k k LEFT COUNT 2|BZPOPMIN k k 0|BZPOPMAX k 0|BZMPOP 0 1 k MAX COUNT 2|LPUSHX k m|RPUSHX k m|LPOP k|RPOP k|LPOP k 2|RPOP k 2|LSET k 0 m|LSET k -1 m|LSET k 1 n|SORT k ALPHA STORE k
PFADD k m|PFADD k m n n|PFCOUNT k|PFMERGE k k k|PFDEBUG TODENSE k
LTRIM k 1 -2|LTRIM k 0 3|LREM k 0 m|LREM k -1 m|LREM k 1 n|LINSERT k BEFORE m n|LINSERT k AFTER m m|LMOVE k k LEFT RIGHT|LMOVE k k RIGHT RIGHT|RPOPLPUSH k k|LMPOP 2 k k LEFT COUNT 2|LMPOP 1 k RIGHT
ZADD k n m|ZADD k n m n m n n|ZADD k GT CH n m|ZADD k NX 1.5 m -inf n|ZADD k XX INCR 0.1 m|ZINCRBY k n m|ZREM k m m|ZREM k n|ZPOPMIN k|ZPOPMAX k 2|ZMPOP 2 k k MIN COUNT 2|ZRANGESTORE k k 0 -1 REV|ZRANGESTORE k k -inf 3 BYSCORE
ZREMRANGEBYRANK k 1 2|ZREMRANGEBYSCORE k 1 7|ZREMRANGEBYLEX k [m (n|ZUNIONSTORE k 2 k k|ZINTERSTORE k 2 k k AGGREGATE MAX|ZDIFFSTORE k 2 k k|CONFIG SET zset-max-listpack-entries 3|CONFIG SET zset-max-listpack-entries 128
GEOADD k 13.36 38.1 m 15.08 37.5 n|GEOADD k CH -70 n m|GEORADIUS k 15 37 900 km STORE k|GEORADIUSBYMEMBER k m 9000 km STOREDIST k|GEOSEARCHSTORE k k FROMLONLAT 15 37 BYBOX 900 900 km
LIBRARY n|LIBRARY n|FUNCTION DELETE lib7|FUNCTION DELETE lib3|FUNCTION FLUSH|FCALL f7 2 k k m|FCALL f3 2 k k m
EVAL redis.call('set',KEYS[1],ARGV[1])redis.pcall('incr',KEYS[2])redis.pcall('sadd',KEYS[1],1) 2 k k m|EVALSHA 35dc0df6bb1352e7d69321aa177923f1f0204d53 2 k k m
MULTI|EXEC|EXEC|DISCARD|RESTORED k|SWAPDB 0 1|FLUSHDB|CONFIG SET hash-max-listpack-value 3 set-max-intset-entries 4|CONFIG SET set-max-intset-entries 512";

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const MEMBERS: [&str; 6] = ["", "m", "n", "x", "longer than short", "12"];
const IDS: [&str; 6] = ["1-1", "2-2", "50-0", "50-1", "0-0", "40-3"];
const NUMBERS: [&str; 7] = ["0", "1", "-1", "7", "-10", "3", "100"];
const LIVES: [&str; 4] = ["1", "40", "200", "1000000"];

/// Contents of databases, with the order of collections that have one.
type Held = BTreeMap<(usize, Vec<u8>), (String, Option<u64>)>;

fn held(databases: &[Keyspace], now: u64) -> Held {
    let mut held = Held::new();
    for (number, database) in databases.iter().enumerate() {
        let mut keys = Vec::new();
        database.scan(0, usize::MAX, now, |key, _| keys.push(key.to_vec()));
        for key in keys {
            let entry = database.peek(&key, now, |entry| {
                entry.map(|(value, expires_at)| (shown(value), expires_at))
            });
            held.insert((number, key), entry.expect("it was shown"));
        }
    }
    held
}

fn shown(value: View<'_>) -> String {
    let (mut elements, is_ordered): (Vec<String>, bool) = match value {
        View::String(bytes) => return format!("{bytes:?}"),
        View::Set(members) => {
            let members_shown = members.iter().map(|(member, ())| format!("{member:?}"));
            (members_shown.collect(), members.is_ordered())
        }
        View::Hash(fields) => {
            let fields_shown = fields
                .iter()
                .map(|field| format!("{field:?} {:?}", fields.expires_at(field.0)));
            (fields_shown.collect(), fields.is_ordered())
        }
        View::List(items) => (items.iter().map(|item| format!("{item:?}")).collect(), true),
        View::Sorted(set) => {
            let members = set.iter().map(|member| format!("{member:?}"));
            (members.collect(), set.is_packed())
        }
        View::Stream(stream) => (shown_stream(stream), true),
    };
    if !is_ordered {
        elements.sort();
    }
    format!("{} {is_ordered} {elements:?}", value.kind())
}

/// The parts of a stream, without the times at which consumers were seen: not all of them are in the log.
fn shown_stream(stream: &Stream) -> Vec<String> {
    let ids = [stream.first_id(), stream.last_id(), stream.max_deleted_id()];
    let blocks: Vec<_> = stream.blocks().map(|block| block.id()).collect();
    let mut parts = vec![format!("{ids:?} {} {blocks:?}", stream.entries_added())];
    for entry in stream.range(StreamId::MIN, StreamId::MAX) {
        parts.push(format!(
            "{} {:?}",
            entry.id,
            entry.pairs().collect::<Vec<_>>()
        ));
    }
    for (name, group) in stream.groups() {
        let position = (group.last_id, group.entries_read);
        parts.push(format!("{name:?} {position:?} {:?}", group.pending()));
        let consumers = group.consumers();
        parts
            .extend(consumers.map(|(name, consumer)| format!("{name:?} {:?}", consumer.pending())));
    }
    parts
}

/// A server over the log in a directory. Its clock is ahead, so that nothing expires by that of the log, which is the
/// real one.
fn open(dir: &Path, now: u64) -> Rig {
    let mut rig = Rig::new();
    Persistence::open(dir.to_owned(), Durability::Process, &mut rig.shared).unwrap();
    rig.shared.now = now;
    rig
}

/// Contents of a server that is started after this one was killed.
fn after_a_kill(dir: &Path, now: u64) -> Held {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(dir).unwrap() {
        let file = file.unwrap();
        match std::fs::copy(file.path(), copy.path().join(file.file_name())) {
            // The thread in the background removes files that a rewrite has made useless.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => drop(copied.unwrap()),
        }
    }
    let (log, databases) = ChangeLog::open(copy.path(), &Options::new()).unwrap();
    assert_eq!(log.torn(), None);
    held(&databases, now)
}

fn filled(template: &str, rng: &mut SmallRng) -> Vec<Vec<u8>> {
    let words = template.split(' ').map(|word| {
        let words = match word {
            "k" => &KEYS[..],
            "m" => &MEMBERS,
            "n" => &NUMBERS,
            "e" => &IDS,
            "t" => &LIVES,
            word => return word.as_bytes().to_vec(),
        };
        words.choose(rng).unwrap().as_bytes().to_vec()
    });
    words.collect()
}

/// Sends one random command.
fn step(rig: &mut Rig, templates: &[&str], rng: &mut SmallRng) {
    let mut words = filled(templates.choose(rng).unwrap(), rng);
    if words[0] == b"LIBRARY" {
        let number = String::from_utf8(words[1].clone()).unwrap();
        let text = format!(
            "#!lua name=lib{number}\nredis.register_function('f{number}', function(keys, arguments) \
             redis.call('set', keys[1], arguments[1]) redis.pcall('sadd', keys[2], 1) end)"
        );
        words = ["FUNCTION", "LOAD", "REPLACE", &text]
            .map(Into::into)
            .into();
    }
    if words[0] == b"RESTORED" {
        // A dump is made of one key and restored at another.
        let reply = rig.ask(&[b"DUMP", &words[1][..]]);
        let Some(begin) = reply.iter().position(|byte| *byte == b'\n') else {
            return;
        };
        if reply.len() < begin + 3 || reply[0] != b'$' {
            return;
        }
        let dump = reply[begin + 1..reply.len() - 2].to_vec();
        let target = KEYS.choose(rng).unwrap().as_bytes();
        words = vec![
            b"RESTORE".to_vec(),
            target.to_vec(),
            b"0".to_vec(),
            dump,
            b"REPLACE".to_vec(),
        ];
    }
    rig.ask(&words);
}

/// Begins a rewrite of the log, does a part of one, or ends it. Returns how many have ended.
fn rewrite(rig: &mut Rig, rng: &mut SmallRng) -> u64 {
    let rewrites = |rig: &mut Rig| rig.shared.persistence.as_ref().unwrap().rewrites.done();
    let before = rewrites(rig);
    match rng.random_range(0..8) {
        0 => drop(rig.ask(&["BGREWRITEAOF"])),
        1 => {
            while rig.shared.is_rewriting() {
                rig.shared.rewrite_some();
            }
            // The thread in the background removes the files, if they are to go.
            rig.shared.check_rewrite();
        }
        _ => rig.shared.rewrite_some(),
    }
    rewrites(rig) - before
}

/// Rewrites the log to the end.
fn rewrite_all(rig: &mut Rig) {
    let until = Instant::now() + Duration::from_secs(300);
    rig.ask(&["BGREWRITEAOF"]);
    while rig
        .shared
        .persistence
        .as_ref()
        .unwrap()
        .rewrites
        .is_under_way()
    {
        assert!(Instant::now() < until, "the rewrite does not end");
        rig.shared.rewrite_some();
        rig.shared.check_rewrite();
        std::thread::yield_now();
    }
}

#[test]
fn every_change_survives_a_kill() {
    let seeds = if std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1") {
        2_000
    } else {
        4
    };
    let templates: Vec<&str> = COMMANDS.split(['|', '\n']).collect();
    let (mut kills, mut keys, mut rewrites) = (0, 0, 0);
    for seed in 0..seeds {
        let mut rng = SmallRng::seed_from_u64(seed);
        let dir = tempfile::tempdir().unwrap();
        let mut now = wall_ms() + 10_000_000;
        let mut rig = open(dir.path(), now);
        for turn in 0..60 {
            // A turn has several commands, some of which do nothing.
            for _ in 0..rng.random_range(1..25) {
                step(&mut rig, &templates, &mut rng);
                if rng.random_ratio(1, 10) {
                    now += rng.random_range(1..60);
                    rig.shared.now = now;
                }
            }
            assert!(rig.shared.commit());
            rewrites += rewrite(&mut rig, &mut rng);
            if turn % 4 == 0 {
                let (expected, found) = (
                    held(&rig.shared.databases, now),
                    after_a_kill(dir.path(), now),
                );
                assert_eq!(found, expected, "seed {seed}, turn {turn}");
                (kills, keys) = (kills + 1, keys + expected.len());
            }
            if rng.random_ratio(1, 10) {
                drop(rig);
                rig = open(dir.path(), now);
            }
        }
        rewrite_all(&mut rig);
        let expected = held(&rig.shared.databases, now);
        assert_eq!(
            after_a_kill(dir.path(), now),
            expected,
            "seed {seed}, rewritten"
        );
        (kills, keys, rewrites) = (kills + 1, keys + expected.len(), rewrites + 1);
    }
    println!("{kills} kills, {keys} keys compared, {rewrites} rewrites");
    assert!(keys > kills && rewrites > 0);
}

/// Every command of the table that writes is among those above.
#[test]
fn all_commands_that_write_are_tried() {
    let tried: Vec<&str> = COMMANDS
        .split(['|', '\n'])
        .filter_map(|template| template.split(' ').next())
        // MIGRATE needs another server: the tests on sockets restart after it.
        .chain(["RESTORE", "FLUSHALL", "MIGRATE"])
        .collect();
    for known in super::each().filter(|known| known.access == super::Access::Write) {
        assert!(tried.contains(&known.name), "{}", known.name);
    }
}

/// A key that was removed for lack of memory does not come back, and neither does what FLUSHALL removed.
#[test]
fn removed_keys_stay_removed() {
    let dir = tempfile::tempdir().unwrap();
    let now = wall_ms() + 10_000_000;
    let mut rig = open(dir.path(), now);
    rig.shared.set(Settings {
        maxmemory: 1 << 20,
        eviction: Eviction::LeastUsed,
        ..Settings::default()
    });
    let value = "v".repeat(1_000);
    for key in 0..3_000 {
        let key = format!("key:{key}");
        rig.ask(&["SET", &key, &value]);
        if key.ends_with('7') {
            assert!(rig.shared.commit());
        }
    }
    assert!(rig.shared.evicted() > 1_000, "{}", rig.shared.evicted());
    assert!(rig.shared.commit());
    let expected = held(&rig.shared.databases, now);
    assert_eq!(after_a_kill(dir.path(), now).len(), expected.len());
    assert!(after_a_kill(dir.path(), now) == expected);
    rig.ask(&["FLUSHALL"]);
    rig.ask(&["SET", "after", "x"]);
    assert!(rig.shared.commit());
    let after = after_a_kill(dir.path(), now);
    assert_eq!(after.keys().collect::<Vec<_>>(), [&(0, b"after".to_vec())]);
}

/// The changes of one turn, and so of one transaction, are one record.
#[test]
fn transaction_is_one_record() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = open(dir.path(), wall_ms());
    rig.ask(&["SET", "first", "x"]);
    assert!(rig.shared.commit());
    for words in [
        &["MULTI"][..],
        &["SET", "a", "1"],
        &["SADD", "s", "m"],
        &["LPUSH", "l", "i"],
        &["EXEC"],
    ] {
        rig.ask(words);
    }
    assert!(rig.shared.commit());
    let now = rig.shared.now;
    drop(rig);
    let name = dir.path().join("0000000001.log");
    let file = std::fs::read(&name).unwrap();
    // Every state of the file that a crash could have left has all of the transaction or nothing.
    let mut seen = [0; 2];
    for end in 64..=file.len() {
        // Also without the note of a sync, which a slow run makes in the background, and after which nothing can be lost.
        for other in std::fs::read_dir(dir.path()).unwrap() {
            std::fs::remove_file(other.unwrap().path()).unwrap();
        }
        std::fs::write(&name, &file[..end]).unwrap();
        let (_, databases) = ChangeLog::open(dir.path(), &Options::new()).unwrap();
        let keys = held(&databases, now).len();
        assert!([0, 1, 4].contains(&keys), "{keys} keys of {end} bytes");
        seen[0] += usize::from(keys == 1);
        seen[1] += usize::from(keys == 4);
    }
    assert!(seen[0] > 20 && seen[1] > 0, "{seen:?}");
}

/// The clock of the machine is set back after commands of each kind have missed a key.
#[test]
fn expired_keys_do_not_return_when_the_clock_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let now = wall_ms();
    let mut rig = open(dir.path(), now);
    for key in ["get", "exists", "scanned", "again"] {
        rig.ask(&["SET", key, "1", "PX", "60000"]);
    }
    assert!(rig.shared.commit());
    rig.shared.now = now + 3_600_000;
    rig.ask(&["GET", "get"]);
    rig.ask(&["EXISTS", "exists"]);
    rig.ask(&["SET", "again", "2", "NX"]);
    rig.ask(&["KEYS", "*"]);
    assert!(rig.shared.commit());
    let after = after_a_kill(dir.path(), now);
    let again = (0, b"again".to_vec());
    assert_eq!(after.keys().collect::<Vec<_>>(), [&again]);
}
