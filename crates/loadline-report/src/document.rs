//! The document model: what every report is made of, whatever it is printed as.
//!
//! A builder in [`view`](crate::view) turns a record, a judgement, a proof or a baseline into a
//! [`Document`]; each printer turns a document into a String. Strings in a document are as they came:
//! the printers escape all of them.

use loadline_measure::Histogram;
use loadline_measure::work::Frame;

/// A report.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// The measured subject, in a line.
    pub(crate) title: String,
    /// The answer, which every printer puts first.
    pub(crate) verdict: Verdict,
    pub(crate) sections: Vec<Section>,
    /// Start of the run (RFC 3339); may be empty.
    pub(crate) timestamp: String,
    /// The last line, for scripts.
    pub(crate) last: Option<String>,
}

/// The answer in one sentence.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) result: CheckResult,
    pub(crate) tone: Tone,
    pub(crate) sentence: String,
}

/// Meaning of a piece of text, shown by its colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Faint,
    Good,
    Warn,
    Bad,
}

/// A part of a document under a heading.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// May be empty.
    pub(crate) heading: String,
    pub(crate) blocks: Vec<Block>,
    /// Whether a printer that can shows the heading only at first.
    pub(crate) folded: bool,
    /// Entries of its lists that a brief text report shows, and that are not folded; `None` for all.
    pub(crate) brief: Option<usize>,
}

/// A piece of a section.
#[derive(Debug)]
pub(crate) enum Block {
    Sentence(Tone, String),
    List(Vec<Item>),
    /// Names with their values.
    Facts(Vec<(String, String)>),
    Table(Table),
    Plot(Plot),
    /// Instructions of two servers per operation, function by function; only HTML draws them.
    Flames(Vec<Flame>),
    /// Results that passed or failed.
    Checks(Checks),
    /// Figures for machines, which only the CSV printer shows.
    Data(Data),
}

/// The most further lines of an entry that are shown.
pub(crate) const MOST_FURTHER: usize = 3;

/// An entry of a list.
#[derive(Debug, Default, Clone)]
pub(crate) struct Item {
    pub(crate) tone: Tone,
    /// Subject, such as `critical LL007`; may be empty.
    pub(crate) label: String,
    pub(crate) text: String,
    /// Further lines of the same kind.
    pub(crate) more: Vec<String>,
    /// Advice; may be empty.
    pub(crate) advice: String,
}

/// A table of one or several groups of rows under the same columns.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Caption of the table.
    pub(crate) caption: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) groups: Vec<RowGroup>,
}

#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) head: String,
    pub(crate) right: bool,
    /// Order of leaving the table on a page that is too narrow: columns with the highest number first. They
    /// are shown below their row; those with 0 stay.
    pub(crate) drop: u8,
}

#[derive(Debug, Default)]
pub(crate) struct RowGroup {
    /// May be empty.
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Default)]
pub(crate) struct Row {
    /// As many as there are columns.
    pub(crate) cells: Vec<Cell>,
    /// Remarks about the row.
    pub(crate) notes: Vec<Item>,
    /// A part of the row above.
    pub(crate) is_part: bool,
    /// The colour of the row's series in plots.
    pub(crate) colour: Option<usize>,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Cell {
    pub(crate) tone: Tone,
    pub(crate) strong: bool,
    pub(crate) text: String,
}

/// The trees of calls of two sides.
#[derive(Debug)]
pub(crate) struct Flame {
    pub(crate) caption: String,
    pub(crate) before: Vec<Frame>,
    pub(crate) after: Vec<Frame>,
}

/// A picture, as values; printers draw it.
#[derive(Debug)]
pub(crate) enum Plot {
    Lines(Lines),
    Spread(Spread),
    Ratios(Ratios),
    Times(Times),
    Ladder(Ladder),
    Map(DecisionMap),
    Timeline(Timeline),
}

/// Series of points on two axes.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) caption: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    pub(crate) marks: Vec<Mark>,
    /// Whether each point has a dot.
    pub(crate) dots: bool,
    /// Whether a text report draws it.
    pub(crate) in_text: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    pub(crate) name: &'static str,
    pub(crate) scale: Scale,
    pub(crate) unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From zero.
    Linear,
    Log,
    /// Quantiles by the number of their nines.
    Nines,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds.
    Time,
    Count,
}

#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) colour: usize,
    pub(crate) dashed: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A value of an axis that is marked by a line across the plot.
#[derive(Debug)]
pub(crate) struct Mark {
    /// On the vertical axis.
    pub(crate) is_level: bool,
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// Distribution of times: histograms on one logarithmic axis.
#[derive(Debug)]
pub(crate) struct Spread {
    pub(crate) caption: String,
    pub(crate) title: String,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) rows: Vec<Distribution>,
}

#[derive(Debug)]
pub(crate) struct Distribution {
    pub(crate) label: String,
    pub(crate) colour: usize,
    /// `None` where it was not kept.
    pub(crate) histogram: Option<Histogram>,
    /// Throughput by round, which a text report shows on the same line.
    pub(crate) rounds: Vec<f64>,
}

/// Ratios with their intervals.
#[derive(Debug)]
pub(crate) struct Ratios {
    pub(crate) caption: String,
    pub(crate) rows: Vec<Ratio>,
}

#[derive(Debug)]
pub(crate) struct Ratio {
    pub(crate) label: String,
    pub(crate) title: String,
    pub(crate) colour: usize,
    pub(crate) ratio: f64,
    pub(crate) lo: f64,
    pub(crate) hi: f64,
}

/// Times with their ranges on one logarithmic axis.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) caption: String,
    /// Meanings of the colours.
    pub(crate) key: Vec<(usize, String)>,
    pub(crate) rows: Vec<Time>,
}

