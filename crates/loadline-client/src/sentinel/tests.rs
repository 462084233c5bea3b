//! The outlook under virtual time: sentinels that learn of failovers late, break, and answer in any order.

use std::io;
use std::time::{Duration, Instant};

use loadline_resp::OwnedReply;
use proptest::prelude::*;

use super::answer::{Answer, SentinelEvent};
use super::outlook::{ASK_AGAIN, FORGOTTEN, IDLE, Outlook, SELECTED, Verdict};
use super::{Node, Role};
use crate::Error;

/// The number of servers that become the master in turn, more than there are failovers in a test.
const SERVERS: u64 = 1_000;
const SENTINELS: u16 = 3;

fn server(epoch: u64) -> Node {
    Node::new("server", 1 + (epoch % SERVERS) as u16)
}

fn sentinel(place: u16) -> Node {
    Node::new("sentinel", 1 + place)
}

fn answer(epoch: u64) -> Answer {
    Answer {
        master: Some((server(epoch), epoch)),
        ..Answer::default()
    }
}

fn refused() -> Error {
    Error::connection(io::ErrorKind::ConnectionRefused.into(), false)
}

fn outlook(role: Role, now: Instant) -> Outlook {
    let sentinels: Vec<Node> = (0..SENTINELS).map(sentinel).collect();
    Outlook::new("m", role, &sentinels, now)
}

fn goes_to(outlook: &mut Outlook, now: Instant) -> Option<Node> {
    match outlook.verdict(now) {
        Verdict::Go(node) => Some(node),
        _ => None,
    }
}

#[derive(Clone, Debug)]
enum WorldStep {
    /// Another server becomes the master.
    FailOver,
    /// A sentinel learns who the master is.
    Learn(u16),
    Answer(u16),
    Break(u16),
    /// A failover that a sentinel leads selects the next master.
    Select(u16),
    Abort(u16),
    /// A connection looks for the master, or has lost it.
    Look,
    Lose,
    Pass(u16),
}

fn steps() -> impl Strategy<Value = Vec<WorldStep>> {
    let place = || 0..SENTINELS;
    let step = prop_oneof![
        1 => Just(WorldStep::FailOver),
        4 => place().prop_map(WorldStep::Learn),
        6 => place().prop_map(WorldStep::Answer),
        2 => place().prop_map(WorldStep::Break),
        1 => place().prop_map(WorldStep::Select),
        1 => place().prop_map(WorldStep::Abort),
        4 => Just(WorldStep::Look),
        1 => Just(WorldStep::Lose),
        4 => (1_u16..2_000).prop_map(WorldStep::Pass),
    ];
    proptest::collection::vec(step, 1..150)
}

proptest! {
    /// In any order of events the latest failover that a connected sentinel knows of counts, connections may stay at the
    /// server that new ones go to, no sentinel is asked in a hurry without end, and once all agree so does the client.
    #[test]
    fn latest_known_failover_decides_in_any_order_of_events(steps in steps()) {
        let mut now = Instant::now();
        let mut outlook = outlook(Role::Master, now);
        let (mut truth, mut knows, mut said) = (1, [1; SENTINELS as usize], [None; SENTINELS as usize]);
        let mut selected: Option<(Node, u16, Instant)> = None;
        for step in steps {
            match step {
                WorldStep::FailOver => truth += 1,
                WorldStep::Learn(place) => knows[usize::from(place)] = truth,
                WorldStep::Answer(place) => {
                    let own = sentinel(place);
                    let due = outlook.ask_at(&own, now).unwrap();
                    prop_assert!(due <= now + IDLE);
                    outlook.asked(&own, now);
                    prop_assert!(outlook.ask_at(&own, now).unwrap() >= now + ASK_AGAIN);
                    let known = knows[usize::from(place)];
                    let before = said.into_iter().flatten().max();
                    outlook.answered(&own, answer(known), now);
                    said[usize::from(place)] = Some(known);
                    if before.is_none_or(|before| known > before) {
                        // The failover that was under way is over, unless the latest one was known before.
                        selected = selected.filter(|_| goes_to(&mut outlook, now + SELECTED) == Some(server(known)))
                            .filter(|(node, ..)| goes_to(&mut outlook, now).as_ref() == Some(node));
                    }
                }
                WorldStep::Break(place) => {
                    outlook.failed(&sentinel(place), refused(), now);
                    said[usize::from(place)] = None;
                    selected = selected.filter(|(_, by, _)| *by != place);
                }
                WorldStep::Select(place) => {
                    outlook.event(&sentinel(place), SentinelEvent::Selected(server(truth + 1)), now);
                    selected = Some((server(truth + 1), place, now + SELECTED));
                }
                WorldStep::Abort(place) => {
                    outlook.event(&sentinel(place), SentinelEvent::Aborted, now);
                    selected = selected.filter(|(_, by, _)| *by != place);
                }
                WorldStep::Look => {
                    if let Some(node) = goes_to(&mut outlook, now) {
                        prop_assert!(outlook.allows(&node));
                    }
                }
                WorldStep::Lose => outlook.lost(now),
                WorldStep::Pass(millis) => now += Duration::from_millis(millis.into()),
            }
            selected = selected.filter(|(_, _, until)| now < *until);
            if let (Some(latest), None) = (said.into_iter().flatten().max(), &selected)
                && let Some(node) = goes_to(&mut outlook, now + SELECTED)
            {
                // It may know of a later one from a sentinel that has broken since.
                let later = (latest..=truth).map(server);
                prop_assert!(later.into_iter().any(|later| later == node), "{node} after {latest}");
            }
        }
        for place in (0..SENTINELS).chain(0..SENTINELS) {
            outlook.answered(&sentinel(place), answer(truth), now + SELECTED);
        }
        prop_assert_eq!(goes_to(&mut outlook, now + SELECTED), Some(server(truth)));
        prop_assert!(outlook.allows(&server(truth)));
        prop_assert!(!outlook.allows(&server(truth + 1)));
    }
}

