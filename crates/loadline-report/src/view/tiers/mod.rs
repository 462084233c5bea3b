//! The tiers of a cache for one object: the options, the ladder, the map, and the tables behind them.

mod answer;
mod load;
mod pictures;

use loadline_measure::record::{
    BatchCost, Case, Claim, CodecCases, Flaw, Record, TierCases, TierChoice, TierCost, TierOption,
    TierVerdict, Tiers, ValueBytes, Waterfall,
};
use loadline_measure::tiers::Part;
use loadline_measure::words;

use super::cases;
use crate::document::{
    Axis, Block, Cell, Column, Item, Lines, Plot, Row, RowGroup, Scale, Section, Series, Table,
    Tone, Unit,
};
use answer::Wording;

const LEGEND: [&str; 8] = [
    "A time is the mean of an operation: the median over the rounds. hit: read and decode; miss: read what is not there; set: encode and write.",
    "a read: the mean time of a read through the tier at the expected hit ratio; a miss includes recomputing the object and the set.",
    "pays above: the hit ratio at which a tier saves as much as it costs, h* = (miss + set) / (recompute - hit + miss + set), with its interval over the rounds.",
    "pays from: how long an object must take to recompute for the tier to pay at the expected hit ratio.",
    "network: the wait for a server that replies the same bytes and does no work; server: its CPU time beyond that of the other one.",
    "rest: what no part of the same round explains, negative if the parts add up to more. It is the median over the rounds like each part, so parts that vary need not add up to the whole.",
    "write, read: CPU time of the system calls, or the whole call of an embedded store.",
    "Objects, connections and keys are made before the clock starts; what they cost is in the table of the set-up.",
];

/// Hit ratios whose memory is shown.
const HIT_RATIOS: [f64; 6] = [0.5, 0.7, 0.8, 0.9, 0.95, 0.99];

/// Legend of the tables.
pub(super) fn legend(tiers: &Tiers) -> Vec<&'static str> {
    match &tiers.load {
        Some(load) => load::legend(load),
        None => LEGEND.to_vec(),
    }
}

/// The answer, without a full stop.
pub(super) fn found(tiers: &Tiers) -> String {
    if let Some(load) = &tiers.load {
        return load::found(load);
    }
    answer::found(tiers)
}

/// All sections, in the order of reading.
pub(super) fn sections(record: &Record, tiers: &Tiers) -> Vec<Option<Section>> {
    if let Some(load) = &tiers.load {
        return load::sections(load);
    }
    vec![
        options(tiers),
        pictures::section(record, tiers),
        costs(tiers),
        waterfalls(tiers),
        codecs(record, &tiers.cases.codecs),
        batches(tiers),
        memory(tiers),
        set_up(record, &tiers.cases),
        flaws(&tiers.flaws),
        claims(&tiers.claims),
    ]
}

/// The question that is answered.
pub(super) fn title(tiers: &Tiers) -> String {
    let object = &tiers.object.name;
    match &tiers.load {
        Some(load) => {
            let names = load
                .subjects
                .iter()
                .filter_map(|subject| subject.tier.as_deref());
            format!(
                "What a tier below memory saves for a {object}: {}",
                listed(names)
            )
        }
        None => {
            let names = tiers.costs.iter().map(|cost| cost.subject.as_str());
            format!(
                "Which tier pays for a {object}: recompute, memory, {}",
                listed(names)
            )
        }
    }
}

/// Each name once.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known.join(", ")
}

fn tone(answer: &TierVerdict) -> Tone {
    match answer {
        TierVerdict::Yes => Tone::Good,
        TierVerdict::No => Tone::Plain,
        _ => Tone::Warn,
    }
}

/// The four options as a table, and the reasons below.
fn options(tiers: &Tiers) -> Option<Section> {
    if tiers.options.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("option", 0),
        Column::text("choose it?", 0),
        Column::text("decided by", 0),
        Column::text("compared with", 0),
    ];
    let worded = tiers.options.iter();
    let worded = worded.filter_map(|option| Some((option, answer::wording(tiers, option)?)));
    let worded: Vec<(&TierOption, Wording)> = worded.collect();
    let row = |(option, wording): &(&TierOption, Wording)| {
        let name = Cell {
            strong: true,
            ..in_words(&option.name).into()
        };
        let answer = Cell::new(tone(&option.answer), option.answer.as_str());
        let (figure, other) = (wording.figure.as_str(), wording.compared_with.as_str());
        cells(vec![name, answer, figure.into(), other.into()])
    };
    let table = Table {
        caption: "The options".to_owned(),
        columns,
        groups: vec![RowGroup {
            title: String::new(),
            rows: worded.iter().map(row).collect(),
        }],
    };
    let reasons = worded.iter().map(|(option, wording)| {
        Item::new(Tone::Plain, wording.reason.as_str()).labelled(in_words(&option.name))
    });
    let blocks = vec![Block::Table(table), Block::List(reasons.collect())];
    Section::new("The options", blocks)
}

