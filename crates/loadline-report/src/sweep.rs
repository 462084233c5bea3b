//! A sweep over ways of calling, as every renderer shows it: settings, modes, counts, and sizes.

use loadline_measure::record::{Case, LeftOut, Link, Record};

use crate::clean::plain;
use crate::view;
use loadline_measure::words;

/// What stands below the tables.
pub(crate) const LEGEND: &str = "Times are those of all operations of a column; ~ is extrapolated from as many as the budget of a cell allowed. Operations per second, quantiles and CPU (microseconds of the client) are those of the highest count that was measured, per operation: in a call of many, each takes as long as the call.";
/// Within this share of the most, a smaller size is as good.
const AS_GOOD: f64 = 0.05;

/// Whether the record holds a sweep.
pub(crate) fn is_sweep(record: &Record) -> bool {
    record
        .cases
        .iter()
        .any(|case| case.scenario.ops_asked.is_some())
}

/// One operation, with its codec, under one latency.
pub(crate) struct Setting<'r> {
    pub(crate) workload: &'r str,
    pub(crate) codec: Option<&'r str>,
    pub(crate) latency_ns: u64,
    /// What added the latency.
    pub(crate) link: Option<&'r Link>,
    pub(crate) modes: Vec<Mode<'r>>,
    pub(crate) left_out: Vec<&'r LeftOut>,
    pub(crate) curves: Vec<Curve<'r>>,
}

/// One way of calling over all counts.
pub(crate) struct Mode<'r> {
    pub(crate) name: &'r str,
    cells: Vec<&'r Case>,
    /// The cell of the highest count: what is extrapolated comes from it, and so do the figures
    /// that do not depend on the count.
    pub(crate) largest: &'r Case,
}

/// Throughput by size.
pub(crate) struct Curve<'r> {
    pub(crate) mode: &'r str,
    /// Ascending by size; never empty.
    pub(crate) cells: Vec<&'r Case>,
    /// The smallest size that is as good as the best.
    pub(crate) knee: &'r Case,
}

/// How long all operations of a cell take.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Total {
    pub(crate) seconds: f64,
    pub(crate) extrapolated: bool,
}

/// Operations per second in the words of a table; `-` where it is none.
pub(crate) fn rate(ops_per_s: f64) -> String {
    if is_rate(ops_per_s) {
        words::count(ops_per_s)
    } else {
        "-".into()
    }
}

fn is_rate(ops_per_s: f64) -> bool {
    (f64::MIN_POSITIVE..1e13).contains(&ops_per_s)
}

/// The counts of the sweep, ascending.
pub(crate) fn counts(record: &Record) -> Vec<u64> {
    let asked = record
        .cases
        .iter()
        .filter_map(|case| case.scenario.ops_asked);
    let mut counts: Vec<u64> = asked.collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// The settings in the order in which they were measured.
pub(crate) fn settings(record: &Record) -> Vec<Setting<'_>> {
    let key = |case: &Case| {
        let scenario = &case.scenario;
        (
            scenario.latency_ns,
            scenario.workload.clone(),
            scenario.codec.clone(),
        )
    };
    let mut keys = Vec::new();
    for case in &record.cases {
        if !keys.contains(&key(case)) {
            keys.push(key(case));
        }
    }
    keys.iter()
        .filter_map(|wanted| {
            let here: Vec<&Case> = record
                .cases
                .iter()
                .filter(|case| key(case) == *wanted)
                .collect();
            setting(record, &here)
        })
        .collect()
}

fn setting<'r>(record: &'r Record, here: &[&'r Case]) -> Option<Setting<'r>> {
    let scenario = &here.first()?.scenario;
    let mut names: Vec<&'r str> = Vec::new();
    for case in here {
        if !names.contains(&case.scenario.mode.as_str()) {
            names.push(case.scenario.mode.as_str());
        }
    }
    let modes = names.iter().filter_map(|name| {
        let cells: Vec<&Case> = of_mode(here, name)
            .filter(|case| case.scenario.ops_asked.is_some())
            .collect();
        let largest = cells.iter().max_by_key(|case| case.scenario.ops_asked)?;
        Some(Mode {
            name,
            largest,
            cells,
        })
    });
    let curves = names.iter().filter_map(|name| {
        let mut cells: Vec<&Case> = of_mode(here, name)
            .filter(|case| case.scenario.ops_asked.is_none() && is_rate(case.throughput_ops_per_s))
            .collect();
        cells.sort_by_key(|case| case.scenario.batch);
        let most = cells
            .iter()
            .map(|case| case.throughput_ops_per_s)
            .fold(0.0, f64::max);
        let knee = cells
            .iter()
            .find(|case| case.throughput_ops_per_s >= (1.0 - AS_GOOD) * most)?;
        Some(Curve {
            mode: name,
            knee,
            cells,
        })
    });
    Some(Setting {
        workload: &scenario.workload,
        codec: scenario.codec.as_deref(),
        latency_ns: scenario.latency_ns,
        link: record
            .links
            .iter()
            .find(|link| link.latency_ns == scenario.latency_ns),
        modes: modes.collect(),
        left_out: record
            .left_out
            .iter()
            .filter(|left_out| left_out.workload == scenario.workload)
            .collect(),
        curves: curves.collect(),
    })
}

fn of_mode<'r>(here: &[&'r Case], mode: &str) -> impl Iterator<Item = &'r Case> {
    here.iter()
        .copied()
        .filter(move |case| case.scenario.mode.as_str() == mode)
}