#[test]
fn first_answer_waits_shortly_for_the_others() {
    let now = Instant::now();
    let mut outlook = outlook(Role::Master, now);
    assert!(matches!(outlook.verdict(now), Verdict::Wait(None)));
    outlook.answered(&sentinel(0), answer(1), now);
    let Verdict::Wait(Some(until)) = outlook.verdict(now) else {
        panic!("the others may know better")
    };
    outlook.answered(&sentinel(1), answer(2), now);
    assert_eq!(goes_to(&mut outlook, until), Some(server(2)));
    outlook.failed(&sentinel(2), refused(), now);
    assert_eq!(goes_to(&mut outlook, now), Some(server(2)));
}

#[test]
fn unknown_name_and_unreachable_sentinels_are_different_errors() {
    let now = Instant::now();
    let mut nobody = outlook(Role::Master, now);
    (0..SENTINELS).for_each(|place| nobody.failed(&sentinel(place), refused(), now));
    let Verdict::None(error) = nobody.verdict(now) else {
        panic!("none can be asked")
    };
    assert!(matches!(error, Error::Connection { .. }), "{error}");
    assert!(!error.maybe_executed());
    let mut unknown = outlook(Role::Master, now);
    unknown.failed(&sentinel(0), refused(), now);
    unknown.answered(&sentinel(1), Answer::default(), now);
    assert!(matches!(unknown.verdict(now), Verdict::Wait(_)));
    unknown.answered(&sentinel(2), Answer::default(), now);
    let Verdict::None(error) = unknown.verdict(now) else {
        panic!("none knows the name")
    };
    let said = "no sentinel knows a master named `m` (2 of 3 answered)";
    assert_eq!(error.to_string(), said);
}

#[test]
fn last_known_master_is_used_while_no_sentinel_answers() {
    let now = Instant::now();
    let mut outlook = outlook(Role::Master, now);
    outlook.answered(&sentinel(0), answer(5), now);
    let version = outlook.version();
    (0..SENTINELS).for_each(|place| outlook.failed(&sentinel(place), refused(), now));
    let much_later = now + 10 * FORGOTTEN;
    assert_eq!(goes_to(&mut outlook, much_later), Some(server(5)));
    assert_eq!(outlook.version(), version);
}

#[test]
fn sentinels_that_were_set_up_anew_are_believed_after_a_while() {
    let mut now = Instant::now();
    let mut outlook = outlook(Role::Master, now);
    (0..SENTINELS).for_each(|place| outlook.answered(&sentinel(place), answer(6), now));
    let mut again = |now| {
        (0..SENTINELS).for_each(|place| outlook.answered(&sentinel(place), answer(0), now));
        goes_to(&mut outlook, now)
    };
    assert_eq!(
        again(now),
        Some(server(6)),
        "the one that knows better may come back"
    );
    now += FORGOTTEN;
    assert_eq!(again(now), Some(server(0)));
}

