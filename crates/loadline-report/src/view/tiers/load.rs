//! Caches under load: phases, what answered, and the course.

use loadline_measure::record::{Bounds, LoadAnswer, LoadPhase, LoadSubject, LoadWindow, TierLoad};
use loadline_measure::tiers::Phase;
use loadline_measure::words;

use super::{cases, cells, signed, time};
use crate::document::{
    Axis, Block, Cell, Column, Lines, Mark, Plot, Row, RowGroup, Scale, Section, Series, Table,
    Tone, Unit,
};

/// Legend of the tables.
pub(super) fn legend(load: &TierLoad) -> Vec<&'static str> {
    let pacing = match load.rate_ops_per_s {
        None => CLOSED,
        Some(_) => OPEN,
    };
    [SAME_KEYS, pacing].into_iter().chain(LEGEND).collect()
}

const SAME_KEYS: &str = "All caches are asked for the same keys in the same order, by one caller, and take turns window by window. The time of a get includes writing what was recomputed to the tier.";
const CLOSED: &str = "The time of a get is a service time, because the loop is closed: a get begins once the one before it has ended, so no time of waiting for a turn is in it. For response times use --rate.";
const OPEN: &str = "The time of a get is a service time. The response time counts from the intended start of the get, so it contains the wait for earlier gets; each window begins without waiting gets. busy: the share of the time that the caller spends in gets; from 100 % on, the cache does not keep the rate.";
const LEGEND: [&str; 4] = [
    "memory, tier: the share of the gets that memory answers, and of those that reach the tier the share that it answers; LRU: the same shares as predicted for tiers of the same sizes that evict the least recently used object.",
    "saves: how much less a get takes than with no tier, as the median over the windows with its interval; negative if it takes more.",
    "restart: memory is emptied, and the tier keeps its objects.",
    "recompute: gets that no tier answered.",
];

const GETS: Axis = Axis {
    name: "gets since the cold start",
    scale: Scale::Linear,
    unit: Unit::Count,
};

/// The answer, without a full stop: the time that each tier saves.
pub(super) fn found(load: &TierLoad) -> String {
    let tiers = load
        .subjects
        .iter()
        .filter(|subject| subject.tier.is_some());
    let phrases = tiers.map(|subject| {
        let phases = subject.phases.iter().zip(&load.subjects[0].phases);
        let phases: Vec<String> = phases
            .map(|(phase, without)| format!("{} {}", saving(phase, without), moment(&phase.name)))
            .collect();
        format!(
            "with {} below memory takes {}",
            subject.name,
            listed(&phases)
        )
    });
    let phrases: Vec<String> = phrases.collect();
    let found = format!(
        "Under this load ({} over {} keys, {} of memory), a get {}.{}",
        load.key_dist,
        words::amount(load.keys),
        words::bytes(load.memory_bytes),
        phrases.join("; a get "),
        load.rate_ops_per_s
            .map_or_else(String::new, |rate| paced(load, rate))
    );
    found.trim_end_matches('.').to_owned()
}

/// The findings of an open loop: response times, and which caches cannot keep its rate.
fn paced(load: &TierLoad, rate: f64) -> String {
    let warm = load.subjects.iter().filter_map(|subject| {
        let phase = subject
            .phases
            .iter()
            .find(|phase| phase.name == Phase::Warm)?;
        let time = words::duration(phase.response_time_ns?);
        Some(format!("{time} with {}", subject.name))
    });
    let warm: Vec<String> = warm.collect();
    let per_s = words::amount(rate as u64);
    let mut sentences = String::new();
    if !warm.is_empty() {
        sentences = format!(
            " At {per_s} gets per second, the mean response time {} is {}.",
            moment(&Phase::Warm),
            listed(&warm)
        );
    }
    for subject in &load.subjects {
        for phase in subject.phases.iter().filter(|phase| phase.gets > 0) {
            let busy = phase.get_ns * rate / 1e9;
            if busy >= 1.0 {
                sentences += &format!(
                    " The cache with {} does not keep this rate {}: its gets take {} of the time that they have, so each waits longer than the one before it.",
                    subject.name,
                    moment(&phase.name),
                    words::percent(busy)
                );
            }
        }
    }
    sentences
}

fn moment(phase: &Phase) -> &'static str {
    match phase {
        Phase::ColdStart => "after a cold start",
        Phase::Warm => "once the cache is warm",
        _ => "after a restart that empties memory",
    }
}

fn listed(phrases: &[String]) -> String {
    match phrases {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
    }
}

