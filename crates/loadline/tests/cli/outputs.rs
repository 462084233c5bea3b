//! Files that remain of a measurement when one of them cannot be written, and the last line of each command.

use crate::util::{Dir, Ended};

const SHORT: &str = "--workload get --ops 2k --rounds 1 --connections 2 --keys 100";

#[test]
fn file_that_cannot_be_written_loses_neither_the_table_nor_the_other_files() {
    let dir = Dir::new();
    let words = format!("run embedded {SHORT} --json /dev/full --csv out.csv --html out.html");
    let ended = dir.run(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(ended.code, Some(65), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("/dev/full could not be written: No space left on device"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stdout.contains("GET") || ended.stdout.contains("get"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.ends_with("\nloadline: run: failed (65)\n"),
        "{}",
        ended.stdout
    );
    assert!(dir.read("out.csv").lines().count() > 1);
    assert!(dir.read("out.html").contains("</html>"));
}

#[test]
fn standard_output_that_cannot_be_written_loses_no_file() {
    let dir = Dir::new();
    let words = format!("run embedded {SHORT} --json out.json");
    let words: Vec<&str> = words.split(' ').collect();
    let mut command = dir.command(&words);
    let full = std::fs::File::options().write(true).open("/dev/full");
    let output = command.stdout(full.unwrap()).output().unwrap();
    let ended = Ended::of(&words, output);
    assert_eq!(ended.code, Some(65), "{}", ended.stderr);
    let reason = "Standard output could not be written: No space left on device";
    assert!(ended.stderr.contains(reason), "{}", ended.stderr);
    assert!(
        ended.stderr.ends_with("\nloadline: run: failed (65)\n"),
        "{}",
        ended.stderr
    );
    assert!(dir.read("out.json").contains("loadline.record/1"));
}

#[test]
fn paths_are_tried_before_anything_is_measured() {
    let dir = Dir::new();
    // Everything is allowed to root there, and no file can be made.
    let words = format!("run embedded {SHORT} --json /proc/out.json");
    let ended = dir.run(&words.split(' ').collect::<Vec<_>>());
    ended.failed(64, "/proc/out.json cannot be written: ");
}

#[test]
fn every_command_that_measures_closes_with_one_line() {
    let dir = Dir::new();
    let words = format!("run embedded {SHORT} --json -");
    let ended = dir.run(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().last(), Some("loadline: run: done (0)"));
    let words = "modes embedded --mode sync,pipeline --op get --ops 10 --latency 0 --sizes 2 --keys 10 --budget 20ms --instructions off";
    let ended = dir.run(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(
        ended.stdout.lines().last(),
        Some("loadline: modes: done (0)"),
        "{}",
        ended.stderr
    );
}
