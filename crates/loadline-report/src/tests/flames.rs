//! Flame graphs in a page.

use loadline_measure::Record;
use loadline_measure::gate::{Judged, Thresholds};
use loadline_measure::work::{Frame, Pass, Source, Work};

use super::fixture;
use crate::{html, markdown};

fn frame(name: &str, parent: Option<u32>, own: f64) -> Frame {
    Frame {
        name: name.to_owned(),
        parent,
        own,
    }
}

fn work(instructions: u64, frames: Vec<Frame>) -> Work {
    let pass = Pass {
        ops: 1_000,
        instructions: instructions * 1_000,
        ..Pass::default()
    };
    Work {
        source: Source::Callgrind,
        tool: "valgrind-3.19.0".to_owned(),
        cpu: "x86_64 avx2".to_owned(),
        executable_sha1: None,
        fixed_randomness: true,
        passes: vec![pass; 3],
        functions: Vec::new(),
        frames,
    }
}

/// Two servers, of which the second executes 60 % more, in a function called `added`.
pub(super) fn record(added: &str) -> Record {
    let mut record = fixture::two_targets();
    let common = || {
        vec![
            frame("main", None, 100.0),
            frame("processCommand", Some(0), 900.0),
            frame("lookupKey", Some(1), 1_000.0),
        ]
    };
    let mut more = common();
    more.push(frame(added, Some(1), 1_200.0));
    record.cases[0].work = Some(work(2_000, common()));
    record.cases[1].work = Some(work(3_200, more));
    record.judgement = Some(crate::judgement(Judged::of_comparisons(
        &record,
        &Thresholds::default(),
    )));
    record
}

#[test]
fn change_of_work_is_drawn_and_nothing_else_is() {
    let page = html(&record("slowlogPushEntry"));
    assert_eq!(page.matches("<svg class=\"flame\"").count(), 1, "{page}");
    assert!(page.contains("Where the instructions go"));
    // Beyond the names: red for what was added, and a title for who reads with a pointer.
    assert!(page.contains("slowlogPushEntry"), "{page}");
    let plain = markdown(&record("slowlogPushEntry"));
    assert!(!plain.contains("Where the instructions go"), "{plain}");
    let mut same = record("slowlogPushEntry");
    same.cases[1].work = same.cases[0].work.clone();
    same.judgement = Some(crate::judgement(Judged::of_comparisons(
        &same,
        &Thresholds::default(),
    )));
    assert!(!html(&same).contains("<svg class=\"flame\""));
}

/// The graph is part of a page that has a style of its own, and forbids scripts.
#[test]
fn graph_brings_no_style_no_script_and_no_markup_of_names() {
    let evil = "</title><script>alert(1)</script><style>p{}</style>;\n\x1b[31m id=\"x\" url(#y)";
    let page = html(&record(evil));
    assert!(page.contains("<svg class=\"flame\""), "{page}");
    assert_eq!(page.matches("<style").count(), 1);
    assert!(!page.contains("<script") && !page.contains('\x1b'));
    // The background is that of the page, in both colour schemes.
    assert!(!page.contains("Gradient"), "{page}");
    let begin = page.find("<svg class=\"flame\"").unwrap();
    let (graph, _) = page[begin..].split_once("</div>").unwrap();
    let graph = roxmltree::Document::parse(graph).unwrap();
    let ids = graph.descendants().filter_map(|node| node.attribute("id"));
    assert!(
        ids.clone().all(|id| id.starts_with("flame1-")),
        "{:?}",
        ids.collect::<Vec<_>>()
    );
}