/// Description of an option.
fn in_words(option: &TierChoice) -> &str {
    match option {
        TierChoice::Drop => "drop the server",
        TierChoice::Fix => "fix the codec",
        TierChoice::Selective => "only expensive objects",
        TierChoice::Embedded => "an embedded store",
        other => other.as_str(),
    }
}

/// A tier with its codec.
fn named(subject: &str, codec: Option<&str>) -> String {
    match codec {
        Some(codec) => format!("{subject}, {codec}"),
        None => subject.to_owned(),
    }
}

/// A tier, with its codec if that is not the one of the tiers.
fn tier(tiers: &Tiers, cost: &TierCost) -> String {
    let codec = cost.codec.as_deref();
    named(
        &cost.subject,
        codec.filter(|codec| *codec != tiers.object.codec),
    )
}

/// The mean time of an operation of a case.
fn mean(case: &Case) -> f64 {
    case.duration_ns as f64 / case.ops.max(1) as f64
}

/// A time, or a dash where it was not measured.
fn time(ns: Option<f64>) -> Cell {
    ns.map_or_else(
        || Cell::new(Tone::Faint, "-"),
        |ns| words::duration(ns).into(),
    )
}

fn table(caption: &str, columns: Vec<Column>, rows: Vec<Row>) -> Option<Section> {
    if rows.is_empty() {
        return None;
    }
    let table = Table {
        caption: caption.to_owned(),
        columns,
        groups: vec![RowGroup {
            title: String::new(),
            rows,
        }],
    };
    Section::new(caption, vec![Block::Table(table)])
}

fn cells(cells: Vec<Cell>) -> Row {
    Row {
        cells,
        ..Row::default()
    }
}

fn costs(tiers: &Tiers) -> Option<Section> {
    let columns = vec![
        Column::text("tier", 0),
        Column::figure("hit", 0),
        Column::figure("p99", 2),
        Column::figure("miss", 1),
        Column::figure("set", 0),
        Column::figure("a read", 0),
        Column::figure("pays above", 0),
        Column::figure("pays from", 3),
        Column::text("pays", 0),
    ];
    let row = |cost: &TierCost| {
        cells(vec![
            tier(tiers, cost).into(),
            words::duration(cost.get_ns).into(),
            cases::percentile(cost.get_ns_p99),
            time(cost.miss_ns),
            time(cost.set_ns),
            time(cost.read_ns),
            break_even(cost).into(),
            time(cost.least_recompute_ns),
            Cell::new(tone(&cost.pays), cost.pays.as_str()),
        ])
    };
    let mut caption = format!(
        "What each tier costs, at an expected hit ratio of {}",
        words::percent(tiers.hit_ratio)
    );
    if !tiers.object.codec.is_empty() {
        caption += &format!(" (codec: {})", tiers.object.codec);
    }
    table(&caption, columns, tiers.costs.iter().map(row).collect())
}

/// The hit ratio above which a tier pays, with its interval.
fn break_even(cost: &TierCost) -> String {
    let bound = |ratio: f64| {
        if ratio > 1.0 {
            "never".to_owned()
        } else {
            words::percent(ratio)
        }
    };
    let median = bound(cost.break_even.unwrap_or(f64::INFINITY));
    match &cost.break_even_interval {
        Some(bounds) if bounds.lo <= 1.0 => {
            format!("{median} [{}, {}]", bound(bounds.lo), bound(bounds.hi))
        }
        _ => median,
    }
}

