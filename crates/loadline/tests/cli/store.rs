//! `loadline store`, on the directory of a real store.

use std::io::Write;
use std::process::Stdio;

use crate::util::{Dir, Ended};

const EXPORT: &str = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n";
const WITH_EXPIRY: &str =
    "*5\r\n$3\r\nSET\r\n$1\r\nl\r\n$0\r\n\r\n$4\r\nPXAT\r\n$14\r\n99999999999999\r\n";

fn import(dir: &Dir, text: &str) -> Ended {
    let words = ["store", "import", "data"];
    let mut child = dir
        .command(&words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    Ended::of(&words, child.wait_with_output().unwrap())
}

#[test]
fn a_store_is_imported_checked_compacted_and_exported() {
    let dir = Dir::new();
    dir.run(&["store", "check", "data"])
        .failed(69, "there is no store here");
    let text = format!("{EXPORT}{EXPORT}{WITH_EXPIRY}");
    assert_eq!(import(&dir, &text).succeeded(), "3 entries.\n");
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

#[test]
fn what_is_no_export_is_refused() {
    let dir = Dir::new();
    import(&dir, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n").failed(65, "expected SET KEY VALUE");
    import(&dir, &EXPORT[..20]).failed(65, "the last command is not complete");
}

#[test]
fn a_damaged_store_is_named_and_repaired() {
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
