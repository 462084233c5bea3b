//! Traces of applications: which objects were used, one after the other.
//!
//! | format | a use |
//! | --- | --- |
//! | Twitter's cache traces | `timestamp,key,key bytes,value bytes,client,operation,time to live` |
//! | oracleGeneral of libCacheSim | 24 bytes, little-endian: time (4), object (8), its bytes (4), next use (8) |
//! | the output of `redis-cli MONITOR` | `1339518083.107412 [0 127.0.0.1:60866] "get" "key"` |

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use loadline_cache::entry_bytes;
use loadline_measure::miss_ratio::{MissRatio, MissRatioCurve, Use};

use crate::exit::Failure;

/// The number of uses that are followed, about.
const FOLLOWED: f64 = 1_000_000.0;
/// The smallest share of the objects that is followed.
const LEAST_SHARE: f64 = 0.001;
/// The longest line.
const LONGEST_LINE: u64 = 1 << 20;
/// Bytes of a use in oracleGeneral.
const ORACLE_BYTES: u64 = 24;
/// The longest trace in uses, for the check of the next use.
const MOST_USES: i64 = 1 << 48;
/// Bytes of a line that a message shows.
const SHOWN: usize = 60;
/// The beginnings of compressed files, and the programs that decompress them.
const COMPRESSED: [(&[u8], &str); 4] = [
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd -d"),
    (&[0x1f, 0x8b], "gzip -d"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz -d"),
    (b"BZh", "bzip2 -d"),
];
/// Fields of a use in Twitter's traces.
const TWITTER_FIELDS: usize = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Twitter,
    Oracle,
    Monitor,
}

/// The miss ratios of the trace in `path`. Objects have `bytes` if the format has no sizes; to each are added the bytes that
/// the cache takes for an entry.
///
/// # Errors
/// A bad file for one that cannot be read or is no trace.
pub(crate) fn follow(path: &Path, bytes: u64) -> Result<MissRatioCurve, Failure> {
    let bad = |why: String| Failure::bad_file(format!("--trace {}: {why}.", path.display()));
    let open = || File::open(path).map_err(|error| bad(error.to_string()));
    let kind = std::fs::metadata(path).map_err(|error| bad(error.to_string()))?;
    if !kind.is_file() {
        let why =
            "it is not a regular file; it is read more than once, so write it to a file first";
        return Err(bad(why.into()));
    }
    let format = format(&mut BufReader::new(open()?)).map_err(bad)?;
    let uses = match format {
        Format::Oracle => kind.len() / ORACLE_BYTES,
        Format::Twitter | Format::Monitor => {
            lines(&mut BufReader::new(open()?)).map_err(|error| bad(error.to_string()))?
        }
    };
    let share = (FOLLOWED / uses.max(1) as f64).clamp(LEAST_SHARE, 1.0);
    let mut followed = MissRatio::new(share);
    let mut input = BufReader::new(open()?);
    let read = match format {
        Format::Oracle => read_oracle(&mut input, &mut |used| followed.add(&used)),
        Format::Twitter => read_lines(&mut input, &mut |line| {
            let used = twitter(line)?;
            used.iter().for_each(|used| followed.add(used));
            Some(())
        }),
        Format::Monitor => read_lines(&mut input, &mut |line| {
            monitor(line, bytes, &mut |used| followed.add(&used))
        }),
    };
    read.map_err(bad)?;
    let curve = followed.curve();
    if curve.reads == 0 {
        return Err(bad("it has no reads".into()));
    }
    Ok(curve)
}

/// The format of a trace, from its beginning.
fn format(input: &mut impl Read) -> Result<Format, String> {
    const UNKNOWN: &str = "it is not a trace: expected Twitter's CSV, oracleGeneral (24 bytes per use) or the output of redis-cli MONITOR";
    let mut head = Vec::new();
    input
        .take(4_096)
        .read_to_end(&mut head)
        .map_err(|error| error.to_string())?;
    if head.is_empty() {
        return Err("it is empty".into());
    }
    if let Some((_, program)) = COMPRESSED.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(format!("it is compressed; decompress it first ({program})"));
    }
    let line = head.split(|byte| *byte == b'\n').find(|line| {
        let line = line.trim_ascii();
        !line.is_empty() && line != b"OK"
    });
    let line = line.unwrap_or_default().trim_ascii();
    let is_text = line
        .iter()
        .all(|byte| (b' '..0x7f).contains(byte) || *byte >= 0x80);
    match line {
        [] => Err(UNKNOWN.into()),
        line if is_text && monitor(line, 1, &mut |_| {}).is_some() => Ok(Format::Monitor),
        line if is_text && twitter(line).is_some() => Ok(Format::Twitter),
        _ if !is_text && head.len() >= ORACLE_BYTES as usize => Ok(Format::Oracle),
        _ => Err(UNKNOWN.into()),
    }
}

