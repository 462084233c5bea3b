//! The section about the reliability of a machine's verdicts.

use loadline_measure::proof::{Kind, Proof, Share, WorkKind};
use loadline_measure::{quantile, words};

use crate::document::{
    Block, Cell, CheckResult, Column, Document, Item, Row, RowGroup, Section, Table, Tone, Verdict,
};

/// The document of a proof.
pub(crate) fn proof(proof: &Proof) -> Document {
    let legend = "In brackets the 95 % interval of the share in percent (Clopper-Pearson). p99 is the corrected one: of one operation at a time, without the waiting for a CPU.";
    let mut blocks = Vec::new();
    if !proof.kinds.is_empty() {
        blocks.push(Block::Table(table(proof)));
        blocks.push(Block::Sentence(Tone::Faint, legend.to_owned()));
    }
    let trials = proof.kinds.iter().flat_map(|kind| &kind.trials);
    let timed = times(trials.map(|trial| trial.duration_ns));
    blocks.extend(timed.map(|text| Block::Sentence(Tone::Plain, text)));
    let drawn = proof.drawn.iter().map(|drawn| {
        let what = if drawn.planted == 0.0 {
            format!("false alarms in suites of {} cases", drawn.cases)
        } else {
            format!("{:+} % on p50 found", hundredths(drawn.planted))
        };
        let (share, bounds) = (drawn.alarms, drawn.alarms.interval_95());
        let text = format!(
            "{what}: {} of {}, {} [{}, {}]",
            share.hits,
            share.of,
            words::percent(share.value()),
            words::percent(bounds.lo),
            words::percent(bounds.hi)
        );
        Item::new(Tone::Plain, text).labelled(&drawn.method)
    });
    let heading =
        "Resampled from the noise of these comparisons (rounds with replacement, runs without)";
    let sections = [
        Section::new("Comparisons", blocks),
        Section::new("Work", work(proof)),
        Section::new(heading, vec![Block::List(drawn.collect())]),
    ];
    Document {
        title: format!("Verdicts on this machine: {}", proof.scenario),
        verdict: verdict(proof),
        sections: sections.into_iter().flatten().collect(),
        timestamp: proof.started_at.clone(),
        last: None,
    }
}

/// False alarms, and how much of the injected slowdowns was found.
fn verdict(proof: &Proof) -> Verdict {
    let counted = |kinds: Vec<&Kind>, of: fn(&Kind) -> Share| {
        let shares = kinds.into_iter().map(of);
        shares.fold((0, 0), |all, share| (all.0 + share.hits, all.1 + share.of))
    };
    let (nothing, slower): (Vec<&Kind>, Vec<&Kind>) =
        proof.kinds.iter().partition(|kind| kind.planted == 0.0);
    let (alarms, same) = counted(nothing, Kind::alarms);
    let (found, planted) = counted(slower, Kind::alarms);
    let work_of = |kinds: Vec<&WorkKind>| {
        let shares = kinds.into_iter().map(WorkKind::found);
        shares.fold((0, 0), |all, share| (all.0 + share.hits, all.1 + share.of))
    };
    let (equal, more): (Vec<&WorkKind>, Vec<&WorkKind>) =
        proof.work.iter().partition(|kind| kind.injected == 0.0);
    let (differing, equal) = work_of(equal);
    let (seen, injected) = work_of(more);
    let mut sentences = Vec::new();
    if same + planted > 0 {
        sentences.push(format!(
            "On this machine {alarms} of {same} comparisons of the same server raised a false alarm, and {found} of {planted} injected slowdowns were found ({}).",
            proof.scenario
        ));
    }
    if equal + injected > 0 {
        sentences.push(format!(
            "Instructions per operation: {differing} of {equal} comparisons of the same server found a difference, and {seen} of {injected} found the injected work."
        ));
    }
    let sentence = sentences.join(" ");
    let tone = if (alarms, differing) == (0, 0) && (found, seen) == (planted, injected) {
        Tone::Good
    } else {
        Tone::Warn
    };
    if proof.cut_short {
        return Verdict {
            result: CheckResult::Error,
            tone: Tone::Bad,
            sentence: format!("Cut short: an interrupt ended the proof. Until then: {sentence}"),
        };
    }
    Verdict {
        result: CheckResult::Passed,
        tone,
        sentence,
    }
}

