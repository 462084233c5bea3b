//! The fate of writes while servers fail: the audit, one group of rows for each fault, and the clocks.

mod course;
mod pool;
mod reads;
mod scorecard;

use loadline_measure::failover::{
    Audit, Clocks, Failover, Fault, Gap, MinReplicas, PoolSize, Topology, Trial, Wait, WriteId,
};
use loadline_measure::words;

use super::NOTHING;
use super::cases::shown;
use crate::document::{Block, Cell, Column, Item, Row, RowGroup, Section, Table, Tone};

/// Errors of a trial are named up to here.
const MOST_KINDS: usize = 4;

/// Legend of the tables of one client.
const LEGEND: [&str; 9] = [
    "acked: confirmed by a reply. lost: acked, and not in the server afterwards. refused: not executed, as the client reported.",
    "unknown: the client reported that the write may have been executed, or WAIT confirmed too few replicas; there: those of them that are in the server.",
    "twice: executed more than once. Each write has a key of its own, and the values of INCR, MULTI, LUA and WATCH and the length of a stream (XADD) show the number of executions; a second SET does not show.",
    "PUBLISH: executed as many times as a subscriber received the message; lost without a gap that the client announced.",
    "stale: the answer to a read without the write that its reader had acknowledged before, as after a lost write or from a replica that is behind.",
    "detection: from the fault to the first error of a writer. ready: until the server, or the one in its place, accepts writes. first write: until each writer had a new write acknowledged.",
    "recovery: until the median response time of 50 writes was at most 10 % longer than that before the fault.",
    "pool: until a check that began after the fault got an answer on the smallest number of connections of the pool.",
    "outage: the longest time without an acknowledged write of one writer. Writes are due at a rate (open loop), so none is missing while nothing is answered.",
];

/// The legend of the tables of `answer`.
pub(super) fn legend(answer: &Failover) -> Vec<&'static str> {
    if !answer.clients.is_empty() {
        return scorecard::LEGEND.to_vec();
    }
    let mut legend = LEGEND.to_vec();
    if answer.pool.is_some() {
        legend.extend(pool::LEGEND);
    }
    legend
}

/// The title of the report.
pub(super) fn title(answer: &Failover) -> String {
    format!("Failover: {}", answer.topology)
}

/// The outage and the losses, without a full stop.
pub(super) fn found(answer: &Failover) -> String {
    if !answer.clients.is_empty() {
        return format!("{}: {}", answer.topology, scorecard::found(answer));
    }
    let outages = answer.trials.iter();
    let outages = outages.filter_map(|trial| Some((trial, trial.clocks.outage?)));
    let Some((trial, outage)) = outages.max_by_key(|(_, gap)| gap.length_ns()) else {
        return NOTHING.to_owned();
    };
    let topology = &answer.topology;
    let most = if answer.trials.len() > 1 && !outage.is_open {
        " at most"
    } else {
        ""
    };
    format!(
        "{topology}: no write of a writer was acknowledged for {}{most} ({}); {}; {}{}{}",
        length(&outage),
        trial.fault,
        losses(answer),
        duplicates(answer),
        reads::found(answer),
        pool::found(answer)
    )
}

fn losses(answer: &Failover) -> String {
    let acknowledged = total(answer, Trial::acknowledged);
    let trials = answer.trials.iter();
    let lossy: Vec<&Trial> = trials.filter(|trial| trial.lost() > 0).collect();
    let Some(worst) = lossy.iter().copied().max_by_key(|trial| trial.lost()) else {
        return format!("none of {acknowledged} acknowledged writes was lost");
    };
    let (lost, all) = (worst.lost(), worst.acknowledged());
    let name = worst.name();
    match lossy.len() {
        1 if worst.fault == Fault::Observed => {
            format!("acknowledged writes were lost: {lost} of {all}")
        }
        1 => format!("acknowledged writes were lost: {lost} of {all} with {name}"),
        count => format!(
            "{count} of {} faults lost acknowledged writes, at most {lost} of {all} ({name})",
            answer.trials.len()
        ),
    }
}

fn duplicates(answer: &Failover) -> String {
    let of_unknown = match total(answer, Trial::ambiguous) {
        0 => "no outcome was unknown".to_owned(),
        count => format!("the outcome of {count} was unknown"),
    };
    match total(answer, Trial::twice) {
        0 => format!("{of_unknown}, and none was executed twice"),
        count => format!("{of_unknown}, and {count} were executed twice"),
    }
}

fn total(answer: &Failover, of: impl Fn(&Trial) -> u64) -> u64 {
    answer.trials.iter().map(of).fold(0, u64::saturating_add)
}

fn length(gap: &Gap) -> String {
    let least = if gap.is_open { "at least " } else { "" };
    format!("{least}{}", words::duration(gap.length_ns() as f64))
}

/// The audit and the clocks.
pub(super) fn sections(answer: &Failover) -> Vec<Option<Section>> {
    if answer.trials.is_empty() {
        return Vec::new();
    }
    if !answer.clients.is_empty() {
        return vec![scorecard::section(answer)];
    }
    vec![
        audits(answer),
        reads::section(answer),
        clocks(answer),
        pool::section(answer),
        course::section(&answer.trials),
    ]
}

