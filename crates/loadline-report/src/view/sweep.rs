//! A sweep over ways of calling: total times by mode and count, and throughput by size.

use loadline_measure::Metric;
use loadline_measure::record::{Case, LeftOut, Link, Record};
use loadline_measure::sizes::{self, Answer};
use loadline_measure::{sweep, words};

use crate::document::{
    Axis, Block, Cell, Column, Item, Lines, Mark, Plot, Row, RowGroup, Scale, Section, Series,
    Table, Tone, Unit,
};

/// Legend of the tables.
const LEGEND: &str = "Times are those of all operations of a column; ~ is extrapolated from as many as the budget of a cell allowed. Operations per second, quantiles and CPU (microseconds of the client) are those of the highest count that was measured, per operation: in a call of many, each takes as long as the call.";

/// Legend of factors that are bounds.
const BOUND: &str = "A factor such as \">5.0\" is the slowest round of one mode over the fastest of the other, where noise makes the ratio too uncertain to quote.";

/// Legend of the last column of a table.
const INSTRUCTIONS: &str = "instr.: instructions in user space that the client executes per operation, with the choice of keys and the check of replies; counted once for each mode, with no added latency. They are not time: caches, the kernel and waiting are not in them.";

/// Legend of the tables.
pub(super) fn legend(record: &Record) -> Vec<&str> {
    let is_counted = record.cases.iter().any(|case| case.client_work.is_some());
    let instructions = is_counted.then_some(INSTRUCTIONS);
    let settings = sweep::fastest(&record.cases);
    let mut slowest = settings.iter().filter_map(|setting| setting.slowest);
    let bound = slowest.any(|slowest| slowest.is_bound).then_some(BOUND);
    let lines = std::iter::once(LEGEND).chain(bound).chain(instructions);
    lines.chain(record.not_counted.as_deref()).collect()
}

/// A section for every operation under every latency.
pub(super) fn sections(record: &Record) -> Vec<Option<Section>> {
    let counts = counts(record);
    let settings = settings(record);
    settings
        .iter()
        .map(|setting| section(setting, &counts))
        .collect()
}

fn section(setting: &Setting<'_>, counts: &[u64]) -> Option<Section> {
    let about = setting.accuracy().into_iter().chain(setting.codec_cost());
    let mut blocks: Vec<Block> = about
        .map(|line| Block::Sentence(Tone::Faint, line))
        .collect();
    blocks.push(Block::Table(table(setting, counts)));
    let left_out = setting.left_out.iter();
    let left_out = left_out
        .map(|left_out| Item::new(Tone::Faint, &left_out.reason).labelled(left_out.mode.as_str()));
    let curves = setting.curves.iter();
    let curves =
        curves.map(|curve| Item::new(Tone::Plain, curve.sentence()).labelled(curve.title()));
    blocks.push(Block::List(left_out.chain(curves).collect()));
    blocks.extend(plot(setting).map(|lines| Block::Plot(Plot::Lines(lines))));
    Section::new(&setting.title(), blocks)
}