fn waterfalls(tiers: &Tiers) -> Option<Section> {
    let drops = [1, 3, 2, 0, 0, 2, 3, 1];
    let mut columns = vec![Column::text("operation", 0), Column::figure("whole", 0)];
    let parts = Part::ALL.iter().zip(drops);
    columns.extend(parts.map(|(part, drop)| Column::figure(part.as_str(), drop)));
    columns.push(Column::figure("rest", 0));
    let row = |waterfall: &Waterfall| {
        // Figures of parts would be quoted, even where they are noise.
        let residual = waterfall.residual();
        let is_noise = waterfall.is_noise();
        let part = |wanted: &Part| {
            let found = waterfall.parts().find(|(part, _)| part == wanted);
            time(found.map(|(_, ns)| ns).filter(|_| !is_noise))
        };
        let mut all = vec![
            format!("{} {}", waterfall.subject, waterfall.operation).into(),
            words::duration(waterfall.whole_ns).into(),
        ];
        all.extend(Part::ALL.iter().map(part));
        let sign = if residual < 0.0 { "-" } else { "" };
        let share = if is_noise {
            "too noisy".to_owned()
        } else {
            format!("{sign}{}", words::percent(residual.abs()))
        };
        let is_large = waterfall.is_incomplete() || is_noise;
        all.push(Cell::new(
            if is_large { Tone::Warn } else { Tone::Plain },
            share,
        ));
        let command = waterfall.server_command_ns.map(|ns| {
            let text = format!("the server counts {} for the command", words::duration(ns));
            Item::new(Tone::Faint, text)
        });
        let rest = is_large.then(|| {
            let text = if is_noise {
                "the parts are left out: noise dominates them".to_owned()
            } else {
                unattributed(waterfall)
            };
            Item::new(Tone::Warn, text)
        });
        let sum = (waterfall.is_uneven() && !is_noise).then(|| {
            let sum = signed(waterfall.whole_ns - waterfall.excess_ns());
            let text = format!(
                "the parts vary from round to round: with the rest, their medians add up to {sum}"
            );
            Item::new(Tone::Faint, text)
        });
        Row {
            cells: all,
            notes: rest.into_iter().chain(sum).chain(command).collect(),
            ..Row::default()
        }
    };
    let rows = tiers.waterfalls.iter().map(row).collect();
    table("Where the time goes", columns, rows)
}

/// That the parts leave much of the whole, or add up to more.
fn unattributed(waterfall: &Waterfall) -> String {
    let rest = signed(waterfall.unattributed_ns);
    let range = waterfall
        .unattributed_interval
        .map_or_else(String::new, |bounds| {
            format!(" [{}, {}]", signed(bounds.lo), signed(bounds.hi))
        });
    if waterfall.unattributed_ns < 0.0 {
        format!("the parts add up to more than the whole: unattributed {rest}{range}")
    } else {
        format!("unattributed: {rest}{range} that no part explains")
    }
}

fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    format!("{sign}{}", words::duration(ns.abs()))
}

fn codecs(record: &Record, codecs: &[CodecCases]) -> Option<Section> {
    let columns = vec![
        Column::text("codec", 0),
        Column::figure("encode", 0),
        Column::figure("decode", 0),
        Column::figure("size", 0),
    ];
    let row = |codec: &CodecCases| {
        let encode = record.case(codec.encode)?;
        let decode = codec.decode.and_then(|decode| record.case(decode));
        let bytes = match encode.scenario.value_bytes {
            ValueBytes::Fixed(bytes) => words::bytes(bytes),
            ValueBytes::Spread { .. } => "-".to_owned(),
        };
        Some(cells(vec![
            encode.scenario.codec.as_deref().unwrap_or("raw").into(),
            words::duration(mean(encode)).into(),
            time(decode.map(mean)),
            bytes.into(),
        ]))
    };
    let rows = codecs.iter().filter_map(row).collect();
    table("Codecs", columns, rows)
}

fn batches(tiers: &Tiers) -> Option<Section> {
    let first = tiers.batches.first()?;
    let mut columns = vec![Column::text("operation", 0)];
    for size in &first.sizes {
        let head = match size.objects {
            1 => "alone".to_owned(),
            objects => format!("of {}", words::amount(objects)),
        };
        columns.push(Column::figure(head, 0));
    }
    columns.extend([
        Column::figure("gain", 0),
        Column::figure("per call", 1),
        Column::figure("each", 1),
    ]);
    let row = |batch: &BatchCost| {
        let time_of = |size: u64| {
            let found = batch.sizes.iter().find(|found| found.objects == size);
            found.map(|found| found.per_object_ns)
        };
        let mut all: Vec<Cell> = vec![format!("{} {}", batch.subject, batch.operation).into()];
        all.extend(first.sizes.iter().map(|size| time(time_of(size.objects))));
        let calls = batch.sizes.iter().filter(|size| size.objects > 1);
        let best = calls.map(|size| size.per_object_ns).reduce(f64::min);
        let gain = time_of(1).zip(best).filter(|(_, best)| *best > 0.0);
        all.push(match gain {
            Some((alone, best)) => words::ratio(alone / best).into(),
            None => Cell::new(Tone::Faint, "-"),
        });
        // Noise can make the line of two sizes fall.
        let known = |ns: f64| time(Some(ns).filter(|ns| *ns > 0.0));
        all.extend([known(batch.per_call_ns), known(batch.each_ns)]);
        cells(all)
    };
    let rows = tiers.batches.iter().map(row).collect();
    table("Batches: time per object", columns, rows)
}