fn audits(answer: &Failover) -> Option<Section> {
    let groups = answer.trials.iter().map(|trial| RowGroup {
        title: format!("{}: {}", trial.name(), effect(trial, &answer.topology)),
        rows: trial_rows(trial),
    });
    let pool = match answer.pool {
        Some(PoolSize { min, max }) => format!(" with a pool of {min} to {max} connections"),
        None if answer.wait.is_some() => " with a connection of each writer".to_owned(),
        None => String::new(),
    };
    let wait = answer.wait.map_or_else(String::new, |wait| {
        format!(", each with {} in one request,", waiting(wait))
    });
    let refusing = answer.min_replicas.map_or_else(String::new, refusing);
    let caption = format!(
        "Writes of {} at {} per second{wait} through {}{pool}{refusing}",
        words::plural(answer.writers, "writer"),
        words::amount(answer.rate),
        answer.client
    );
    let table = Table {
        caption: caption.clone(),
        columns: vec![
            Column::text("write", 0),
            Column::figure("sent", 3),
            Column::figure("acked", 0),
            Column::figure("lost", 0),
            Column::figure("unknown", 0),
            Column::figure("there", 1),
            Column::figure("refused", 2),
            Column::figure("twice", 0),
        ],
        groups: groups.collect(),
    };
    Section::new(&caption, vec![Block::Table(table)])
}

/// A WAIT in words.
fn waiting(wait: Wait) -> String {
    let time = words::duration(wait.timeout_ns as f64);
    format!(
        "a WAIT for {} up to {time}",
        words::plural(wait.replicas, "replica")
    )
}

/// The condition of masters in words.
fn refusing(min: MinReplicas) -> String {
    let time = words::duration(min.max_lag_ns as f64);
    format!(
        "; masters refuse writes without {} that answered in the last {time}",
        words::plural(min.replicas, "replica")
    )
}

/// The effect of a fault, and how it ends.
fn effect(trial: &Trial, topology: &Topology) -> String {
    let times = words::plural(trial.faults, "time");
    let connections = words::plural(trial.faults, "connection");
    match &trial.fault {
        Fault::Kill => match topology {
            Topology::Replica => {
                "the master ends with SIGKILL, and the replica is promoted and takes its port"
            }
            Topology::Cluster => "a master ends with SIGKILL, and its replica takes over",
            Topology::Sentinel => {
                "the master ends with SIGKILL, and the sentinels promote a replica"
            }
            _ => "the server ends with SIGKILL and is started again",
        }
        .to_owned(),
        Fault::Stop => "the server is stopped with SIGSTOP, and continues".to_owned(),
        Fault::ClientKill => format!("the server closes {connections} of its clients"),
        Fault::Reset => "all connections are reset".to_owned(),
        Fault::Cut => {
            format!("a connection ends {times} after a write was executed and before its reply")
        }
        Fault::BlackHole => {
            "a connection delivers nothing more and stays open, and new ones work".to_owned()
        }
        Fault::HalfOpen => {
            "the server's end of a connection is closed, the client is not notified, and new ones work".to_owned()
        }
        Fault::Refused => "connections are closed, and new ones are refused for 1 s".to_owned(),
        Fault::ReadOnly => "the server is a replica for 1 s, and refuses writes with READONLY".to_owned(),
        Fault::MaxClients => {
            format!("the server closes {connections}, and refuses new clients for 1 s")
        }
        Fault::SlowClose => {
            format!("the server closes {connections} of its clients, which are notified after 1 s")
        }
        Fault::Loading => "the server ends with SIGKILL, is started again, and reads its data for about 1 s (LOADING)".to_owned(),
        Fault::SlotsMoved => format!(
            "slots of a master are moved to another one, key by key ({})",
            words::plural(trial.faults, "slot")
        ),
        Fault::FullDisk => "the file system of the server's files is full for 1 s".to_owned(),
        Fault::ReplicaLoss => "a replica ends with SIGKILL, and stays away".to_owned(),
        Fault::Planned => match topology {
            Topology::Replica => {
                "FAILOVER: the replica becomes the master, and takes the port of the old one"
            }
            Topology::Sentinel => "SENTINEL FAILOVER: a replica becomes the master",
            _ => "CLUSTER FAILOVER: a replica becomes the master",
        }
        .to_owned(),
        Fault::Partition => match topology {
            Topology::Replica => {
                "the client and the master are cut off from the replica, which is promoted and takes the port of the master at the end"
            }
            Topology::Cluster => {
                "the client and a master are cut off from the other nodes, which promote a replica"
            }
            _ => {
                "the client and the master are cut off from replicas and sentinels, which promote a replica"
            }
        }
        .to_owned(),
        Fault::Lag => {
            "the replica receives nothing from its master for a time, and goes on answering".to_owned()
        }
        Fault::Observed => {
            "caused by somebody else, if there was one; times count from the beginning of the longest outage"
                .to_owned()
        }
        other => other.to_string(),
    }
}