/// A row per mode, a column per count; the least time of each column is marked.
fn table(setting: &Setting<'_>, counts: &[u64]) -> Table {
    let mut columns = vec![Column::text("mode", 0)];
    // The smallest counts leave a narrow page first.
    let places = (1..=counts.len()).rev();
    columns.extend(counts.iter().zip(places).map(|(count, place)| {
        Column::figure(
            words::amount(*count),
            u8::try_from(place).unwrap_or(u8::MAX),
        )
    }));
    columns.extend(["ops/s", "p50", "p99", "CPU"].map(|name| Column::figure(name, 0)));
    let is_counted = setting
        .modes
        .iter()
        .any(|mode| mode.instructions().is_some());
    columns.extend(is_counted.then(|| Column::figure("instr.", 0)));
    let rows = setting.modes.iter().map(|mode| {
        let mut cells = vec![mode.name.into()];
        cells.extend(counts.iter().map(|count| {
            let total = mode.total(*count);
            let best = setting
                .best(*count)
                .is_some_and(|best| best.name == mode.name);
            let tone = match (best, total.extrapolated) {
                (true, _) => Tone::Good,
                (false, true) => Tone::Faint,
                (false, false) => Tone::Plain,
            };
            Cell {
                strong: best,
                ..Cell::new(tone, total.text())
            }
        }));
        let largest = mode.largest;
        cells.extend([
            rate(largest.throughput_ops_per_s).into(),
            words::percentile(largest.response_time_ns.p50).into(),
            words::percentile(largest.response_time_ns.p99).into(),
            words::cpu_us(largest.cost.client_cpu_ns_per_op).into(),
        ]);
        if is_counted {
            let instructions = mode.instructions();
            cells.push(instructions.map_or_else(|| "-".into(), words::count).into());
        }
        Row {
            cells,
            ..Row::default()
        }
    });
    Table {
        caption: format!("Total times: {}", setting.title()),
        columns,
        groups: vec![RowGroup {
            title: String::new(),
            rows: rows.collect(),
        }],
    }
}

/// The curves of sizes; `None` where no curve has two sizes.
fn plot(setting: &Setting<'_>) -> Option<Lines> {
    let axis = |name, unit| Axis {
        name,
        scale: Scale::Log,
        unit,
    };
    let curves = || setting.curves.iter().enumerate();
    let series = curves().map(|(colour, curve)| Series {
        label: curve.mode.to_owned(),
        colour,
        dashed: false,
        points: curve
            .cells
            .iter()
            .map(|case| (sizes::of_case(case) as f64, case.throughput_ops_per_s))
            .collect(),
    });
    let series: Vec<Series> = series.collect();
    let drawn = series.iter().any(|line| line.points.len() > 1);
    let marks = curves().filter_map(|(_, curve)| {
        let size = sizes::of_case(curve.recommended()?);
        Some(Mark {
            is_level: false,
            at: size as f64,
            label: format!("{} {}", curve.mode, words::amount(size)),
        })
    });
    let marks: Vec<Mark> = marks.collect();
    let marked = if marks.is_empty() {
        ""
    } else {
        " (marked: the recommended size)"
    };
    let title = setting.title();
    drawn.then(|| Lines {
        caption: format!("{title}: operations per second by size of a call{marked}"),
        x: axis("operations per call", Unit::Count),
        y: axis("", Unit::Count),
        series,
        marks,
        dots: true,
        in_text: false,
    })
}

/// One operation, with its codec, under one latency.
pub(super) struct Setting<'r> {
    pub(super) workload: &'r str,
    pub(super) codec: Option<&'r str>,
    pub(super) latency_ns: u64,
    /// The link that added the latency.
    pub(super) link: Option<&'r Link>,
    pub(super) modes: Vec<Mode<'r>>,
    pub(super) left_out: Vec<&'r LeftOut>,
    pub(super) curves: Vec<Curve<'r>>,
}

/// One way of calling over all counts.
pub(super) struct Mode<'r> {
    pub(super) name: &'r str,
    cells: Vec<&'r Case>,
    /// The cell of the highest count: what is extrapolated comes from it, and so do the figures
    /// that do not depend on the count.
    pub(super) largest: &'r Case,
}

impl Mode<'_> {
    /// Instructions of the client per operation, if they were counted under this latency.
    fn instructions(&self) -> Option<f64> {
        let mut cells = self.cells.iter();
        cells.find_map(|case| Metric::ClientInstructions.of_case(case))
    }
}

/// Throughput by size.
pub(super) struct Curve<'r> {
    pub(super) mode: &'r str,
    /// Ascending by size; never empty.
    pub(super) cells: Vec<&'r Case>,
    /// `None` with a single size.
    answer: Option<Answer>,
}

/// Time of all operations of a cell.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Total {
    pub(super) seconds: f64,
    pub(super) extrapolated: bool,
}

