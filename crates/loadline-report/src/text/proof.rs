//! What a machine's verdicts are worth.

use loadline_measure::proof::{Proof, Share};
use loadline_measure::quantile;

use super::TextOptions;
use super::page::{Page, Style};
use crate::clean::plain;
use loadline_measure::words;

/// The proof as text, with a line feed at the end.
#[must_use]
pub fn proof(proof: &Proof) -> String {
    let mut page = Page::new(&TextOptions {
        width: 80,
        color: false,
        unicode: false,
    });
    let title = format!("Verdicts on this machine: {}", plain(&proof.scenario));
    page.wrapped(Style::Bold, "", "  ", &title);
    if proof.cut_short {
        let sentence = "CUT SHORT: this ended before its last comparison. What follows is what was compared until then.";
        page.wrapped(Style::Red, "", "  ", sentence);
    }
    page.gap();
    page.line(
        Style::Dim,
        &format!(
            "{:<25} {:>8} {:>14} {:>14} {:>14}",
            "planted", "measured", "p50 slower", "p99 slower", "exit 1 or 2"
        ),
    );
    for kind in &proof.kinds {
        let name = if kind.planted == 0.0 {
            "nothing (A against A)".to_owned()
        } else {
            format!("{:+} % {}", hundredths(kind.planted), plain(&kind.what))
        };
        let measured = kind.measured().map_or_else(
            || "-".to_owned(),
            |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0),
        );
        page.line(
            Style::Plain,
            &format!(
                "{name:<25} {measured:>8} {:>14} {:>14} {:>14}",
                counted(kind.found()),
                kind.tails_found().map_or_else(|| "-".to_owned(), counted),
                counted(kind.alarms())
            ),
        );
    }
    page.wrapped(
        Style::Dim,
        "",
        "  ",
        "In brackets the 95 % interval of the share in percent (Clopper-Pearson). p99 is the corrected one: of one operation at a time, without the waiting for a CPU.",
    );
    times(&mut page, proof);
    drawn(&mut page, proof);
    page.into_text()
}

/// How long a verdict takes.
fn times(page: &mut Page, proof: &Proof) {
    let trials = proof.kinds.iter().flat_map(|kind| &kind.trials);
    let times: Vec<f64> = trials.map(|trial| trial.duration_ns as f64).collect();
    let (Some(median), Some(longest)) = (quantile::median(&times), quantile::quantile(&times, 1.0))
    else {
        return;
    };
    page.gap();
    page.wrapped(
        Style::Plain,
        "",
        "  ",
        &format!(
            "A verdict takes {}, {} at most ({} comparison{}).",
            words::duration(median),
            words::duration(longest),
            times.len(),
            if times.len() == 1 { "" } else { "s" }
        ),
    );
}

fn drawn(page: &mut Page, proof: &Proof) {
    if proof.drawn.is_empty() {
        return;
    }
    page.gap();
    page.wrapped(
        Style::Bold,
        "",
        "  ",
        "Drawn from the noise of these comparisons (rounds with replacement, runs without)",
    );
    for drawn in &proof.drawn {
        let what = if drawn.planted == 0.0 {
            format!("false alarms in suites of {} cases", drawn.cases)
        } else {
            format!("{:+} % on p50 found", hundredths(drawn.planted))
        };
        let share = drawn.alarms;
        let bounds = share.interval_95();
        page.wrapped(
            Style::Plain,
            "  ",
            "    ",
            &format!(
                "{}, {what}: {} of {}, {} [{}, {}]",
                plain(&drawn.method),
                share.hits,
                share.of,
                words::percent(share.value()),
                words::percent(bounds.lo),
                words::percent(bounds.hi)
            ),
        );
    }
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