impl<'r> Setting<'r> {
    /// What was called, and under what.
    pub(crate) fn title(&self) -> String {
        let mut title = plain(self.workload).into_owned();
        if let Some(codec) = self.codec {
            title += &format!(" as {}", plain(codec));
        }
        match self.link {
            None if self.latency_ns == 0 => format!("{title}, no added latency"),
            None => format!("{title}, {} added", words::span(self.latency_ns)),
            Some(link) => format!(
                "{title}, {} added by {}",
                words::span(self.latency_ns),
                plain(link.class.as_str())
            ),
        }
    }

    /// What the link really does, as it measured itself.
    pub(crate) fn accuracy(&self) -> Option<String> {
        self.link.map(view::path)
    }

    /// What the codec of the values costs, over all modes.
    pub(crate) fn codec_cost(&self) -> Option<String> {
        let codec = self.codec?;
        let cells = || self.modes.iter().map(|mode| mode.largest);
        let mean = |of: fn(&Case) -> Option<u64>| {
            let known = cells().filter_map(|case| Some((of(case)? as f64, case.ops as f64)));
            let (sum, ops) = known.fold((0.0, 0.0), |(sum, all), (ns, ops)| {
                (sum + ns * ops, all + ops)
            });
            (ops > 0.0).then(|| words::duration(sum / ops))
        };
        let mut text = format!("values as {}", plain(codec));
        if let Some(bytes) = cells().find_map(|case| case.cost.encoded_value_bytes) {
            text += &format!(": {bytes:.0} bytes each");
        }
        if let Some(time) = mean(|case| case.parts_ns.encode) {
            text += &format!(", encoded in {time}");
        }
        if let Some(time) = mean(|case| case.parts_ns.decode) {
            text += &format!(", decoded in {time}");
        }
        Some(text)
    }

    /// The mode that takes the least time for so many operations.
    pub(crate) fn best(&self, count: u64) -> Option<&Mode<'r>> {
        self.modes.iter().min_by(|one, other| {
            one.total(count)
                .seconds
                .total_cmp(&other.total(count).seconds)
        })
    }
}

impl Mode<'_> {
    /// How long so many operations take.
    pub(crate) fn total(&self, count: u64) -> Total {
        let measured = self
            .cells
            .iter()
            .find(|case| case.scenario.ops_asked == Some(count));
        let cell = measured.unwrap_or(&self.largest);
        Total {
            seconds: count as f64 / cell.throughput_ops_per_s.max(f64::MIN_POSITIVE),
            extrapolated: cell.ops < count,
        }
    }
}

impl Curve<'_> {
    /// What the curve shows.
    pub(crate) fn sentence(&self) -> String {
        let shown = |case: &Case| words::count(case.throughput_ops_per_s);
        let [first, .., _] = &self.cells[..] else {
            return format!("{} ops/s", shown(self.knee));
        };
        let by_throughput = |one: &&&Case, other: &&&Case| {
            one.throughput_ops_per_s
                .total_cmp(&other.throughput_ops_per_s)
        };
        let most = self.cells.iter().max_by(by_throughput).unwrap_or(first);
        let size = words::amount(self.knee.scenario.batch);
        let p99 = words::percentile(self.knee.response_time_ns.p99);
        let is_end = self
            .cells
            .last()
            .is_some_and(|last| last.scenario.batch == self.knee.scenario.batch);
        if is_end {
            return format!(
                "from {} to {} ops/s; {size}, the largest size tried, carries the most, and larger ones may carry more: p99 {p99}",
                shown(first),
                shown(most),
            );
        }
        format!(
            "from {} to {} ops/s; {size} is the smallest within 5 % of the most: {} ops/s, p99 {p99}",
            shown(first),
            shown(most),
            shown(self.knee),
        )
    }

    /// Whose curve it is, and over which sizes.
    pub(crate) fn title(&self) -> String {
        let mode = plain(self.mode);
        let size = |case: &Case| words::amount(case.scenario.batch);
        match &self.cells[..] {
            [first, .., last] => format!("{mode} by size, {} to {}", size(first), size(last)),
            _ => format!("{mode} of {}", size(self.knee)),
        }
    }
}

impl Total {
    /// In the words of a table; `~` marks what was not measured in full.
    pub(crate) fn text(self) -> String {
        let mark = if self.extrapolated { "~" } else { "" };
        // What no cell can have taken comes of a record that nobody measured.
        if !(1e-9..3.6e8).contains(&self.seconds) {
            return "-".into();
        }
        let text = match self.seconds {
            seconds if seconds < 100.0 => words::duration(seconds * 1e9),
            seconds if seconds < 6_000.0 => format!("{:.1}m", seconds / 60.0),
            seconds if seconds < 3.6e6 => format!("{:.1}h", seconds / 3_600.0),
            seconds => format!("{:.0}h", seconds / 3_600.0),
        };
        format!("{mark}{text}")
    }
}