/// The time that a get saves in a phase against the cache without the tier, with the interval.
fn saving(phase: &LoadPhase, without: &LoadPhase) -> String {
    let Some(saves) = phase.saves_ns else {
        return "an unknown time".into();
    };
    let whole = words::duration(without.get_ns);
    let is_more = saves < 0.0;
    let comparison = format!(
        "{} {} than the {whole} without it",
        words::duration(saves.abs()),
        if is_more { "more" } else { "less" }
    );
    let Some(Bounds { lo, hi }) = phase.saves_interval else {
        return format!("{comparison} (too few windows for an interval)");
    };
    let (from, to) = if is_more { (-hi, -lo) } else { (lo, hi) };
    let bounds = format!("[{}, {}]", signed(from), signed(to));
    if lo <= 0.0 && hi >= 0.0 {
        format!("{comparison} (inconclusive: {bounds})")
    } else {
        format!("{comparison} {bounds}")
    }
}

/// Tables and plots of the load.
pub(super) fn sections(load: &TierLoad) -> Vec<Option<Section>> {
    vec![phases(load), responses(load), answers(load)]
}

fn phases(load: &TierLoad) -> Option<Section> {
    let columns = vec![
        Column::text("phase", 0),
        Column::figure("get", 0),
        Column::figure("p50", 2),
        Column::figure("p99", 2),
        Column::figure("memory", 0),
        Column::figure("memory LRU", 3),
        Column::figure("tier", 0),
        Column::figure("tier LRU", 3),
        Column::figure("saves", 0),
    ];
    let groups = load.subjects.iter().map(|subject| RowGroup {
        title: title(subject),
        rows: subject.phases.iter().map(phase).collect(),
    });
    let rate = load.rate_ops_per_s.map_or_else(String::new, |rate| {
        format!(", {} gets per second", words::amount(rate as u64))
    });
    let caption = format!(
        "The cache under load: {} over {} keys, {} of memory{rate}",
        load.key_dist,
        words::amount(load.keys),
        words::bytes(load.memory_bytes)
    );
    table(&caption, columns, groups.collect(), course(load))
}

/// Response times at the rate of an open loop.
fn responses(load: &TierLoad) -> Option<Section> {
    let rate = load.rate_ops_per_s?;
    let columns = vec![
        Column::text("phase", 0),
        Column::figure("response", 0),
        Column::figure("p50", 0),
        Column::figure("p99", 0),
        Column::figure("service", 0),
        Column::figure("busy", 0),
    ];
    let row = |phase: &LoadPhase| {
        let busy = phase.get_ns * rate / 1e9;
        let tone = if busy < 1.0 { Tone::Plain } else { Tone::Warn };
        cells(vec![
            phase.name.as_str().into(),
            time(phase.response_time_ns),
            cases::percentile(phase.response_time_ns_p50),
            cases::percentile(phase.response_time_ns_p99),
            words::duration(phase.get_ns).into(),
            Cell::new(tone, words::percent(busy)),
        ])
    };
    let groups = load.subjects.iter().map(|subject| RowGroup {
        title: subject.name.clone(),
        rows: subject.phases.iter().map(row).collect(),
    });
    let series = series(load, |window| {
        window.response_time_ns.filter(|ns| *ns > 0.0)
    });
    let mean = "Mean response time of a get";
    let plot = plot(mean, TIME, series, load).map(|plot| Block::Plot(Plot::Lines(plot)));
    let caption = format!(
        "Response times at {} gets per second",
        words::amount(rate as u64)
    );
    table(
        &caption,
        columns,
        groups.collect(),
        plot.into_iter().collect(),
    )
}

/// A cache, and when it was steady.
fn title(subject: &LoadSubject) -> String {
    let steady = match (subject.steady_after_gets, subject.steady_after_ns) {
        (Some(0), _) => "steady from the first window".to_owned(),
        (Some(gets), Some(ns)) => format!(
            "steady after {} gets ({})",
            words::amount(gets),
            words::duration(ns as f64)
        ),
        _ => "not steady before the restart".to_owned(),
    };
    format!("{}: {steady}", subject.name)
}

fn share(share: Option<f64>) -> Cell {
    share.map_or_else(
        || Cell::new(Tone::Faint, "-"),
        |share| words::percent(share).into(),
    )
}

fn phase(phase: &LoadPhase) -> Row {
    let range = phase.saves_interval.map_or_else(String::new, |bounds| {
        format!(" [{}, {}]", signed(bounds.lo), signed(bounds.hi))
    });
    let saves = phase.saves_ns.map(|ns| {
        let tone = match phase.saves_interval {
            Some(bounds) if bounds.lo > 0.0 => Tone::Good,
            Some(bounds) if bounds.hi < 0.0 => Tone::Warn,
            _ => Tone::Plain,
        };
        Cell::new(tone, format!("{}{range}", signed(ns)))
    });
    cells(vec![
        phase.name.as_str().into(),
        words::duration(phase.get_ns).into(),
        cases::percentile(phase.get_ns_p50),
        cases::percentile(phase.get_ns_p99),
        share(Some(phase.memory_hit_ratio)),
        share(Some(phase.predicted_memory_hit_ratio)),
        share(phase.tier_hit_ratio),
        share(phase.predicted_tier_hit_ratio),
        saves.unwrap_or_else(|| time(None)),
    ])
}

