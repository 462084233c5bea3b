//! SLOWLOG and LATENCY.

use std::time::Duration;

use super::numbers::integer;
use super::refusal::{Refusal, lower, no_such_form};
use super::{Call, Keys, Known, Listed, Words, is, listed, migrate, places, sub};
use crate::peer::Peer;
use crate::slow::{SlowCommand, shortened};
use crate::stats::Histogram;

pub(super) const TABLE: &[Listed] = &[
    listed("SLOWLOG", -2, Keys::None, slowlog).with(&[
        sub(
            "GET",
            -2,
            "[<count>]\nReturn top <count> entries from the slowlog (default: 10, -1 mean all).\nEntries are made of:\nid, timestamp, time in microseconds, arguments array, client IP and port,\nclient name",
        ),
        sub("LEN", 2, "\nReturn the length of the slowlog."),
        sub("RESET", 2, "\nReset the slowlog."),
    ]),
    listed("LATENCY", -2, Keys::None, latency).with(&[
        sub(
            "DOCTOR",
            2,
            "\nReturn a human readable latency analysis report.",
        ),
        sub(
            "HISTORY",
            3,
            "<event>\nReturn time-latency samples for the <event> class.",
        ),
        sub(
            "LATEST",
            2,
            "\nReturn the latest latency samples for all events.",
        ),
        sub(
            "RESET",
            -2,
            "[<event> ...]\nReset latency data of one or more <event> classes.\n(default: reset all data for all event classes)",
        ),
        sub(
            "HISTOGRAM",
            -2,
            "[COMMAND ...]\nReturn a cumulative distribution of latencies in the format of a histogram for the specified command names.\nIf no commands are specified then all histograms are replied.",
        ),
    ]),
];

impl Call<'_> {
    /// Notes a command that took long.
    #[cold]
    pub(super) fn note_slow(&mut self, known: &Known, words: Words<'_>, took: Duration) {
        if known.item.has("skip_slowlog") {
            // Its commands are noted.
            return;
        }
        let event = if known.item.has("fast") {
            "fast-command"
        } else {
            "command"
        };
        self.note_slow_event(event, words, took);
    }

    /// Notes a command that took long, and a sample of `event`.
    pub(super) fn note_slow_event(
        &mut self,
        event: &'static str,
        words: Words<'_>,
        took: Duration,
    ) {
        let at = self.shared.now / 1_000;
        let slow = &mut self.shared.slow;
        slow.sample(event, took, at);
        let peer = &*self.session.peer;
        slow.log(took, || slow_command(words, peer, at));
    }
}

fn slow_command(words: Words<'_>, peer: &Peer, at: u64) -> SlowCommand {
    let name = peer
        .name
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    SlowCommand {
        id: 0,
        at,
        micros: 0,
        words: shortened(&without_secrets(words)),
        address: peer.address.clone(),
        name: name.clone(),
    }
}

/// The words of a command, with passwords replaced.
fn without_secrets<'w>(words: &[&'w [u8]]) -> Vec<&'w [u8]> {
    const SECRET: &[&str] = &[
        "requirepass",
        "masterauth",
        "masteruser",
        "tls-key-file-pass",
    ];
    let command = lower(words[0]);
    let second = words.get(1).map(|word| lower(word)).unwrap_or_default();
    let is_secret = |place: usize| match (command.as_str(), second.as_str()) {
        ("auth", _) => place >= 1,
        ("hello", _) => place >= 2 && words[2..place].iter().any(|word| is(word, "AUTH")),
        ("migrate", _) => migrate::secrets(words).contains(&place),
        ("acl", "setuser" | "deluser" | "getuser") => place >= 2,
        ("config", "set") => {
            place >= 3 && place % 2 == 1 && SECRET.contains(&lower(words[place - 1]).as_str())
        }
        _ => false,
    };
    let shown = |(place, word): (usize, &&'w [u8])| {
        if is_secret(place) {
            &b"(redacted)"[..]
        } else {
            *word
        }
    };
    words.iter().enumerate().map(shown).collect()
}

fn slowlog(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    const COUNT: &str = "ERR count should be greater than or equal to -1";
    match *words {
        [_, word] if is(word, "LEN") => {
            let count = call.shared.slow.commands.len();
            call.reply().count(count);
        }
        [_, word] if is(word, "RESET") => {
            call.shared.slow.commands.clear();
            call.reply().ok();
        }
        [_, word, ref count @ ..] if is(word, "GET") && count.len() <= 1 => {
            let count = match count.first() {
                None => 10,
                Some(count) => match integer(count).map_err(|_| COUNT)? {
                    -1 => usize::MAX,
                    count => usize::try_from(count).map_err(|_| COUNT)?,
                },
            };
            show(call, count);
        }
        _ => return Err(no_such_form(words)),
    }
    Ok(())
}