#[test]
fn sentinels_of_one_epoch_do_not_make_connections_go_back_and_forth() {
    let now = Instant::now();
    let mut outlook = outlook(Role::Master, now);
    outlook.answered(&sentinel(0), answer(1), now);
    let version = outlook.version();
    // By its name, and not by its address.
    let other = Answer {
        master: Some((Node::new("name", 2), 1)),
        ..Answer::default()
    };
    for _ in 0..3 {
        outlook.answered(&sentinel(1), other.clone(), now);
        outlook.answered(&sentinel(0), answer(1), now);
    }
    assert_eq!(outlook.version(), version);
    outlook.answered(&sentinel(0), other, now);
    assert_ne!(outlook.version(), version, "none names the first any more");
}

#[test]
fn learned_sentinels_are_asked_once_and_forgotten_when_gone() {
    let now = Instant::now();
    let mut outlook = Outlook::new("m", Role::Master, &[Node::new("localhost", 1)], now);
    let seed = Node::new("localhost", 1);
    let meet = |id: &str, others: &[(&str, u16)]| Answer {
        id: Some(id.into()),
        sentinels: others
            .iter()
            .map(|&(id, port)| (Some(id.into()), Node::new("127.0.0.1", port)))
            .collect(),
        ..answer(1)
    };
    outlook.answered(&seed, meet("a", &[("b", 2)]), now);
    // The other one names the first by another address.
    let second = Node::new("127.0.0.1", 2);
    outlook.answered(&second, meet("b", &[("a", 1), ("c", 3)]), now);
    let third = Node::new("127.0.0.1", 3);
    let known: Vec<&Node> = outlook.sentinels().collect();
    assert_eq!(known, [&seed, &second, &third]);
    outlook.failed(&third, refused(), now);
    assert_eq!(outlook.sentinels().count(), 3, "it may come back");
    outlook.answered(&second, meet("b", &[("a", 1)]), now);
    outlook.failed(&third, refused(), now);
    assert_eq!(outlook.sentinels().count(), 2);
    assert!(outlook.ask_at(&third, now).is_none());
}

#[test]
fn replicas_are_used_in_turn_and_the_master_without_them() {
    let now = Instant::now();
    let mut outlook = outlook(Role::Replica, now);
    let with = |replicas: &[u64]| Answer {
        replicas: replicas.iter().map(|&one| server(one)).collect(),
        ..answer(1)
    };
    for place in 0..SENTINELS {
        outlook.answered(&sentinel(place), with(&[2, 3]), now);
    }
    let mut seen: Vec<Node> = (0..2).filter_map(|_| goes_to(&mut outlook, now)).collect();
    seen.sort();
    assert_eq!(seen, [server(2), server(3)]);
    assert!(!outlook.allows(&server(1)));
    for place in 0..SENTINELS {
        outlook.answered(&sentinel(place), with(&[]), now);
    }
    assert_eq!(goes_to(&mut outlook, now), Some(server(1)));
    assert!(!outlook.allows(&server(2)));
}

#[test]
fn events_of_other_names_mean_nothing() {
    let push = |channel: &str, payload: &str| {
        let parts = ["message", channel, payload];
        OwnedReply::Push(parts.map(|part| OwnedReply::Bulk(part.into())).to_vec())
    };
    let read = |channel: &str, payload: &str| SentinelEvent::read(&push(channel, payload), "m");
    let switched = read("+switch-master", "m 10.0.0.1 1 10.0.0.2 2");
    assert_eq!(switched, Some(SentinelEvent::Changed));
    assert_eq!(read("+switch-master", "other 10.0.0.1 1 10.0.0.2 2"), None);
    let selected = "slave 10.0.0.2:2 10.0.0.2 2 @ m 10.0.0.1 1";
    assert_eq!(
        read("+selected-slave", selected),
        Some(SentinelEvent::Selected(Node::new("10.0.0.2", 2)))
    );
    assert_eq!(read("+selected-slave", "slave x x 2 @ other y 1"), None);
    assert_eq!(
        read("-failover-abort-slave-timeout", "master m 10.0.0.1 1"),
        Some(SentinelEvent::Aborted)
    );
}