#[derive(Debug)]
pub(crate) struct Time {
    pub(crate) label: String,
    pub(crate) title: String,
    pub(crate) colour: usize,
    pub(crate) ns: f64,
    pub(crate) lo_ns: f64,
    pub(crate) hi_ns: f64,
}

/// Times with their parts on one logarithmic axis.
#[derive(Debug)]
pub(crate) struct Ladder {
    pub(crate) caption: String,
    /// Meanings of the colours.
    pub(crate) key: Vec<(usize, String)>,
    pub(crate) rows: Vec<Rung>,
}

#[derive(Debug)]
pub(crate) struct Rung {
    pub(crate) label: String,
    pub(crate) title: String,
    /// The mean.
    pub(crate) ns: f64,
    pub(crate) min_ns: Option<f64>,
    pub(crate) p50_ns: Option<f64>,
    pub(crate) p99_ns: Option<f64>,
    /// Colours with their shares of the mean.
    pub(crate) parts: Vec<(usize, f64)>,
}

/// The cost to recompute an object against the cost to read it from each tier.
#[derive(Debug)]
pub(crate) struct DecisionMap {
    pub(crate) caption: String,
    pub(crate) recompute_ns: f64,
    /// Hit ratios with a line each.
    pub(crate) ratios: Vec<f64>,
    pub(crate) points: Vec<MapPoint>,
}

#[derive(Debug)]
pub(crate) struct MapPoint {
    pub(crate) label: String,
    pub(crate) title: String,
    pub(crate) colour: usize,
    pub(crate) get_ns: f64,
    pub(crate) p99_ns: Option<f64>,
}

/// The course of a load: panels over one axis of time, from its start on.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) caption: String,
    pub(crate) interval_ns: f64,
    pub(crate) panels: Vec<Panel>,
    /// Moments, in nanoseconds.
    pub(crate) marks: Vec<Mark>,
    /// The values, which only HTML shows.
    pub(crate) table: Table,
}

/// Values by interval: bars on a linear axis, which stand on each other, or lines on a logarithmic one.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) axis: Axis,
    pub(crate) strips: Vec<Strip>,
}

#[derive(Debug)]
pub(crate) struct Strip {
    pub(crate) label: String,
    pub(crate) colour: usize,
    /// A value for each interval; `None` where there is none.
    pub(crate) values: Vec<Option<f64>>,
}

/// A suite of checks, one JUnit test case each.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) name: String,
    pub(crate) checks: Vec<Check>,
    /// Whether people see them too.
    pub(crate) shown: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Check {
    pub(crate) name: String,
    /// Names of its groups, with points between them.
    pub(crate) class: String,
    pub(crate) result: CheckResult,
    /// The reason, or the finding.
    pub(crate) message: String,
    pub(crate) seconds: Option<f64>,
    pub(crate) properties: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CheckResult {
    #[default]
    Passed,
    /// With the severity.
    Failed(&'static str),
    /// Inconclusive.
    Skipped,
    /// Not judged at all.
    Error,
}

/// Rows of figures that are not rounded.
#[derive(Debug, Default)]
pub(crate) struct Data {
    pub(crate) header: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Value>>,
}

#[derive(Debug)]
pub(crate) enum Value {
    /// A string of the record.
    Text(String),
    /// A figure; may be empty.
    Figure(String),
}

impl Section {
    /// A section, or none where nothing is in it.
    pub(crate) fn new(heading: &str, blocks: Vec<Block>) -> Option<Self> {
        let is_empty = blocks.iter().all(|block| match block {
            Block::List(items) => items.is_empty(),
            Block::Facts(facts) => facts.is_empty(),
            Block::Checks(checks) => checks.checks.is_empty(),
            Block::Flames(flames) => flames.is_empty(),
            _ => false,
        });
        (!is_empty).then(|| Self {
            heading: heading.to_owned(),
            blocks,
            folded: false,
            brief: None,
        })
    }

    /// The section, whose heading is shown only at first.
    pub(crate) fn fold(self) -> Self {
        Self {
            folded: true,
            ..self
        }
    }
}

impl Item {
    pub(crate) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self {
            tone,
            text: text.into(),
            ..Self::default()
        }
    }

    /// The first `most` further lines, and the number of the others.
    pub(crate) fn further(&self, most: usize) -> Vec<String> {
        let others = self.more.len().saturating_sub(most);
        let others = (others > 0).then(|| format!("and {others} more of this kind"));
        let first = self.more.iter().take(most).cloned();
        first.chain(others).collect()
    }

    /// The entry with what it is about.
    pub(crate) fn labelled(self, label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            ..self
        }
    }
}

impl Cell {
    pub(crate) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self {
            tone,
            text: text.into(),
            strong: false,
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(Tone::Plain, text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(Tone::Plain, text)
    }
}

impl Column {
    /// A column of text.
    pub(crate) fn text(head: impl Into<String>, drop: u8) -> Self {
        Self {
            head: head.into(),
            right: false,
            drop,
        }
    }

    /// A column of figures.
    pub(crate) fn figure(head: impl Into<String>, drop: u8) -> Self {
        Self {
            right: true,
            ..Self::text(head, drop)
        }
    }
}

impl CheckResult {
    /// The word for people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Passed => "pass",
            Self::Failed(_) => "fail",
            Self::Skipped => "inconclusive",
            Self::Error => "error",
        }
    }

    pub(crate) fn tone(self) -> Tone {
        match self {
            Self::Passed => Tone::Good,
            Self::Failed("warning") | Self::Skipped => Tone::Warn,
            Self::Failed(_) | Self::Error => Tone::Bad,
        }
    }
}
