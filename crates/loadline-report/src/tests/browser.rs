//! Pages in a real browser: headless Chromium with axe-core.
#![expect(
    clippy::disallowed_methods,
    reason = "a browser reads files; the room itself has none"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use loadline_measure::Record;
use serde_json::{Value, json};

use super::{capacity, engines, failover, fixture, flames, judgements, sweep, tiers};
use crate::html;

/// Flags of the browser, which fetches nothing and keeps nothing.
const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--virtual-time-budget=600000",
    "--dump-dom",
];
/// Seconds after which the browser counts as hung.
const PATIENCE: &str = "240";
/// A phone and a desktop, in CSS pixels.
const WIDTHS: [u32; 2] = [400, 1_200];
const INSTALL: &str = "`cargo xtask test --install` installs it";

/// A page with a fault of every kind that is looked for.
const PLANTED: &str = "<!DOCTYPE html><html lang=\"en\"><head><title>planted</title></head><body><main>\
    <h1>Planted</h1><img src=\"data:,\"><div style=\"width: 3000px\">wide</div>\
    <svg viewBox=\"0 0 100 50\" width=\"100\"><text x=\"5\" y=\"20\" font-size=\"9\">one</text>\
    <text x=\"8\" y=\"22\" font-size=\"12\">two</text><text x=\"95\" y=\"40\">beyond</text><polyline points=\"0,18 40,18\"/></svg>\
    <table><thead><tr><th>head</th></tr></thead><tbody><tr><td style=\"height: 300px\">tall</td></tr></tbody></table></main></body></html>";

fn records() -> Vec<(&'static str, Record)> {
    let mut judged = fixture::over_time();
    judged.judgement = Some(judgements::critical());
    vec![
        ("one target", fixture::one_target()),
        ("two targets over time", fixture::over_time()),
        ("judged", judged),
        ("troubled", fixture::troubled()),
        ("open loop", fixture::open_loop()),
        ("hostile", fixture::hostile()),
        ("empty", fixture::empty()),
        ("capacity", capacity::record()),
        ("hostile capacity", capacity::hostile()),
        ("sweep", sweep::record()),
        ("hostile sweep", sweep::hostile()),
        ("engines", engines::record()),
        ("hostile engines", engines::hostile()),
        ("tiers", tiers::record()),
        ("crowded tiers", tiers::crowded()),
        ("a cache under load", tiers::load()),
        ("a cache under load at a rate", tiers::load_at_a_rate()),
        ("hostile tiers", tiers::hostile()),
        ("failover", failover::record()),
        ("hostile failover", failover::hostile()),
        ("work", flames::record("slowlogPushEntry")),
    ]
}

/// The record as a page without its policy, which would keep the check out, in one colour scheme.
fn copy(record: &Record, dark: bool) -> String {
    let page = html(record);
    let (policy, scheme) = (
        "http-equiv=\"Content-Security-Policy\"",
        "(prefers-color-scheme: dark)",
    );
    assert!(page.contains(policy) && page.contains(scheme), "{page}");
    page.replace(policy, "name=\"policy\"")
        .replace(scheme, if dark { "all" } else { "not all" })
}

fn pages() -> Vec<Value> {
    let mut pages = vec![json!({ "name": "planted", "width": 400, "html": PLANTED })];
    for (name, record) in records() {
        for (width, dark) in WIDTHS.into_iter().zip([true, false]) {
            let scheme = if dark { "dark" } else { "light" };
            let name = format!("{name}, {width} px, {scheme}");
            pages.push(json!({ "name": name, "width": width, "html": copy(&record, dark) }));
        }
    }
    pages
}

/// The directory of builds, which this test runs from.
fn target() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().to_owned()
}

/// The page that holds the check, axe and all pages to check.
fn host(axe: &str) -> String {
    // No string ends the script that it is in.
    let source = |value: &Value| value.to_string().replace('<', "\\u003c");
    format!(
        "<!DOCTYPE html><html lang=\"en\"><body><script>const axeSource = {}; const pages = {};\n{}</script></body></html>",
        source(&json!(axe)),
        source(&json!(pages())),
        include_str!("browser.js")
    )
}

/// Problems that the browser found, page by page.
fn problems(dir: &Path) -> Vec<Vec<Value>> {
    let profile = format!("--user-data-dir={}", dir.join("profile").display());
    let url = format!("file://{}", dir.join("host.html").display());
    let ended = Command::new("timeout")
        .args([PATIENCE, "chromium"])
        .args(FLAGS)
        .args([&profile, &url])
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&ended.stdout);
    let said = String::from_utf8_lossy(&ended.stderr);
    let of = |id: &str| {
        let (_, rest) = dom.split_once(&format!("<pre id=\"{id}\">"))?;
        Some(rest.split_once("</pre>")?.0.to_owned())
    };
    let found = of("problems");
    let found = found.unwrap_or_else(|| panic!("the check did not end: {}\n{said}", ended.status));
    let found: Vec<Vec<Value>> = serde_json::from_str(&decoded(&found)).unwrap();
    let checked = of("checked").map(|count| count.parse::<usize>().unwrap());
    assert_eq!(checked, Some(pages().len()), "{found:#?}\n{said}");
    found
}

/// Percent-encoded text as it was.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(&tail[..2]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn axe_finds_nothing_and_no_label_covers_a_label_or_a_curve() {
    let axe = target().join("axe/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(&axe)
        .unwrap_or_else(|error| panic!("axe-core is not at {}: {error}; {INSTALL}", axe.display()));
    let has = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
    };
    assert!(has("chromium"), "chromium is not on PATH; {INSTALL}");
    let dir = target().join(format!("browser-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("host.html"), host(&axe)).unwrap();
    let problems = problems(&dir);
    std::fs::remove_dir_all(&dir).unwrap();
    let (planted, real): (Vec<_>, Vec<_>) = problems
        .into_iter()
        .partition(|problem| problem[0] == "planted");
    for fault in [
        "image-alt",
        "overflow",
        "overlap",
        "outside",
        "covers",
        "sizes",
        "tall",
    ] {
        assert!(
            planted.iter().any(|problem| problem[1] == fault),
            "{fault}: {planted:#?}"
        );
    }
    assert!(real.is_empty(), "{real:#?}");
}
