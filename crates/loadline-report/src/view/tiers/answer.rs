//! The answer about tiers in sentences: what to choose, and why.

use loadline_measure::record::{TierChoice, TierCost, TierOption, TierSides, TierVerdict, Tiers};
use loadline_measure::words;

/// The rounds from which on there is an interval.
const LEAST_ROUNDS: u32 = 8;

/// The figure of an option, what it is compared with, and the reason for the answer.
pub(super) struct Wording {
    pub(super) figure: String,
    pub(super) compared_with: String,
    pub(super) reason: String,
}

/// The words for an option; `None` for one of another version, or without the tiers that it is about.
pub(super) fn wording(tiers: &Tiers, option: &TierOption) -> Option<Wording> {
    let cost = |side| TierSides::cost(side, &tiers.costs);
    let (sides, server) = (&tiers.sides, cost(tiers.sides.server));
    match option.name {
        TierChoice::Drop => Some(drop_it(tiers, server?)),
        TierChoice::Fix => Some(fix(tiers, &option.answer, cost(sides.tiles)?, server?)),
        TierChoice::Selective => Some(selective(tiers, server?)),
        TierChoice::Embedded => Some(embedded(tiers, option, cost(sides.embedded)?, server)),
        _ => None,
    }
}

fn drop_it(tiers: &Tiers, server: &TierCost) -> Wording {
    let advice = match server.pays {
        TierVerdict::Yes => " The server pays, so keep it.",
        TierVerdict::No => " Drop it if all of your objects are like this one.",
        _ => " The rounds do not tell whether the server pays.",
    };
    Wording {
        figure: break_even(server),
        compared_with: format!("{} expected", expected(tiers)),
        reason: format!(
            "Recomputing takes {}. {} returns the object in {} and stores it in {}{}.{advice}",
            words::duration(tiers.object.recompute_ns),
            server.subject,
            words::duration(server.get_ns),
            words::duration(server.set_ns.unwrap_or(0.0)),
            threshold(tiers, server)
        ),
    }
}

fn selective(tiers: &Tiers, server: &TierCost) -> Wording {
    let least = words::duration(server.least_recompute_ns.unwrap_or(0.0));
    let this = words::duration(tiers.object.recompute_ns);
    let advice = match server.pays {
        TierVerdict::Yes => format!("this one takes {this}, so keep it there"),
        TierVerdict::No => format!("this one takes {this}, so keep only dearer ones there"),
        _ => {
            format!("this one takes {this}, and the rounds do not tell whether that is enough")
        }
    };
    Wording {
        figure: format!("{this} to recompute"),
        compared_with: format!("pays from {least}"),
        reason: format!(
            "At a hit ratio of {}, {} pays for objects of this size that take longer than {least} to recompute; {advice}.",
            expected(tiers),
            server.subject,
        ),
    }
}

fn embedded(
    tiers: &Tiers,
    option: &TierOption,
    best: &TierCost,
    server: Option<&TierCost>,
) -> Wording {
    let read = |cost: &TierCost| words::duration(cost.read_ns.unwrap_or(0.0));
    let recompute = words::duration(tiers.object.recompute_ns);
    let evidence = server.map_or_else(String::new, |server| {
        let by_rounds = match option.evidence.as_str() {
            "" => String::new(),
            evidence => format!(" ({evidence})"),
        };
        format!(
            " At a hit ratio of {}, a read takes {} through {} and {} through {}{by_rounds}.",
            expected(tiers),
            read(best),
            best.subject,
            read(server),
            server.subject,
        )
    });
    Wording {
        figure: format!("{} a read", read(best)),
        compared_with: match server {
            Some(server) => format!("{} with the server", read(server)),
            None => format!("{recompute} to recompute"),
        },
        reason: format!(
            "{} returns the object in {}{}; recomputing takes {recompute}.{evidence} An embedded store is not shared between servers.",
            best.subject,
            words::duration(best.get_ns),
            threshold(tiers, best),
        ),
    }
}

/// The hit ratio above which a tier pays, as part of a sentence.
fn threshold(tiers: &Tiers, cost: &TierCost) -> String {
    let expected = expected(tiers);
    match (cost.break_even, &cost.break_even_interval) {
        (None, None) => ", so it pays at no hit ratio".to_owned(),
        (None, Some(bounds)) if bounds.lo > 1.0 => ", so it pays at no hit ratio".to_owned(),
        (None, Some(bounds)) => format!(
            ", and pays at no hit ratio [{}, never]; {expected} are expected",
            words::percent(bounds.lo)
        ),
        (Some(ratio), None) => format!(
            ", and would pay above a hit ratio of {}; there are too few rounds for an interval",
            words::percent(ratio)
        ),
        (Some(ratio), Some(bounds)) => format!(
            ", and pays above a hit ratio of {} [{}, {}]; {expected} are expected",
            words::percent(ratio),
            words::percent(bounds.lo),
            bound(bounds.hi),
        ),
    }
}

