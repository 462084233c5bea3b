//! The pictures of the text report: how the response times of each case are spread, and how its
//! throughput went from round to round.

use loadline_measure::Histogram;
use loadline_measure::record::Case;

use super::page::{Page, Style};
use crate::clean::{columns, shortened};
use crate::picture;
use crate::view::{self, Group};
use loadline_measure::words;

/// A sparkline of rounds is at most this wide.
const MOST_SPARK: usize = 20;
/// A spectrum narrower than this shows nothing, one wider than this no more.
const SPECTRUM: (usize, usize) = (10, 60);

/// How wide the parts of a line are.
struct Widths {
    name: usize,
    spectrum: usize,
    /// `None` where there is no room for the rounds beside the spectrum.
    spark: Option<usize>,
}

/// The response times of all cases of a group on one axis.
struct Spectra {
    from_ns: u64,
    to_ns: u64,
    pictures: Vec<String>,
}

/// Draws what was kept: groups without histograms are left out.
pub(super) fn draw(page: &mut Page, groups: &[Group<'_>]) {
    let shared = view::shared_conditions(groups);
    let widths = Widths::fit(groups, &shared, page.width());
    let mut titled = false;
    for group in groups {
        let Some(spectra) = Spectra::of(group, widths.spectrum) else {
            continue;
        };
        if !titled {
            page.gap();
            let rounds = if widths.spark.is_some() {
                ", and throughput by round"
            } else {
                ""
            };
            page.line(
                Style::Bold,
                &format!("Response times on a log scale{rounds}"),
            );
            titled = true;
        }
        let title = filled(&view::title(group, &shared), widths.name);
        page.line(
            Style::Dim,
            &format!("{title}  {}", spectra.axis(widths.spectrum)),
        );
        for (row, spectrum) in group.rows.iter().zip(&spectra.pictures) {
            let name = filled(&row.name, widths.name - 2);
            let rounds = widths
                .spark
                .map(|width| rounds(row.case, width))
                .unwrap_or_default();
            page.line(Style::Plain, &format!("  {name}  {spectrum}  {rounds}"));
        }
    }
}

impl Widths {
    /// Names and rounds get what they need within limits; the spectrum gets the rest.
    fn fit(groups: &[Group<'_>], shared: &[String], width: usize) -> Self {
        let titles = groups
            .iter()
            .map(|group| columns(&view::title(group, shared)));
        let rows = || groups.iter().flat_map(|group| &group.rows);
        let names = rows().map(|row| columns(&row.name) + 2);
        let name = titles
            .chain(names)
            .max()
            .unwrap_or(0)
            .clamp(12, (width / 3).max(12));
        let spark = rows()
            .map(|row| row.case.rounds.len())
            .max()
            .unwrap_or(0)
            .min(MOST_SPARK);
        let range = rows()
            .map(|row| columns(&range(row.case)))
            .max()
            .unwrap_or(0);
        let without = width.saturating_sub(name + 2);
        let with = without.saturating_sub(spark + range + 3);
        let (spark, rest) = if with < SPECTRUM.0 {
            (None, without)
        } else {
            (Some(spark), with)
        };
        Self {
            name,
            spectrum: rest.clamp(SPECTRUM.0, SPECTRUM.1),
            spark,
        }
    }
}

impl Spectra {
    /// `None` where no case has kept its histogram. One that cannot be read is shown as none.
    fn of(group: &Group<'_>, bins: usize) -> Option<Self> {
        let kept: Vec<Option<Histogram>> = group
            .rows
            .iter()
            .map(|row| row.case.response_histogram().ok().flatten())
            .collect();
        let ends = kept
            .iter()
            .flatten()
            .filter_map(|kept| kept.value_at(0.0).zip(kept.value_at(1.0)));
        let (from_ns, to_ns) =
            ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
        let picture = |kept: &Option<Histogram>| match kept {
            Some(kept) => picture::spectrum(&kept.log_bins(from_ns, to_ns, bins)),
            None => " ".repeat(bins),
        };
        Some(Self {
            from_ns,
            to_ns,
            pictures: kept.iter().map(picture).collect(),
        })
    }

    /// The two ends of the axis, at its two ends.
    fn axis(&self, bins: usize) -> String {
        let (from, to) = (
            words::duration(self.from_ns as f64),
            words::duration(self.to_ns as f64),
        );
        let between = bins.saturating_sub(columns(&from) + columns(&to)).max(1);
        format!("{from}{}{to}", " ".repeat(between))
    }
}

/// The throughput of the rounds: a sparkline and its range.
fn rounds(case: &Case, width: usize) -> String {
    let rates: Vec<f64> = case
        .rounds
        .iter()
        .map(|round| round.throughput_ops_per_s)
        .collect();
    let line = picture::sparkline(&rates, width);
    format!("{} {}", filled(&line, width), range(case))
}

/// The least and the most throughput of a round; empty without rounds.
fn range(case: &Case) -> String {
    let rates = || case.rounds.iter().map(|round| round.throughput_ops_per_s);
    let ends = rates().reduce(f64::min).zip(rates().reduce(f64::max));
    ends.map(|(least, most)| format!("{} to {}", words::count(least), words::count(most)))
        .unwrap_or_default()
}

/// The text cut or filled to exactly `width` columns.
fn filled(text: &str, width: usize) -> String {
    let text = shortened(text, width);
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(&text))))
}
