//! URLs of servers: whatever stands around a password, it is never shown.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_client::Config;

const SECRET: &str = "correct-horse-battery-staple";

fuzz_target!(|input: (bool, &str, &str)| {
    let (as_option, before, after) = input;
    if before.contains(SECRET) || after.contains(SECRET) {
        return;
    }
    look(&format!("{before}{after}"));
    let shown = if as_option {
        look(&format!("redis://h/0?{before}&password={SECRET}&{after}"))
    } else {
        look(&format!("redis://{}:{SECRET}@{after}", user(before)))
    };
    assert!(!shown.contains(SECRET), "{before:?} {after:?}: {shown}");
});

/// A user's name ends before anything else of a URL begins.
fn user(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).collect()
}

fn look(url: &str) -> String {
    match Config::from_url(url) {
        Ok(config) => format!("{config:?}"),
        Err(error) => format!("{error} {error:?}"),
    }
}
