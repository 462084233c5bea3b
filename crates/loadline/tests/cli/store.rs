//! `loadline store`, on the directory of a real store.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::util::{Dir, Ended, PATIENCE, Serving};

const EXPORT: &str = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n";
const WITH_EXPIRY: &str =
    "*5\r\n$3\r\nSET\r\n$1\r\nl\r\n$0\r\n\r\n$4\r\nPXAT\r\n$14\r\n99999999999999\r\n";

fn import(dir: &Dir, text: &str) -> Ended {
    import_to(dir, "data", text.as_bytes())
}

fn import_to(dir: &Dir, store: &str, export: &[u8]) -> Ended {
    let words = ["store", "import", store];
    let mut child = dir
        .command(&words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // An import that fails does not read to the end.
    match input.write_all(export) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => panic!("{error}"),
        _ => drop(input),
    }
    Ended::of(&words, child.wait_with_output().unwrap())
}

#[test]
fn store_is_imported_checked_compacted_and_exported() {
    let dir = Dir::new();
    dir.run(&["store", "check", "data"])
        .failed(69, "there is no store here");
    // An import without entries creates the directory, but no log.
    assert_eq!(import(&dir, "").succeeded(), "0 entries imported.\n");
    for action in ["check", "stat", "repair", "compact", "export"] {
        dir.run(&["store", action, "data"])
            .failed(69, "there is no store here: LOCK was left by one");
    }
    let text = format!("{EXPORT}{EXPORT}{WITH_EXPIRY}");
    assert_eq!(import(&dir, &text).succeeded(), "3 entries imported.\n");
    let checked = dir.run(&["store", "check", "data"]).succeeded();
    assert_eq!(checked, "files 1, records 2, bytes 136: sound\n");
    let stat = dir.run(&["store", "stat", "data"]).succeeded();
    assert!(stat.contains("keys           2\n"), "{stat}");
    let compacted = dir.run(&["store", "compact", "data"]).succeeded();
    assert!(compacted.starts_with("136 bytes before, "), "{compacted}");
    let exported = dir.run(&["store", "export", "data"]).succeeded();
    let both = [
        EXPORT.to_owned() + WITH_EXPIRY,
        WITH_EXPIRY.to_owned() + EXPORT,
    ];
    assert!(both.contains(&exported), "{exported}");
}

/// Commands that write values of all kinds, and those that show them.
const WRITES: &str = "SET s v\r\nSET soon v PXAT 33177117420000\r\nHSET h f v g w\r\nHPEXPIREAT h 33177117420000 FIELDS 1 g\r\nSADD m a b\r\nSADD n 1 2\r\n\
RPUSH l 1 b\r\nPEXPIREAT l 33177117420000\r\nZADD z 1.5 a 2 b\r\nXADD x 1-1 f v\r\nXADD x 2-1 g w\r\nXGROUP CREATE x g 0\r\nXREADGROUP GROUP g c COUNT 1 STREAMS x >\r\n\
PFADD p a b c\r\nSELECT 3\r\nSET s other\r\nRPUSH l 9\r\n";
const READS: &str = "DBSIZE\r\nGET s\r\nPEXPIRETIME soon\r\nHGET h f\r\nHPEXPIRETIME h FIELDS 2 f g\r\nSMISMEMBER m a b c\r\nSMEMBERS n\r\nLRANGE l 0 -1\r\nPEXPIRETIME l\r\n\
ZRANGE z 0 -1 WITHSCORES\r\nXRANGE x - +\r\nXPENDING x g\r\nXINFO GROUPS x\r\nPFCOUNT p\r\nSELECT 3\r\nDBSIZE\r\nGET s\r\nLRANGE l 0 -1\r\nFCALL twice 0\r\n";
const LIBRARY: &str = "#!lua name=double\nredis.register_function('twice', function() return redis.call('get', 's') .. 'x' end)";

