//! Which of the four options to choose for a tier, and the sentences that answer the question of the run.

use loadline_measure::compare::{self, Rules};
use loadline_measure::record::{Direction, TierCost, TierOption, TierVerdict, Verdict};
use loadline_measure::words;

use super::{Found, MeasuredTier, Recompute, reads};
use crate::object::{Encoding, Format};

/// The rounds from which on there is an interval.
const LEAST_ROUNDS: u32 = 8;

/// The tiers that the options are about.
struct Sides<'c> {
    /// The first server, without added latency.
    server: Option<&'c MeasuredTier>,
    /// The same with a message per tile.
    tiles: Option<&'c MeasuredTier>,
    /// The embedded store with the fastest read, on average over hits and misses.
    embedded: Option<&'c MeasuredTier>,
}

impl Found<'_> {
    /// The four options, and the sentence that answers the question.
    pub(super) fn options(
        &self,
        recompute: &Recompute,
        tiers: &[MeasuredTier],
    ) -> (Vec<TierOption>, String) {
        let sides = self.sides(tiers);
        let mut options = Vec::new();
        if let Some(MeasuredTier { cost: server, .. }) = sides.server {
            options.push(self.drop_it(recompute, server));
            options.extend(sides.tiles.map(|tiles| fix(recompute, &tiles.cost, server)));
            options.push(self.selective(recompute, server));
        }
        let embedded = sides.embedded;
        options.extend(embedded.map(|best| self.embedded(recompute, best, sides.server)));
        let verdict = self.verdict(recompute, &sides, tiers, &options);
        (options, verdict)
    }

    fn sides<'c>(&self, tiers: &'c [MeasuredTier]) -> Sides<'c> {
        let plan = self.facts.plan;
        let of_server = || {
            tiers
                .iter()
                .filter(|tier| Some(tier.place) == plan.server())
        };
        let tiles = Format::plain(Encoding::ProtobufTiles);
        let embedded = tiers.iter().filter(|tier| plan.is_embedded(tier.place));
        Sides {
            server: of_server().next(),
            tiles: of_server().find(|tier| tier.format == tiles),
            embedded: embedded.min_by(|one, other| {
                let read = |tier: &MeasuredTier| tier.cost.read_ns.unwrap_or(f64::INFINITY);
                read(one).total_cmp(&read(other))
            }),
        }
    }

    fn drop_it(&self, recompute: &Recompute, server: &TierCost) -> TierOption {
        let advice = match server.pays {
            TierVerdict::Yes => " The server pays, so keep it.",
            TierVerdict::No => " Drop it if all of your objects are like this one.",
            _ => " The rounds do not tell whether the server pays.",
        };
        TierOption {
            name: "drop".into(),
            answer: opposite(&server.pays),
            figure: break_even(server),
            compared_with: format!("{} expected", self.expected()),
            reason: format!(
                "Recomputing takes {}. {} returns the object in {} and stores it in {}{}.{advice}",
                words::duration(recompute.ns),
                server.subject,
                words::duration(server.get_ns),
                words::duration(server.set_ns.unwrap_or(0.0)),
                self.threshold(server)
            ),
        }
    }

    fn selective(&self, recompute: &Recompute, server: &TierCost) -> TierOption {
        let least = words::duration(server.least_recompute_ns.unwrap_or(0.0));
        let this = words::duration(recompute.ns);
        let advice = match server.pays {
            TierVerdict::Yes => format!("this one takes {this}, so keep it there"),
            TierVerdict::No => format!("this one takes {this}, so keep only dearer ones there"),
            _ => {
                format!("this one takes {this}, and the rounds do not tell whether that is enough")
            }
        };
        TierOption {
            name: "selective".into(),
            answer: opposite(&server.pays),
            figure: format!("{this} to recompute"),
            compared_with: format!("pays from {least}"),
            reason: format!(
                "At a hit ratio of {}, {} pays for objects of this size that take longer than {least} to recompute; {advice}.",
                self.expected(),
                server.subject,
            ),
        }
    }

    fn embedded(
        &self,
        recompute: &Recompute,
        best: &MeasuredTier,
        server: Option<&MeasuredTier>,
    ) -> TierOption {
        let read = |cost: &TierCost| words::duration(cost.read_ns.unwrap_or(0.0));
        let cost = &best.cost;
        let (answer, compared_with, evidence) = match server {
            None => (
                cost.pays.clone(),
                format!("{} to recompute", words::duration(recompute.ns)),
                String::new(),
            ),
            Some(server) => {
                let (answer, evidence) = self.embedded_or(best, server);
                let compared_with = format!("{} with the server", read(&server.cost));
                (answer, compared_with, evidence)
            }
        };
        TierOption {
            name: "embedded".into(),
            answer,
            figure: format!("{} a read", read(cost)),
            compared_with,
            reason: format!(
                "{} returns the object in {}{}; recomputing takes {}.{evidence} An embedded store is not shared between servers.",
                cost.subject,
                words::duration(cost.get_ns),
                self.threshold(cost),
                words::duration(recompute.ns),
            ),
        }
    }

    /// Whether to prefer an embedded store to a server, by the times of reads in the same rounds.
    fn embedded_or(&self, best: &MeasuredTier, server: &MeasuredTier) -> (TierVerdict, String) {
        let expected = self.facts.plan.hit_ratio;
        let pair = compare::paired(
            &reads(&server.rounds, expected),
            &reads(&best.rounds, expected),
            Direction::LessIsBetter,
            &Rules::default(),
        );
        let Ok(pair) = pair else {
            return (TierVerdict::Inconclusive, String::new());
        };
        let (best, server) = (&best.cost, &server.cost);
        let answer = match (&pair.verdict, &best.pays) {
            (Verdict::Faster, TierVerdict::Yes) => TierVerdict::Yes,
            (Verdict::Slower | Verdict::Equivalent, _) | (_, TierVerdict::No) => TierVerdict::No,
            _ => TierVerdict::Inconclusive,
        };
        let evidence = format!(
            " At a hit ratio of {}, a read takes {} through {} and {} through {} ({}).",
            self.expected(),
            words::duration(best.read_ns.unwrap_or(0.0)),
            best.subject,
            words::duration(server.read_ns.unwrap_or(0.0)),
            server.subject,
            pair.sentence(),
        );
        (answer, evidence)
    }

    /// The hit ratio above which a tier pays, as part of a sentence.
    fn threshold(&self, cost: &TierCost) -> String {
        let expected = self.expected();
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

    fn expected(&self) -> String {
        words::percent(self.facts.plan.hit_ratio)
    }

    /// The answer in a few sentences: the server, what latency changes, and the embedded store.
    fn verdict(
        &self,
        recompute: &Recompute,
        sides: &Sides<'_>,
        tiers: &[MeasuredTier],
        options: &[TierOption],
    ) -> String {
        let is = |name: &str, wanted: TierVerdict| {
            let found = options.iter().find(|option| option.name == name);
            found.is_some_and(|option| option.answer == wanted)
        };
        let mut sentences = Vec::new();
        if let Some(first) = sides.server.or(sides.embedded) {
            sentences.push(self.of_tier(recompute, &first.cost));
        }
        if let Some(server) = sides.server {
            let target = |tier: &MeasuredTier| self.facts.plan.places[tier.place].target;
            let far = tiers.iter().filter(|tier| {
                tier.cost.latency_ns > 0
                    && tier.format == server.format
                    && target(tier) == target(server)
            });
            sentences.extend(far.map(|tier| self.short_answer(&tier.cost)));
            if is("fix", TierVerdict::Yes) {
                sentences.push("With a message per tile it would not: the codec decides.".into());
            }
            if let Some(MeasuredTier { cost: best, .. }) = sides.embedded {
                let read = words::duration(best.read_ns.unwrap_or(0.0));
                let name = &best.subject;
                if is("embedded", TierVerdict::Yes) {
                    sentences.push(format!(
                        "The embedded store {name} is faster: {read}, if servers need not share it."
                    ));
                } else {
                    sentences.push(self.short_answer(best));
                }
            }
        }
        if sentences.is_empty() {
            let ns = words::duration(recompute.ns);
            sentences.push(format!("Recomputing this object takes {ns}."));
        }
        sentences.join(" ")
    }

    /// Whether a tier pays, with what a read costs on average.
    fn of_tier(&self, recompute: &Recompute, cost: &TierCost) -> String {
        let (name, expected) = (&cost.subject, self.expected());
        let without = words::duration(recompute.ns);
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

    fn short_answer(&self, cost: &TierCost) -> String {
        let name = &cost.subject;
        let read = words::duration(cost.read_ns.unwrap_or(0.0));
        match cost.pays {
            TierVerdict::Yes => format!("{name} pays: {read}."),
            TierVerdict::No => format!("{name} does not pay: {read}."),
            _ => format!("{name}: inconclusive."),
        }
    }
}

/// Whether the codec decides: a message per tile does not pay, and the fast codec does.
fn fix(recompute: &Recompute, tiles: &TierCost, server: &TierCost) -> TierOption {
    let answer = match (&tiles.pays, &server.pays) {
        (TierVerdict::No, TierVerdict::Yes) => TierVerdict::Yes,
        (TierVerdict::Yes, _) | (_, TierVerdict::No) => TierVerdict::No,
        _ => TierVerdict::Inconclusive,
    };
    let codec = server.codec.as_deref().unwrap_or("raw");
    let advice = match (&answer, &server.pays) {
        (TierVerdict::Yes, _) => "The server pays with a fast codec only, so fix the codec.",
        (TierVerdict::No, TierVerdict::No) => "The server pays with neither.",
        (TierVerdict::No, _) => "The server pays with a message per tile as well.",
        _ => "The rounds do not tell whether the codec decides.",
    };
    let (slow, fast) = (
        words::duration(tiles.get_ns),
        words::duration(server.get_ns),
    );
    TierOption {
        name: "fix".into(),
        answer,
        figure: format!("{slow} a hit"),
        compared_with: format!("{fast} with {codec}"),
        reason: format!(
            "With a message per tile, {} takes {slow} for a hit, and with {codec} {fast}; recomputing takes {}. {advice}",
            tiles.subject,
            words::duration(recompute.ns),
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

fn opposite(answer: &TierVerdict) -> TierVerdict {
    match answer {
        TierVerdict::Yes => TierVerdict::No,
        TierVerdict::No => TierVerdict::Yes,
        other => other.clone(),
    }
}

/// The upper bound of a hit ratio.
fn bound(ratio: f64) -> String {
    if ratio > 1.0 {
        "never".into()
    } else {
        words::percent(ratio)
    }
}
