//! The table of the text report: one row per case, columns aligned over all scenarios.

use loadline_measure::LatencySummary;
use loadline_measure::record::Comparison;

use super::page::Style;
use super::style_of;
use crate::clean::{columns, shortened};
use crate::view::{self, Group, Row};
use loadline_measure::words;

/// Throughput, three percentiles, CPU.
const FIGURES: usize = 5;
const HEADERS: [&str; FIGURES] = ["ops/s", "p50", "p99", "p99.9", "CPU us/op"];
/// Names are not cut below this.
const LEAST_NAME: usize = 12;
/// Names are cut beyond this, whatever the width.
const MOST_NAME: usize = 40;

/// The widths of the columns.
pub(super) struct Table {
    name: usize,
    figures: [usize; FIGURES],
    /// How many columns of figures there is room for.
    shown: usize,
    /// `None` where there are no ratios, or no room for them.
    ratio: Option<usize>,
    ratio_header: String,
    gap: usize,
}

impl Table {
    /// The widest layout that fits. First the gaps shrink, then the names; then the ratios leave the
    /// table, and at last the rightmost figures.
    pub(super) fn fit(groups: &[Group<'_>], width: usize) -> Self {
        let rows: Vec<&Row<'_>> = groups.iter().flat_map(|group| &group.rows).collect();
        let mut figures = HEADERS.map(columns);
        for row in &rows {
            let cells = cells(row)
                .into_iter()
                .chain(times(&row.case.service_time_ns))
                .chain(row.case.lag_ns.iter().flat_map(times));
            for (place, cell) in cells.enumerate() {
                // After the row's own figures come times, which stand below the percentiles.
                let column = if place < FIGURES {
                    place
                } else {
                    1 + (place - FIGURES) % 3
                };
                figures[column] = figures[column].max(columns(&cell));
            }
        }
        let ratios = rows
            .iter()
            .filter_map(|row| throughput(row))
            .map(|comparison| columns(&view::comparison(comparison)));
        let mut besides: Vec<&str> = rows
            .iter()
            .filter_map(|row| row.beside.as_deref())
            .collect();
        besides.dedup();
        let ratio_header = match besides[..] {
            [beside] => format!("vs {}", shortened(beside, 15)),
            _ => "ratio".to_owned(),
        };
        let names = rows
            .iter()
            .map(|row| columns(&row.name))
            .chain(groups.iter().filter(|group| group.open_loop).map(|_| 15));
        let name = names.max().unwrap_or(0).clamp(LEAST_NAME, MOST_NAME);
        let ratio = ratios.max().map(|ratio| ratio.max(columns(&ratio_header)));
        Self {
            name,
            figures,
            shown: FIGURES,
            ratio,
            ratio_header,
            gap: 2,
        }
        .shrunk(width)
    }

    pub(super) fn shows_ratios(&self) -> bool {
        self.ratio.is_some()
    }

    pub(super) fn header(&self) -> String {
        let mut line = " ".repeat(self.name);
        for (header, width) in HEADERS.iter().zip(self.figures).take(self.shown) {
            line.push_str(&self.right(header, width));
        }
        if self.ratio.is_some() {
            line.push_str(&format!("{}{}", " ".repeat(self.gap), self.ratio_header));
        }
        line
    }

    pub(super) fn row(&self, row: &Row<'_>) -> Vec<(Style, String)> {
        let mut pieces = vec![(Style::Plain, self.name(&row.name))];
        for (cell, width) in cells(row).iter().zip(self.figures).take(self.shown) {
            let style = if cell == words::TOO_FEW {
                Style::Dim
            } else {
                Style::Plain
            };
            pieces.push((style, self.right(cell, width)));
        }
        if let Some(comparison) = self.ratio.and(throughput(row)) {
            pieces.push((Style::Plain, " ".repeat(self.gap)));
            pieces.push((style_of(comparison.verdict), view::comparison(comparison)));
        }
        pieces
    }

    /// The figures of a row that there is no room for in the table, by name.
    pub(super) fn beneath(&self, row: &Row<'_>) -> Option<String> {
        let left = HEADERS.iter().zip(cells(row)).skip(self.shown);
        let left: Vec<String> = left.map(|(name, cell)| format!("{name} {cell}")).collect();
        (!left.is_empty()).then(|| left.join(", "))
    }

    /// A row that has only times, below the percentiles of the row before.
    pub(super) fn times(&self, label: &str, summary: &LatencySummary) -> String {
        let mut line = self.name(label) + &self.right("", self.figures[0]);
        for (cell, width) in times(summary).iter().zip(&self.figures[1..self.shown]) {
            line.push_str(&self.right(cell, *width));
        }
        line
    }

    fn shrunk(mut self, width: usize) -> Self {
        if self.total() > width {
            self.gap = 1;
        }
        let over = self.total().saturating_sub(width);
        if self.ratio.is_some() && self.name.saturating_sub(over) < LEAST_NAME {
            self.ratio = None;
        }
        let over = self.total().saturating_sub(width);
        self.name = self
            .name
            .saturating_sub(over)
            .max(LEAST_NAME.min(self.name));
        // The throughput and the median stay.
        while self.total() > width && self.shown > 2 {
            self.shown -= 1;
        }
        self
    }

    fn total(&self) -> usize {
        let ratio = self.ratio.map_or(0, |ratio| ratio + self.gap);
        self.name
            + self
                .figures
                .iter()
                .take(self.shown)
                .map(|figure| figure + self.gap)
                .sum::<usize>()
            + ratio
    }

    fn name(&self, name: &str) -> String {
        let name = shortened(name, self.name);
        format!("{name}{}", " ".repeat(self.name - columns(&name)))
    }

    fn right(&self, cell: &str, width: usize) -> String {
        format!(
            "{}{cell}",
            " ".repeat(self.gap + width.saturating_sub(columns(cell)))
        )
    }
}

fn cells(row: &Row<'_>) -> [String; FIGURES] {
    let case = row.case;
    let [p50, p99, p999] = times(&case.response_time_ns);
    let cost = &case.cost;
    let cpu = match (cost.client_cpu_ns_per_op, cost.server_cpu_ns_per_op) {
        (None, None) => "-".to_owned(),
        (client, server) => format!("{}+{}", words::cpu_us(client), words::cpu_us(server)),
    };
    [words::count(case.throughput_ops_per_s), p50, p99, p999, cpu]
}

fn times(summary: &LatencySummary) -> [String; 3] {
    [summary.p50, summary.p99, summary.p999].map(words::percentile)
}

fn throughput<'r>(row: &Row<'r>) -> Option<&'r Comparison> {
    row.comparisons
        .first()
        .copied()
        .filter(|comparison| view::metric(comparison) == "throughput")
}