fn answers(load: &TierLoad) -> Option<Section> {
    let columns = vec![
        Column::text("answered by", 0),
        Column::figure("gets", 1),
        Column::figure("share", 0),
        Column::figure("mean", 0),
        Column::figure("p50", 0),
        Column::figure("p99", 0),
    ];
    let groups = load.subjects.iter().map(|subject| RowGroup {
        title: subject.name.clone(),
        rows: subject.answers.iter().map(answer).collect(),
    });
    let caption = "What answered, over all phases";
    table(caption, columns, groups.collect(), Vec::new())
}

fn answer(answer: &LoadAnswer) -> Row {
    cells(vec![
        answer.by.as_str().into(),
        words::amount(answer.gets).into(),
        words::percent(answer.share).into(),
        time((answer.gets > 0).then_some(answer.get_ns)),
        cases::percentile(answer.get_ns_p50),
        cases::percentile(answer.get_ns_p99),
    ])
}

/// A section of a table, if it has rows, with plots.
fn table(
    caption: &str,
    columns: Vec<Column>,
    groups: Vec<RowGroup>,
    plots: Vec<Block>,
) -> Option<Section> {
    if groups.iter().all(|group| group.rows.is_empty()) {
        return None;
    }
    let table = Table {
        caption: caption.to_owned(),
        columns,
        groups,
    };
    let blocks = std::iter::once(Block::Table(table)).chain(plots);
    Section::new(caption, blocks.collect())
}

/// The points of the windows of a cache.
fn points(subject: &LoadSubject, of: impl Fn(&LoadWindow) -> Option<f64>) -> Vec<(f64, f64)> {
    let windows = subject.windows.iter();
    windows
        .filter_map(|window| Some((window.first_get as f64, of(window)?)))
        .collect()
}

fn answer_of<'w>(window: &'w LoadWindow, by: &str) -> Option<&'w LoadAnswer> {
    window.answers.iter().find(|answer| answer.by == by)
}

fn line(label: String, colour: usize, points: Vec<(f64, f64)>) -> Series {
    Series {
        label,
        colour,
        dashed: false,
        points,
    }
}

/// Plots of the load over time.
fn course(load: &TierLoad) -> Vec<Block> {
    let means = series(load, |window| Some(window.get_ns).filter(|ns| *ns > 0.0));
    let mut blocks = vec![plot("Mean time of a get", TIME, means, load)];
    for subject in load
        .subjects
        .iter()
        .filter(|subject| subject.tier.is_some())
    {
        let (shares, times) = by_answer(subject);
        let caption = |what: &str| format!("{}: {what}", subject.name);
        blocks.push(plot(
            &caption("share of the gets by what answered, in percent"),
            SHARE,
            shares,
            load,
        ));
        blocks.push(plot(
            &caption("median time of a get by what answered"),
            TIME,
            times,
            load,
        ));
    }
    let plots = blocks.into_iter().flatten();
    plots.map(|plot| Block::Plot(Plot::Lines(plot))).collect()
}

const TIME: Axis = Axis {
    name: "",
    scale: Scale::Log,
    unit: Unit::Time,
};
const SHARE: Axis = Axis {
    name: "",
    scale: Scale::Linear,
    unit: Unit::Count,
};

/// A line for each cache.
fn series(load: &TierLoad, of: impl Fn(&LoadWindow) -> Option<f64>) -> Vec<Series> {
    let subjects = load.subjects.iter().enumerate();
    subjects
        .map(|(colour, subject)| line(subject.name.clone(), colour, points(subject, &of)))
        .collect()
}

/// Shares and medians of what answered the gets of a cache.
fn by_answer(subject: &LoadSubject) -> (Vec<Series>, Vec<Series>) {
    let answers = subject.answers.iter().enumerate();
    let both = answers.map(|(colour, answer)| {
        let by = answer.by.as_str();
        let shares = points(subject, |window| Some(answer_of(window, by)?.share * 100.0));
        let times = points(subject, |window| {
            answer_of(window, by)?.get_ns_p50.map(|ns| ns as f64)
        });
        (
            line(by.to_owned(), colour, shares),
            line(by.to_owned(), colour, times),
        )
    });
    both.unzip()
}

/// A plot over the gets, with a mark at the restart. `None` if no series has a course.
fn plot(caption: &str, y: Axis, series: Vec<Series>, load: &TierLoad) -> Option<Lines> {
    let drawn = series.iter().any(|line| line.points.len() > 1);
    let mut windows = load.subjects.first()?.windows.iter();
    let restart = windows.find(|window| window.phase == Phase::Restart);
    let restart = restart.map(|window| Mark {
        is_level: false,
        at: window.first_get as f64,
        label: "restart".into(),
    });
    drawn.then(|| Lines {
        caption: caption.to_owned(),
        x: GETS,
        y,
        series,
        marks: restart.into_iter().collect(),
        dots: false,
        in_text: false,
    })
}