fn trial_rows(trial: &Trial) -> Vec<Row> {
    let audits = trial.audits.iter();
    let mut rows: Vec<Row> = audits
        .map(|audit| row(audit, trial.clocks.fault_ns))
        .collect();
    let mut errors: Vec<(&String, &u64)> = trial.errors.iter().collect();
    errors.sort_by_key(|(kind, count)| (std::cmp::Reverse(**count), (*kind).clone()));
    let named = errors.iter().take(MOST_KINDS);
    let named: Vec<String> = named
        .map(|(kind, count)| format!("{kind} ({count})"))
        .collect();
    if let Some(row) = rows.last_mut().filter(|_| !named.is_empty()) {
        let more = match errors.len().saturating_sub(MOST_KINDS) {
            0 => String::new(),
            more => format!(" and {}", words::plural(more as u64, "other kind")),
        };
        let text = format!("errors: {}{more}", named.join(", "));
        row.notes.push(Item::new(Tone::Faint, text));
    }
    rows
}

fn row(audit: &Audit, fault_ns: u64) -> Row {
    let figure = |count: u64| Cell::from(count.to_string());
    let bad = |count: u64| match count {
        0 => figure(0),
        count => Cell::new(Tone::Bad, count.to_string()),
    };
    let mut notes = Vec::new();
    if let Some(loss) = &audit.loss {
        let id = |id: WriteId| format!("write {} of writer {}", id.sequence, id.writer);
        let text = format!(
            "lost: from {} (called {}) to {} (acknowledged {})",
            id(loss.first),
            moment(loss.from_ns, fault_ns),
            id(loss.last),
            moment(loss.to_ns, fault_ns)
        );
        notes.push(Item::new(Tone::Bad, text));
    }
    if audit.announced > 0 {
        let text = format!(
            "{} not received, in gaps that the client announced",
            words::plural(audit.announced, "acknowledged message")
        );
        notes.push(Item::new(Tone::Faint, text));
    }
    if audit.unconfirmed > 0 {
        let gone = audit.unconfirmed.saturating_sub(audit.unconfirmed_there);
        let text = format!(
            "WAIT: too few replicas confirmed {}, counted as unknown. Without WAIT, they would be acked, and {gone} of them lost",
            words::plural(audit.unconfirmed, "executed write")
        );
        notes.push(Item::new(Tone::Faint, text));
    }
    if audit.refused_there > 0 {
        let text = format!(
            "{} are in the server although the client reported that they were not executed",
            words::plural(audit.refused_there, "write")
        );
        notes.push(Item::new(Tone::Bad, text));
    }
    Row {
        cells: vec![
            audit.kind.as_str().to_uppercase().into(),
            figure(audit.sent),
            figure(audit.acknowledged),
            bad(audit.lost()),
            figure(audit.ambiguous),
            figure(audit.ambiguous_there),
            figure(audit.refused),
            match audit.twice {
                Some(count) => bad(count),
                None => Cell::new(Tone::Faint, "-"),
            },
        ],
        notes,
        ..Row::default()
    }
}

/// A moment, relative to the fault.
fn moment(at_ns: u64, fault_ns: u64) -> String {
    let distance = words::duration(at_ns.abs_diff(fault_ns) as f64);
    let side = if at_ns < fault_ns { "before" } else { "after" };
    format!("{distance} {side} the fault")
}

fn clocks(answer: &Failover) -> Option<Section> {
    let heading = "Times of the outage, from the fault on";
    let has_pool = answer.pool.is_some();
    let mut columns = vec![
        Column::text("fault", 0),
        Column::figure("detection", 1),
        Column::figure("ready", 2),
        Column::figure("first write", 0),
        Column::figure("recovery", 2),
        Column::figure("outage", 0),
    ];
    if has_pool {
        columns.push(Column::figure("pool", 0));
    }
    let rows = answer.trials.iter();
    let table = Table {
        caption: heading.to_owned(),
        columns,
        groups: vec![RowGroup {
            title: String::new(),
            rows: rows.map(|trial| clock_row(trial, has_pool)).collect(),
        }],
    };
    Section::new(heading, vec![Block::Table(table)])
}

fn clock_row(trial: &Trial, has_pool: bool) -> Row {
    let Clocks {
        detection_ns,
        ready_ns,
        first_write_ns,
        recovery_ns,
        pool_recovery_ns,
        outage,
        ..
    } = &trial.clocks;
    let time = |ns: &Option<u64>| shown(ns.map(|ns| words::duration(ns as f64)));
    let first_write = match first_write_ns {
        None => Cell::new(Tone::Bad, "none"),
        known => time(known),
    };
    let mut cells = vec![
        trial.name().into(),
        time(detection_ns),
        time(ready_ns),
        first_write,
        time(recovery_ns),
        shown(outage.as_ref().map(length)),
    ];
    if has_pool {
        cells.push(match pool_recovery_ns {
            None => Cell::new(Tone::Bad, "none"),
            known => time(known),
        });
    }
    Row {
        cells,
        ..Row::default()
    }
}