fn show(call: &mut Call<'_>, count: usize) {
    let commands = std::mem::take(&mut call.shared.slow.commands);
    let mut reply = call.reply();
    reply.array(count.min(commands.len()));
    for command in commands.iter().take(count) {
        reply.array(6);
        for number in [command.id, command.at, command.micros] {
            reply.count(number as usize);
        }
        reply.array(command.words.len());
        command.words.iter().for_each(|word| reply.bulk(word));
        reply.bulk(command.address.as_bytes());
        reply.bulk(&command.name);
    }
    call.shared.slow.commands = commands;
}

fn latency(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    match *words {
        [_, word, event] if is(word, "HISTORY") => history(call, event),
        [_, word] if is(word, "LATEST") => latest(call),
        [_, word, ref events @ ..] if is(word, "RESET") => {
            let known = &mut call.shared.slow.events;
            let before = known.len();
            known.retain(|name, _| {
                !events.is_empty() && !events.iter().any(|event| is(event, name))
            });
            let gone = before - known.len();
            call.reply().count(gone);
        }
        [_, word] if is(word, "DOCTOR") => {
            let report = report(call);
            call.reply().text(&report);
        }
        [_, word, ref names @ ..] if is(word, "HISTOGRAM") => histograms(call, names),
        _ => return Err(no_such_form(words)),
    }
    Ok(())
}

fn history(call: &mut Call<'_>, event: &[u8]) {
    let events = std::mem::take(&mut call.shared.slow.events);
    let event = std::str::from_utf8(event).ok();
    let samples = event.and_then(|event| events.get(event));
    let mut reply = call.reply();
    reply.array(samples.map_or(0, |samples| samples.latest.len()));
    for sample in samples.into_iter().flat_map(|samples| &samples.latest) {
        reply.array(2);
        reply.count(sample.at as usize);
        reply.count(sample.millis as usize);
    }
    call.shared.slow.events = events;
}

fn latest(call: &mut Call<'_>) {
    let events = std::mem::take(&mut call.shared.slow.events);
    let mut reply = call.reply();
    reply.array(events.len());
    for (name, samples) in &events {
        let last = samples.latest.back();
        reply.array(4);
        reply.bulk(name.as_bytes());
        reply.count(last.map_or(0, |sample| sample.at as usize));
        reply.count(last.map_or(0, |sample| sample.millis as usize));
        reply.count(samples.most_millis as usize);
    }
    call.shared.slow.events = events;
}

/// The text of LATENCY DOCTOR: the events, without advice.
fn report(call: &Call<'_>) -> String {
    let slow = &call.shared.slow;
    if slow.events.is_empty() && call.shared.settings.latency_monitor_threshold == 0 {
        return "Latency monitoring is disabled. Enable it with CONFIG SET latency-monitor-threshold <milliseconds>.\n".into();
    }
    if slow.events.is_empty() {
        return "No latency spike was observed since the start of the server or LATENCY RESET.\n"
            .into();
    }
    let mut report = String::new();
    for (place, (name, samples)) in slow.events.iter().enumerate() {
        let count = samples.latest.len();
        let sum: u64 = samples.latest.iter().map(|sample| sample.millis).sum();
        report.push_str(&format!(
            "{}. {name}: {count} latency spikes (average {}ms). Worst all time event {}ms.\n",
            place + 1,
            sum / count.max(1) as u64,
            samples.most_millis
        ));
    }
    report
}

/// Shows the histograms of commands; without names, of all. A name stands for all subcommands of a command too.
fn histograms(call: &mut Call<'_>, names: &[&[u8]]) {
    let mut shown: Vec<(&str, Histogram)> = Vec::new();
    let histograms = &call.shared.stats.histograms;
    for (place, histogram) in histograms {
        let name = places()[*place];
        let command = name.split('|').next().unwrap_or(name);
        let is_asked = |asked: &&[u8]| is(asked, name) || is(asked, command);
        if names.is_empty() || names.iter().any(is_asked) {
            shown.push((name, histogram.clone()));
        }
    }
    let mut reply = call.reply();
    reply.map(shown.len());
    for (name, histogram) in shown {
        reply.bulk(name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.count(histogram.calls() as usize);
        reply.bulk(b"histogram_usec");
        let steps = histogram.steps();
        reply.map(steps.len());
        for (micros, calls) in steps {
            reply.count(micros as usize);
            reply.count(calls as usize);
        }
    }
}

impl Call<'_> {
    /// Counts a call in the histogram of its command at this place in the statistics, for `weight` calls.
    pub(super) fn count_time(&mut self, place: usize, took: Duration, weight: u64) {
        let histograms = &mut self.shared.stats.histograms;
        histograms.entry(place).or_default().add(took, weight);
    }
}