fn expected(tiers: &Tiers) -> String {
    words::percent(tiers.hit_ratio)
}

/// The answer in a few sentences, without the last full stop: the server, what latency changes, and the embedded store.
pub(super) fn found(tiers: &Tiers) -> String {
    let cost = |side| TierSides::cost(side, &tiers.costs);
    let (server, best) = (cost(tiers.sides.server), cost(tiers.sides.embedded));
    let is_chosen = |name: TierChoice| {
        let mut options = tiers.options.iter();
        options.any(|option| option.name == name && option.answer == TierVerdict::Yes)
    };
    let mut sentences = Vec::new();
    sentences.extend(server.or(best).map(|first| of_tier(tiers, first)));
    if server.is_some() {
        let far = tiers
            .sides
            .far
            .iter()
            .filter_map(|place| cost(Some(*place)));
        sentences.extend(far.map(short_answer));
        if is_chosen(TierChoice::Fix) {
            sentences.push("With a message per tile it would not: the codec decides.".to_owned());
        }
        sentences.extend(best.map(|best| {
            if !is_chosen(TierChoice::Embedded) {
                return short_answer(best);
            }
            let (name, read) = (&best.subject, words::duration(best.read_ns.unwrap_or(0.0)));
            format!("The embedded store {name} is faster: {read}, if servers need not share it.")
        }));
    }
    if sentences.is_empty() {
        let ns = words::duration(tiers.object.recompute_ns);
        sentences.push(format!("Recomputing this object takes {ns}."));
    }
    sentences.join(" ").trim_end_matches('.').to_owned()
}

/// Whether a tier pays, with what a read costs on average.
fn of_tier(tiers: &Tiers, cost: &TierCost) -> String {
    let (name, expected) = (&cost.subject, expected(tiers));
    let without = words::duration(tiers.object.recompute_ns);
    let reads = cost.read_ns.map_or_else(String::new, |ns| {
        format!(
            "at a hit ratio of {expected}, a read takes {} on average with it and {without} without",
            words::duration(ns)
        )
    });
    match (&cost.pays, &cost.break_even_interval) {
        (TierVerdict::Yes, _) => format!("{name} pays for this object: {reads}."),
        (TierVerdict::No, _) => {
            let least = words::duration(cost.least_recompute_ns.unwrap_or(0.0));
            format!(
                "{name} does not pay for this object: {reads}. It would pay for objects that take longer than {least} to recompute."
            )
        }
        (_, Some(bounds)) => format!(
            "Inconclusive for {name}: it pays above a hit ratio between {} and {}, and {expected} are expected. A longer run (--duration) or a quieter machine narrows that.",
            words::percent(bounds.lo.min(1.0)),
            if bounds.hi > 1.0 {
                "100 % (never)".to_owned()
            } else {
                words::percent(bounds.hi)
            },
        ),
        (_, None) => format!(
            "Inconclusive for {name}: an answer takes at least {LEAST_ROUNDS} rounds, and this run is too short for them (--duration)."
        ),
    }
}

fn short_answer(cost: &TierCost) -> String {
    let name = &cost.subject;
    let read = words::duration(cost.read_ns.unwrap_or(0.0));
    match cost.pays {
        TierVerdict::Yes => format!("{name} pays: {read}."),
        TierVerdict::No => format!("{name} does not pay: {read}."),
        _ => format!("{name}: inconclusive."),
    }
}

fn fix(tiers: &Tiers, answer: &TierVerdict, tiles: &TierCost, server: &TierCost) -> Wording {
    let codec = server.codec.as_deref().unwrap_or("raw");
    let advice = match (answer, &server.pays) {
        (TierVerdict::Yes, _) => "The server pays with a fast codec only, so fix the codec.",
        (TierVerdict::No, TierVerdict::No) => "The server pays with neither.",
        (TierVerdict::No, _) => "The server pays with a message per tile as well.",
        _ => "The rounds do not tell whether the codec decides.",
    };
    let (slow, fast) = (
        words::duration(tiles.get_ns),
        words::duration(server.get_ns),
    );
    Wording {
        figure: format!("{slow} a hit"),
        compared_with: format!("{fast} with {codec}"),
        reason: format!(
            "With a message per tile, {} takes {slow} for a hit, and with {codec} {fast}; recomputing takes {}. {advice}",
            tiles.subject,
            words::duration(tiers.object.recompute_ns),
        ),
    }
}

/// The hit ratio above which a tier pays.
fn break_even(cost: &TierCost) -> String {
    cost.break_even.map_or_else(
        || "pays never".to_owned(),
        |ratio| format!("pays above {}", words::percent(ratio)),
    )
}

/// The upper bound of a hit ratio.
fn bound(ratio: f64) -> String {
    if ratio > 1.0 {
        "never".into()
    } else {
        words::percent(ratio)
    }
}