fn table(proof: &Proof) -> Table {
    let columns = vec![
        Column::text("injected", 0),
        Column::figure("measured", 0),
        Column::figure("p50 slower", 0),
        Column::figure("p99 slower", 0),
        Column::figure("exit 1 or 2", 0),
    ];
    let rows = proof.kinds.iter().map(|kind| {
        let name = if kind.planted == 0.0 {
            "nothing (A against A)".to_owned()
        } else {
            format!("{:+} % {}", hundredths(kind.planted), kind.what)
        };
        let measured = kind.measured().map_or_else(
            || "-".to_owned(),
            |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0),
        );
        let tails = kind.tails_found().map_or_else(|| "-".to_owned(), counted);
        let (found, alarms) = (counted(kind.found()), counted(kind.alarms()));
        Row {
            cells: [name, measured, found, tails, alarms]
                .map(Cell::from)
                .into(),
            ..Row::default()
        }
    });
    Table {
        caption: "Verdicts on injected slowdowns".to_owned(),
        columns,
        groups: vec![RowGroup {
            title: String::new(),
            rows: rows.collect(),
        }],
    }
}

/// The verdicts on instructions per operation; nothing if they were not counted.
fn work(proof: &Proof) -> Vec<Block> {
    let trials = || proof.work.iter().flat_map(|kind| &kind.trials);
    let Some(times) = times(trials().map(|trial| trial.duration_ns)) else {
        return Vec::new();
    };
    let columns = vec![
        Column::text("injected", 0),
        Column::figure("measured", 0),
        Column::figure("found", 0),
        Column::figure("named first", 0),
        Column::figure("exit 1 or 2", 0),
    ];
    let rows = proof.work.iter().map(|kind| {
        let is_none = kind.injected == 0.0;
        let name = if is_none {
            "nothing (A against A)".to_owned()
        } else {
            format!("{:+} % instructions", hundredths(kind.injected))
        };
        let measured = kind.measured().map_or_else(
            || "-".to_owned(),
            |ratio| format!("{:+.2} %", (ratio - 1.0) * 100.0),
        );
        let named = if is_none {
            "-".to_owned()
        } else {
            counted(kind.named_first(&proof.work_function))
        };
        let (found, alarms) = (counted(kind.found()), counted(kind.alarms()));
        Row {
            cells: [name, measured, found, named, alarms]
                .map(Cell::from)
                .into(),
            ..Row::default()
        }
    });
    let legend = "Verdicts on instructions per operation, counted in passes and not timed. Found: more work, or any difference if nothing was injected. Named first: the function with the injected work leads the list of functions. A warning begins at 2 %.";
    let uncounted: Vec<&String> = trials()
        .filter_map(|trial| trial.not_counted.as_ref())
        .collect();
    let uncounted = uncounted.last().map(|why| {
        let text = format!(
            "{} of {} comparisons have no count and found nothing. The last reason: {why}",
            uncounted.len(),
            trials().count()
        );
        Block::Sentence(Tone::Warn, text)
    });
    let mut blocks = vec![
        Block::Table(Table {
            caption: "Verdicts on injected work".to_owned(),
            columns,
            groups: vec![RowGroup {
                title: String::new(),
                rows: rows.collect(),
            }],
        }),
        Block::Sentence(Tone::Faint, legend.to_owned()),
        Block::Sentence(Tone::Plain, times),
    ];
    blocks.extend(uncounted);
    blocks
}

/// Time of a verdict; `None` without a comparison.
fn times(durations_ns: impl Iterator<Item = u64>) -> Option<String> {
    let times: Vec<f64> = durations_ns.map(|duration| duration as f64).collect();
    let longest = times.iter().copied().reduce(f64::max)?;
    Some(format!(
        "A verdict takes {}, {} at most ({}).",
        words::duration(quantile::median(&times)?),
        words::duration(longest),
        words::plural(times.len() as u64, "comparison")
    ))
}

/// A share in percent, to a hundredth.
fn hundredths(share: f64) -> f64 {
    (share * 10_000.0).round() / 100.0
}

/// `5/5 [48, 100]`.
fn counted(share: Share) -> String {
    let bounds = share.interval_95();
    format!(
        "{}/{} [{:.0}, {:.0}]",
        share.hits,
        share.of,
        bounds.lo * 100.0,
        bounds.hi * 100.0
    )
}