/// Operations per second in the words of a table; `-` where it is none.
pub(super) fn rate(ops_per_s: f64) -> String {
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
pub(super) fn counts(record: &Record) -> Vec<u64> {
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
pub(super) fn settings(record: &Record) -> Vec<Setting<'_>> {
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
        cells.sort_by_key(|case| sizes::of_case(case));
        (!cells.is_empty()).then(|| Curve {
            mode: name,
            answer: sizes::of_cases(cells.iter().copied()),
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
    /// Name of the operation, with the conditions of the sweep.
    pub(super) fn title(&self) -> String {
        let mut title = self.workload.to_owned();
        if let Some(codec) = self.codec {
            title += &format!(" as {}", codec);
        }
        match self.link {
            None if self.latency_ns == 0 => format!("{title}, no added latency"),
            None => format!("{title}, {} added", words::span(self.latency_ns)),
            Some(link) => format!(
                "{title}, {} added by {}",
                words::span(self.latency_ns),
                link.class.as_str()
            ),
        }
    }

    /// Latency that the link has by its own measurement.
    pub(super) fn accuracy(&self) -> Option<String> {
        self.link.map(super::path)
    }

    /// Cost of the codec of the values, over all modes.
    pub(super) fn codec_cost(&self) -> Option<String> {
        let codec = self.codec?;
        let cells = || self.modes.iter().map(|mode| mode.largest);
        let mean = |of: fn(&Case) -> Option<u64>| {
            let known = cells().filter_map(|case| Some((of(case)? as f64, case.ops as f64)));
            let (sum, ops) = known.fold((0.0, 0.0), |(sum, all), (ns, ops)| {
                (sum + ns * ops, all + ops)
            });
            (ops > 0.0).then(|| words::duration(sum / ops))
        };
        let mut text = format!("values as {}", codec);
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

    /// The mode that takes the least time for a number of operations.
    pub(super) fn best(&self, count: u64) -> Option<&Mode<'r>> {
        self.modes.iter().min_by(|one, other| {
            one.total(count)
                .seconds
                .total_cmp(&other.total(count).seconds)
        })
    }
}

impl Mode<'_> {
    /// The time for a number of operations.
    pub(super) fn total(&self, count: u64) -> Total {
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

impl<'r> Curve<'r> {
    /// The cell of the size to use, where that is known.
    fn recommended(&self) -> Option<&'r Case> {
        let recommended = self.answer.as_ref()?.recommended()?;
        let is_recommended = |case: &&&Case| sizes::of_case(case) == recommended;
        self.cells.iter().find(is_recommended).copied()
    }

    /// Conclusion from the curve.
    pub(super) fn sentence(&self) -> String {
        let rates = self.cells.iter().map(|case| case.throughput_ops_per_s);
        let least = rates.clone().fold(f64::INFINITY, f64::min);
        let most = rates.fold(0.0, f64::max);
        let mut text = match self.cells.len() {
            1 => format!("{} ops/s", words::count(most)),
            _ => format!(
                "from {} to {} ops/s",
                words::count(least),
                words::count(most)
            ),
        };
        if let Some(answer) = &self.answer {
            text += &format!("; {}", super::sizes::sentence(answer));
        }
        if let Some(case) = self.recommended() {
            text += &format!(
                " ({}: {} ops/s, p99 {})",
                words::amount(sizes::of_case(case)),
                words::count(case.throughput_ops_per_s),
                words::percentile(case.response_time_ns.p99)
            );
        }
        text
    }

    /// Mode and sizes of the curve.
    pub(super) fn title(&self) -> String {
        let mode = self.mode;
        let size = |case: &Case| words::amount(sizes::of_case(case));
        match &self.cells[..] {
            [first, .., last] => format!("{mode} by size, {} to {}", size(first), size(last)),
            [only] => format!("{mode} of {}", size(only)),
            [] => mode.to_owned(),
        }
    }
}

impl Total {
    /// In the words of a table; `~` marks what was not measured in full.
    pub(super) fn text(self) -> String {
        let mark = if self.extrapolated { "~" } else { "" };
        // A time that no cell can take means that the record was not measured.
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