fn lines(input: &mut impl BufRead) -> io::Result<u64> {
    let mut count = 0;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(count);
        }
        count += buffer.iter().filter(|byte| **byte == b'\n').count() as u64;
        let length = buffer.len();
        input.consume(length);
    }
}

/// Calls `each` for every line that is not empty; it returns `None` for a line that is no use. The last line may be cut off.
fn read_lines(
    input: &mut impl BufRead,
    each: &mut impl FnMut(&[u8]) -> Option<()>,
) -> Result<(), String> {
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = input
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line);
        if read.map_err(|error| error.to_string())? == 0 {
            return Ok(());
        }
        let text = line.trim_ascii();
        if text.is_empty() || text == b"OK" || each(text).is_some() {
            continue;
        }
        // Of a recording that was interrupted, or the beginning of a longer trace.
        let is_cut_off = !line.ends_with(b"\n") && (line.len() as u64) < LONGEST_LINE;
        if is_cut_off && number > 1 {
            return Ok(());
        }
        let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]);
        return Err(format!(
            "line {number} is not a use of an object: `{}`",
            shown.escape_debug()
        ));
    }
    Ok(())
}

fn read_oracle(input: &mut impl Read, each: &mut impl FnMut(Use)) -> Result<(), String> {
    let mut one = [0; ORACLE_BYTES as usize];
    for place in 0_u64.. {
        match input.read_exact(&mut one) {
            Ok(()) => {}
            // The end, or a use that is cut off.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
        let number = |range: std::ops::Range<usize>| {
            let bytes = one[range].iter().rev();
            bytes.fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        // The place of the next use in the trace, counted from 0 or 1, or -1 or the largest number if there is none. Of bytes
        // that are something else, few look like one.
        let next = number(16..24) as i64;
        if next != -1 && next != i64::MAX && !(0..MOST_USES).contains(&next) {
            return Err(format!(
                "byte {}: expected a use of oracleGeneral (24 bytes), but its next use would be {next}",
                place * ORACLE_BYTES
            ));
        }
        each(Use {
            key: number(4..12),
            bytes: entry_bytes(0, number(12..16)),
            reads: true,
        });
    }
    Ok(())
}

/// A line of Twitter's traces; `Some(None)` for an operation that uses no object.
fn twitter(line: &[u8]) -> Option<Option<Use>> {
    let mut fields = line.split(|byte| *byte == b',');
    let _time = number(fields.next()?)?;
    let key = fields.next()?;
    let (key_bytes, value_bytes) = (number(fields.next()?)?, number(fields.next()?)?);
    let _client = fields.next()?;
    let operation = fields.next()?;
    // Keys hold no commas; the time to live is the last field.
    let _ttl = number(fields.next()?)?;
    if fields.next().is_some()
        || line.iter().filter(|byte| **byte == b',').count() + 1 != TWITTER_FIELDS
    {
        return None;
    }
    let reads = matches!(operation, b"get" | b"gets");
    Some((operation != b"delete").then(|| Use {
        key: hashed(key),
        bytes: entry_bytes(key_bytes, value_bytes),
        reads,
    }))
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

fn hashed(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// A line of MONITOR. Commands that use no object are ignored.
fn monitor(line: &[u8], bytes: u64, each: &mut impl FnMut(Use)) -> Option<()> {
    let start = line.windows(3).position(|three| three == b"] \"")?;
    let words = quoted(&line[start + 2..])?;
    let (command, arguments) = words.split_first()?;
    let command = command.to_ascii_lowercase();
    let (reads, keys): (bool, Vec<&Vec<u8>>) = match &command[..] {
        b"get" | b"getex" | b"hget" | b"hmget" | b"hgetall" => {
            (true, arguments.iter().take(1).collect())
        }
        b"mget" => (true, arguments.iter().collect()),
        b"set" | b"setex" | b"psetex" | b"setnx" | b"getset" | b"append" | b"incr" | b"decr"
        | b"incrby" | b"hset" | b"hmset" => (false, arguments.iter().take(1).collect()),
        b"mset" => (false, arguments.iter().step_by(2).collect()),
        _ => (false, Vec::new()),
    };
    for key in keys {
        each(Use {
            key: hashed(key),
            bytes: entry_bytes(key.len() as u64, bytes),
            reads,
        });
    }
    Some(())
}

/// The words in quotes; those of MONITOR escape quotes, backslashes and bytes that are not printable.
fn quoted(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut bytes = text.iter().copied();
    loop {
        match bytes.next() {
            None => return Some(words),
            Some(b' ') => {}
            Some(b'"') => {
                let mut word = Vec::new();
                loop {
                    match bytes.next()? {
                        b'"' => break,
                        // The meaning of an escape does not matter: equal keys stay equal.
                        b'\\' => word.extend([b'\\', bytes.next()?]),
                        byte => word.push(byte),
                    }
                }
                words.push(word);
            }
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn followed(name: &str, content: &[u8]) -> Result<MissRatioCurve, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        follow(&path, 100).map_err(|failure| failure.to_string())
    }

    /// Two objects, read twice each: a hit needs room for both.
    fn checked(curve: &MissRatioCurve, bytes: u64) {
        assert_eq!((curve.reads, curve.sampled), (4, 1.0));
        let memory = curve.memory_for(0.5).unwrap();
        assert!(
            (bytes..=bytes * 103 / 100).contains(&memory),
            "{memory} {bytes}"
        );
        assert_eq!(curve.memory_for(0.6), None);
    }

    #[test]
    fn each_format_is_recognised_and_read() {
        let twitter = "0,a,1,99,7,get,0\n1,b,1,99,7,get,0\n2,a,1,99,7,gets,0\n3,b,1,99,7,get,0\n4,a,1,0,7,delete,0\n";
        checked(
            &followed("t.csv", twitter.as_bytes()).unwrap(),
            2 * entry_bytes(1, 99),
        );
        let monitor = "OK\n1.5 [0 127.0.0.1:1] \"GET\" \"a\\\"\"\n1.6 [0 127.0.0.1:1] \"get\" \"b\"\n\
            1.6 [0 lua] \"publish\" \"c\" \"d\"\n1.7 [0 unix:/s] \"mget\" \"a\\\"\" \"b\"\n";
        let both = entry_bytes(2, 100) + entry_bytes(1, 100);
        checked(&followed("m.log", monitor.as_bytes()).unwrap(), both);
        let mut oracle = Vec::new();
        for (time, object) in [(0_u32, 1_u64), (1, 2), (2, 1), (3, 2)] {
            oracle.extend(time.to_le_bytes());
            oracle.extend(object.to_le_bytes());
            oracle.extend(150_u32.to_le_bytes());
            oracle.extend((-1_i64).to_le_bytes());
        }
        checked(
            &followed("o.bin", &oracle).unwrap(),
            2 * entry_bytes(0, 150),
        );
    }

    #[test]
    fn malformed_trace_is_refused_with_its_line() {
        for (content, why) in [
            (&b""[..], "it is empty"),
            (b"\n\n", "expected Twitter's CSV"),
            (
                b"\x28\xb5\x2f\xfd and more",
                "decompress it first (zstd -d)",
            ),
            (&[0x11; 1_000], "byte 0: expected a use of oracleGeneral"),
            (b"hello\n", "expected Twitter's CSV"),
            (
                b"0,a,1,99,7,get,0\nnonsense\n",
                "line 2 is not a use of an object: `nonsense`",
            ),
            (b"0,a,1,99,7,set,0\n", "it has no reads"),
        ] {
            let refused = followed("x", content).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn last_line_that_is_cut_off_is_left_out() {
        let curve = followed("t.csv", b"0,a,1,99,7,get,0\n1,a,1,99,7,get,0\n2,b,1,9").unwrap();
        assert_eq!(curve.reads, 2);
        // In the middle it is damage.
        let refused = followed("t.csv", b"0,a,1,99,7,get,0\n1,a,1,9\n2,b,1,99,7,get,0\n");
        assert!(refused.unwrap_err().contains("line 2 is not"));
    }

    #[test]
    fn special_file_is_refused_as_a_trace() {
        let refused = follow(Path::new("/dev/null"), 1).unwrap_err().to_string();
        assert!(refused.contains("not a regular file"), "{refused}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = followed("any", &bytes);
            let _ = (twitter(&bytes), monitor(&bytes, 1, &mut |_| {}), quoted(&bytes));
        }
    }
}