/// The replies to commands, on a connection of its own.
fn replies(serving: &Serving, commands: &str) -> String {
    let mut stream = TcpStream::connect(serving.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(format!("{commands}QUIT\r\n").as_bytes())
        .unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();
    replies.into_iter().map(char::from).collect()
}

#[test]
fn values_of_all_kinds_and_databases_are_exported_and_imported() {
    let dir = Dir::new();
    let serving = Serving::start(&dir, &["--dir", "data"]);
    let load = format!(
        "*3\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n${}\r\n{LIBRARY}\r\n",
        LIBRARY.len()
    );
    let written = replies(&serving, &format!("{WRITES}{load}"));
    assert!(!written.contains("-ERR"), "{written}");
    let before = replies(&serving, READS);
    assert!(before.ends_with("$6\r\notherx\r\n+OK\r\n"), "{before}");
    drop(serving);
    let exported = dir.command(&["store", "export", "data"]).output().unwrap();
    assert!(
        exported.status.success() && exported.stderr.is_empty(),
        "{exported:?}"
    );
    let imported = import_to(&dir, "copy", &exported.stdout).succeeded();
    assert_eq!(imported, "12 entries imported.\n");
    let again = dir.command(&["store", "export", "copy"]).output().unwrap();
    assert_eq!(again.stdout.len(), exported.stdout.len());
    let serving = Serving::start(&dir, &["--dir", "copy"]);
    assert_eq!(replies(&serving, READS), before);
    // A server takes it too.
    let fresh = Serving::start(&dir, &[]);
    let mut stream = TcpStream::connect(fresh.address).unwrap();
    stream.write_all(&exported.stdout).unwrap();
    stream.write_all(b"QUIT\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(
        !said.contains("-ERR") && said.ends_with("+OK\r\n"),
        "{said}"
    );
    assert_eq!(replies(&fresh, READS), before);
}

#[test]
fn damaged_payload_of_an_export_is_refused() {
    let restore = "*5\r\n$7\r\nRESTORE\r\n$1\r\nk\r\n$1\r\n0\r\n$3\r\nbad\r\n$7\r\nREPLACE\r\n";
    import(&Dir::new(), &format!("{EXPORT}{restore}")).failed(
        65,
        "the payload of RESTORE has another format or is damaged",
    );
}

#[test]
fn check_says_what_it_ignores_and_refuses_what_is_missing() {
    let dir = Dir::new();
    import(&dir, EXPORT).succeeded();
    let log = dir.path().join("data/0000000001.log");
    let whole = std::fs::read(&log).unwrap();
    let end = whole.len();
    // A record that was being written when the process was killed.
    std::fs::write(&log, [&whole, &b"incomplete"[..]].concat()).unwrap();
    let checked = dir.run(&["store", "check", "data"]).succeeded();
    let expected = format!(
        "The last 10 bytes, from byte {end} of data/0000000001.log on, are ignored: they begin with an incomplete record, and \
         no sync had covered them; opening the store moves them to *.torn files.\n"
    );
    assert!(checked.ends_with(&expected), "{checked}");
    assert!(!checked.contains("sound"), "{checked}");
    let kept = format!("data/0000000001-{end}-1.torn");
    // Reading the store changes nothing; opening it for writing does.
    let stat = dir.run(&["store", "stat", "data"]).succeeded();
    assert!(stat.contains("opening the store moves them"), "{stat}");
    assert!(!dir.path().join(&kept).exists());
    assert_eq!(import(&dir, "").succeeded(), "0 entries imported.\n");
    assert_eq!(
        std::fs::read(dir.path().join(&kept)).unwrap(),
        b"incomplete"
    );
    let checked = dir.run(&["store", "check", "data"]).succeeded();
    let expected = format!("sound\n{kept} was cut off the log before");
    assert!(checked.contains(&expected), "{checked}");

    // The store was closed, so its end is known.
    std::fs::write(&log, &whole[..end - 24]).unwrap();
    let expected = format!(
        "data/0000000001.log is damaged at byte {}: records are missing at the end of the file.\n",
        end - 24
    );
    dir.run(&["store", "check", "data"]).failed(65, &expected);
    dir.run(&["store", "stat", "data"]).failed(65, &expected);
    let repaired = dir.run(&["store", "repair", "data", "--drop"]).succeeded();
    assert!(
        repaired.contains("The store goes on without them.\n"),
        "{repaired}"
    );
    assert_eq!(dir.run(&["store", "export", "data"]).succeeded(), EXPORT);
    // A second import is in a second file.
    import(&dir, WITH_EXPIRY).succeeded();
    std::fs::remove_file(dir.path().join("data/0000000002.log")).unwrap();
    let expected = "data/0000000002.log is damaged at byte 0: the file is missing.\n";
    dir.run(&["store", "check", "data"]).failed(65, expected);
}

#[test]
fn malformed_export_is_refused() {
    let dir = Dir::new();
    let get = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    import(&dir, get).failed(65, "expected SET KEY VALUE");
    import(&dir, &EXPORT[..20]).failed(65, "the last command is not complete");
    // The data that precede it are in the store, and the message says so.
    let first = format!("{EXPORT}{WITH_EXPIRY}");
    for rest in [get, &EXPORT[..20]] {
        let dir = Dir::new();
        import(&dir, &format!("{first}{rest}"))
            .failed(65, ".\nThe store has the first 2 entries.\n");
        let stat = dir.run(&["store", "stat", "data"]).succeeded();
        assert!(stat.contains("keys           2\n"), "{stat}");
    }
}

/// A file system of 4 MiB, which is unmounted with this value.
struct Small(PathBuf);

impl Small {
    fn mount(path: PathBuf) -> Self {
        std::fs::create_dir(&path).unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=4m", "loadline-store"];
        let mounted = Command::new("mount").args(mount).arg(&path).status();
        assert!(mounted.unwrap().success());
        Self(path)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn import_to_a_full_disk_says_what_it_has_stored() {
    use std::fmt::Write;
    if !rustix::process::geteuid().is_root() {
        let said = b"\n*** NOT TESTED: an import to a full disk, since that needs root\n";
        std::io::stderr().write_all(said).unwrap();
        return;
    }
    let dir = Dir::new();
    let _small = Small::mount(dir.path().join("data"));
    let mut text = String::new();
    for number in 1_000..9_000 {
        write!(text, "*3\r\n$3\r\nSET\r\n$4\r\n{number}\r\n$1000\r\n").unwrap();
        text.extend(std::iter::repeat_n('v', 1_000));
        text += "\r\n";
    }
    let ended = import(&dir, &text);
    ended.failed(69, "no room on the disk: No space left on device");
    let stored = ended.stderr.split("The store has the first ").nth(1);
    let stored: u32 = stored
        .unwrap()
        .strip_suffix(" entries.\n")
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        (1_000..8_000).contains(&stored) && stored.is_multiple_of(100),
        "{stored}"
    );
    let stat = dir.run(&["store", "stat", "data"]).succeeded();
    assert!(
        stat.contains(&format!("keys           {stored}\n")),
        "{stat}"
    );
    let checked = dir.run(&["store", "check", "data"]).succeeded();
    assert!(checked.contains(": sound\n"), "{checked}");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let dir = Dir::new();
    import(&dir, EXPORT).succeeded();
    for action in ["check", "stat", "export"] {
        let words = ["store", action, "data"];
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = dir.command(&words).stdout(full.unwrap()).output().unwrap();
        let reason = "Standard output could not be written: No space left on device";
        Ended::of(&words, output).failed(65, reason);
    }
}

#[test]
fn damaged_store_is_named_and_repaired() {
    let dir = Dir::new();
    for _ in 0..3 {
        import(&dir, EXPORT).succeeded();
    }
    let file = dir.path().join("data/0000000002.log");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[85] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let reason = "0000000002.log is damaged at byte 64: the record's checksum is wrong";
    dir.run(&["store", "check", "data"]).failed(65, reason);
    dir.run(&["store", "export", "data"]).failed(65, reason);
    let would = dir.run(&["store", "repair", "data"]).succeeded();
    assert!(
        would.contains("with 3 whole records, would be dropped by --drop"),
        "{would}"
    );
    dir.run(&["store", "check", "data"]).failed(65, reason);
    let dropped = dir.run(&["store", "repair", "data", "--drop"]).succeeded();
    assert!(
        dropped.contains("with 3 whole records, were dropped"),
        "{dropped}"
    );
    let exported = dir.run(&["store", "export", "data"]).succeeded();
    assert_eq!(exported, EXPORT);
}