/// Hit ratios by memory.
fn memory(tiers: &Tiers) -> Option<Section> {
    let curve = tiers.curve.as_ref()?;
    let how = if curve.sampled < 1.0 {
        format!(
            "{} reads; {} of the objects were followed, so the miss ratios are estimates with a mean absolute error of {}.",
            words::amount(curve.reads),
            words::percent(curve.sampled),
            words::percent(curve.error)
        )
    } else {
        format!(
            "{} reads; all objects were followed, so the miss ratios are exact.",
            words::amount(curve.reads)
        )
    };
    let rows = HIT_RATIOS.map(|ratio| {
        let memory = curve.memory_for(ratio);
        let text = memory.map_or_else(|| "not at any size".to_owned(), words::bytes);
        (format!("hit ratio {}", words::percent(ratio)), text)
    });
    let points = curve.points.iter();
    let plot = Lines {
        caption: "Miss ratio by memory for objects (least recently used)".into(),
        x: Axis {
            name: "bytes of memory",
            scale: Scale::Log,
            unit: Unit::Count,
        },
        y: Axis {
            name: "misses in percent",
            scale: Scale::Linear,
            unit: Unit::Count,
        },
        series: vec![Series {
            label: "miss ratio in percent".into(),
            colour: 0,
            dashed: false,
            points: points
                .map(|point| (point.bytes as f64, point.miss_ratio * 100.0))
                .collect(),
        }],
        marks: Vec::new(),
        dots: false,
        in_text: false,
    };
    Section::new(
        "How much memory for which hit ratio",
        vec![
            Block::Sentence(Tone::Plain, how),
            Block::Facts(rows.into()),
            Block::Plot(Plot::Lines(plot)),
        ],
    )
}

fn set_up(record: &Record, cases: &TierCases) -> Option<Section> {
    let columns = vec![
        Column::text("operation", 0),
        Column::figure("time", 0),
        Column::figure("p99", 1),
    ];
    let row = |case: &Case| {
        let codec = case.scenario.codec.as_deref();
        cells(vec![
            named(
                &format!("{} {}", case.subject.name, case.scenario.workload),
                codec,
            )
            .into(),
            words::duration(mean(case)).into(),
            cases::percentile(case.response_time_ns.p99),
        ])
    };
    let cached = [cases.hit, cases.deep_copy, cases.cached];
    let ids = cases.set_up.iter().copied();
    let ids = ids.chain(cached.into_iter().flatten());
    let rows = ids.filter_map(|id| record.case(id)).map(row);
    table(
        "The set-up, and what is not part of a tier's time",
        columns,
        rows.collect(),
    )
}

fn flaws(flaws: &[Flaw]) -> Option<Section> {
    let columns = vec![
        Column::text("flaw", 0),
        Column::figure("with", 0),
        Column::figure("without", 0),
        Column::figure("adds", 0),
    ];
    let row = |flaw: &Flaw| {
        let range = flaw.adds_interval.map_or_else(String::new, |bounds| {
            format!(" [{}, {}]", signed(bounds.lo), signed(bounds.hi))
        });
        cells(vec![
            flaw.name.as_str().into(),
            words::duration(flaw.flawed_ns).into(),
            words::duration(flaw.right_ns).into(),
            format!("{}{range}", signed(flaw.adds_ns)).into(),
        ])
    };
    let rows = flaws.iter().map(row).collect();
    table("What each flaw adds", columns, rows)
}

fn claims(claims: &[Claim]) -> Option<Section> {
    let columns = vec![
        Column::text("figure of the write-up", 0),
        Column::figure("theirs", 0),
        Column::figure("with the flaws", 0),
        Column::figure("without", 0),
    ];
    let row = |claim: &Claim| Row {
        cells: vec![
            claim.name.as_str().into(),
            words::duration(claim.theirs_ns).into(),
            time(claim.flawed_ns),
            time(claim.right_ns),
        ],
        notes: vec![Item::new(Tone::Faint, claim.sentence.as_str())],
        ..Row::default()
    };
    let rows = claims.iter().map(row).collect();
    table(
        "The write-up's figures and those of this run",
        columns,
        rows,
    )
}
