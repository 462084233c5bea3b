//! Requests on their way through a cluster that is simulated, in virtual time.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use loadline_resp::{Decoder, Limits, OwnedReply, Reply};
use proptest::prelude::*;

use super::batch::{Batch, Group, Next};
use super::plan::{Encoded, Plan};
use super::replies::Outcome;
use super::topology::{Node, Topology};
use super::{ReadFrom, slot_of};
use crate::commands::{get, mset, rpush, set, wait};
use crate::request::Requests;
use crate::{Address, Config, Error, Request, RetryPolicy};

const NODES: usize = 3;

fn node(place: usize) -> Node {
    Node::new(format!("node{place}"), 7000)
}

fn config(retry: RetryPolicy) -> Config {
    let mut config = Config::new(Address::Tcp {
        host: "seed".into(),
        port: 1,
    });
    config.retry = retry;
    config
}

/// A map on which these keys are served by these nodes.
fn map(owners: &[(&str, usize)]) -> Topology {
    let mut topology = Topology::empty();
    for (key, owner) in owners {
        topology.moved(slot_of(key.as_bytes()), node(*owner));
    }
    topology
}

fn plan(request: &impl Request, topology: &Topology) -> Plan {
    Plan::new(encoded(request), topology, 0).unwrap()
}

fn encoded(request: &impl Request) -> Encoded {
    Encoded::of(request, false).unwrap()
}

fn error(text: impl Into<String>) -> Outcome {
    Ok(OwnedReply::Error(text.into().into_bytes()))
}

fn lost(maybe_executed: bool) -> Outcome {
    Err(Error::connection(
        io::ErrorKind::ConnectionReset.into(),
        maybe_executed,
    ))
}

fn number(number: i64) -> Outcome {
    Ok(OwnedReply::Integer(number))
}

/// The commands of a group, each as its words.
fn commands(group: &Group<'_>) -> Vec<Vec<String>> {
    let mut wire = Vec::new();
    group.encode(&mut Requests::new(&mut wire, false));
    let (mut rest, mut commands) = (&wire[..], Vec::new());
    while let Some((Reply::Array(words), end)) =
        Decoder::new(Limits::default()).decode(rest).unwrap()
    {
        let text = |word: &Reply<'_>| String::from_utf8(word.as_bytes().unwrap().into()).unwrap();
        commands.push(words.iter().map(text).collect());
        rest = &rest[end..];
    }
    commands
}

/// Drives a request, whose groups `answer` answers, to its end. Redirections are followed by the request
/// itself; the map stays as it is.
fn drive(
    request: &impl Request,
    topology: &Topology,
    retry: RetryPolicy,
    mut answer: impl FnMut(&Node, Vec<Vec<String>>) -> Vec<Outcome>,
) -> Vec<Outcome> {
    let plan = plan(request, topology);
    let mut now = Instant::now();
    let mut batch = Batch::new(&plan, &config(retry), now);
    loop {
        for group in batch.groups(topology, ReadFrom::Master, 0, now) {
            let outcomes = answer(&group.node, commands(&group));
            batch.settle(&group, outcomes);
        }
        match batch.next(now) {
            Next::Finish => return batch.finish(),
            Next::Again(pause) => now += pause.max(Duration::from_micros(100)),
        }
    }
}

fn texts(outcomes: &[Outcome]) -> Vec<String> {
    let text = |outcome: &Outcome| match outcome {
        Ok(OwnedReply::Error(text)) => String::from_utf8(text.clone()).unwrap(),
        Ok(reply) => format!("{reply:?}"),
        Err(error) => format!("maybe_executed: {}", error.maybe_executed()),
    };
    outcomes.iter().map(text).collect()
}

#[test]
#[cfg(feature = "tokio")]
fn wait_follows_its_write_to_another_node() {
    let topology = map(&[("k", 0)]);
    let request = (rpush("k", "v"), wait(1, Duration::from_millis(100)));
    let plan = Plan::on_slot(encoded(&request), slot_of(b"k")).unwrap();
    let now = Instant::now();
    let mut batch = Batch::new(&plan, &config(RetryPolicy::Never), now);
    let mut sent = Vec::new();
    for first in [
        error(format!("MOVED {} node1:7000", slot_of(b"k"))),
        number(1),
    ] {
        for group in batch.groups(&topology, ReadFrom::Master, 0, now) {
            sent.push((group.node.clone(), commands(&group).len()));
            batch.settle(&group, vec![first.clone(), number(0)]);
        }
    }
    assert_eq!(batch.next(now), Next::Finish);
    assert_eq!(sent, [(node(0), 2), (node(1), 2)]);
    let outcomes = batch.finish();
    assert!(matches!(
        outcomes[..],
        [Ok(OwnedReply::Integer(1)), Ok(OwnedReply::Integer(0))]
    ));
}

/// `SET` alone could be repeated by this policy, and the number of replicas would be about the second one.
#[test]
#[cfg(feature = "tokio")]
fn write_with_a_wait_is_not_repeated_after_a_lost_connection() {
    let topology = map(&[("k", 0)]);
    let request = (set("k", "v"), wait(1, Duration::from_millis(100)));
    let plan = Plan::on_slot(encoded(&request), slot_of(b"k")).unwrap();
    let now = Instant::now();
    let mut batch = Batch::new(&plan, &config(RetryPolicy::Idempotent), now);
    let groups = batch.groups(&topology, ReadFrom::Master, 0, now);
    batch.settle(&groups[0], vec![lost(true), lost(true)]);
    assert_eq!(batch.next(now), Next::Finish);
    assert_eq!(texts(&batch.finish()), ["maybe_executed: true"; 2]);
}

#[test]
#[cfg(feature = "tokio")]
fn wait_without_a_write_and_keys_of_another_slot_are_refused() {
    let refused = |request: &dyn Fn() -> Result<Plan, Error>| request().unwrap_err().to_string();
    let replicas = || wait(1, Duration::from_millis(1));
    let slot = slot_of(b"k");
    let alone = refused(&|| Plan::on_slot(encoded(&replicas()), slot));
    assert!(alone.contains("the writes before it"), "{alone}");
    let other = refused(&|| Plan::on_slot(encoded(&(set("other", 1), replicas())), slot));
    assert!(other.contains("another slot"), "{other}");
    let shared = refused(&|| {
        let topology = map(&[("k", 0)]);
        Plan::new(encoded(&(set("k", 1), replicas())), &topology, 0)
    });
    assert!(shared.contains("a connection of its own"), "{shared}");
}

#[test]
fn redirections_are_followed_five_times() {
    let topology = map(&[("k", 0)]);
    let mut asked = Vec::new();
    let outcomes = drive(
        &rpush("k", "v"),
        &topology,
        RetryPolicy::Never,
        |asked_node, _| {
            asked.push(asked_node.clone());
            vec![error(format!(
                "MOVED {} node{}:7000",
                slot_of(b"k"),
                asked.len() % 2
            ))]
        },
    );
    assert_eq!(asked.len(), 6);
    assert!(texts(&outcomes)[0].starts_with("MOVED"));
}

#[test]
fn key_that_is_moving_is_asked_for_in_the_same_request_as_the_command() {
    let topology = map(&[("k", 0)]);
    let mut sent = Vec::new();
    let outcomes = drive(
        &rpush("k", "v"),
        &topology,
        RetryPolicy::Never,
        |asked, commands| {
            sent.push((asked.clone(), commands));
            match sent.len() {
                1 => vec![error(format!("ASK {} node1:7000", slot_of(b"k")))],
                _ => vec![Ok(OwnedReply::Simple(b"OK".to_vec())), number(1)],
            }
        },
    );
    assert_eq!(outcomes.len(), 1);
    assert!(matches!(outcomes[0], Ok(OwnedReply::Integer(1))));
    assert_eq!(sent[1].0, node(1));
    let words: Vec<String> = sent[1].1.iter().map(|words| words.join(" ")).collect();
    assert_eq!(words, ["ASKING", "RPUSH k v"]);
}

#[test]
fn refusals_are_waited_out_for_the_response_timeout() {
    let topology = map(&[("k", 0)]);
    let mut tries = 0;
    let outcomes = drive(&rpush("k", "v"), &topology, RetryPolicy::Never, |_, _| {
        tries += 1;
        vec![error("CLUSTERDOWN The cluster is down")]
    });
    assert!(texts(&outcomes)[0].starts_with("CLUSTERDOWN"));
    // Pauses of up to 25 ms in 2 s, the first of them shorter.
    assert!((80..400).contains(&tries), "{tries}");
}

/// The error of a round that the deadline cut off.
fn late(maybe_executed: bool) -> Outcome {
    Err(Error::Timeout {
        maybe_executed,
        after: Duration::from_secs(2),
    })
}

/// The end of a request that was answered with `first`, and then not before the deadline.
fn cut_off(request: &impl Request, first: Outcome, last: Outcome) -> String {
    let mut rounds = vec![vec![last], vec![first]];
    let topology = map(&[("k", 0)]);
    let outcomes = drive(request, &topology, RetryPolicy::ReadOnly, |_, _| {
        rounds.pop().expect("a round that was cut off is the last")
    });
    match &outcomes[0] {
        Ok(OwnedReply::Error(text)) => String::from_utf8(text.clone()).unwrap(),
        Ok(reply) => format!("{reply:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn request_cut_off_by_the_deadline_ends_with_its_last_reply() {
    let loading = || error("LOADING Redis is loading the dataset in memory");
    let (read, write) = (get::<()>("k"), rpush("k", "v"));
    assert!(cut_off(&write, loading(), late(false)).starts_with("LOADING"));
    assert!(cut_off(&read, loading(), late(true)).starts_with("LOADING"));
    let unreached = cut_off(&write, lost(false), late(false));
    assert!(unreached.contains("connection reset"), "{unreached}");
    // It may have run, whatever the node said before.
    let unknown = cut_off(&write, loading(), late(true));
    assert!(unknown.contains("no reply"), "{unknown}");
    // A try before it may have run.
    let earlier = cut_off(&read, lost(true), late(false));
    assert!(earlier.contains("connection reset"), "{earlier}");
}

/// The map was asked for until the deadline, or the pause was long.
#[test]
fn request_that_cannot_be_sent_before_the_deadline_is_not_sent() {
    let topology = map(&[("k", 0)]);
    let plan = plan(&rpush("k", "v"), &topology);
    let now = Instant::now();
    let mut batch = Batch::new(&plan, &config(RetryPolicy::Never), now);
    for group in batch.groups(&topology, ReadFrom::Master, 0, now) {
        batch.settle(&group, vec![lost(false)]);
    }
    assert!(matches!(batch.next(now), Next::Again(_)));
    let late = batch.deadline().unwrap();
    assert!(
        batch
            .groups(&topology, ReadFrom::Master, 0, late)
            .is_empty()
    );
    assert_eq!(batch.next(late), Next::Finish);
    assert_eq!(texts(&batch.finish()), ["maybe_executed: false"]);
}

#[test]
fn unserved_slot_is_an_error_of_the_cluster() {
    let outcomes = drive(&get::<()>("k"), &map(&[]), RetryPolicy::ReadOnly, |_, _| {
        panic!("there is no node to ask")
    });
    assert!(matches!(&outcomes[0], Err(Error::Cluster(text)) if text.contains("7629")));
}

#[test]
fn lost_write_is_not_sent_again_and_a_lost_read_is_three_times_at_most() {
    let topology = map(&[("k", 0)]);
    for (maybe_executed, policy, expected) in [
        (true, RetryPolicy::ReadOnly, 1),
        (true, RetryPolicy::Idempotent, 1),
        (true, RetryPolicy::Never, 1),
    ] {
        let mut tries = 0;
        let outcomes = drive(&rpush("k", "v"), &topology, policy, |_, _| {
            tries += 1;
            vec![lost(maybe_executed)]
        });
        assert_eq!(tries, expected);
        assert_eq!(texts(&outcomes), ["maybe_executed: true"]);
    }
    let mut tries = 0;
    drive(&get::<()>("k"), &topology, RetryPolicy::ReadOnly, |_, _| {
        tries += 1;
        vec![lost(true)]
    });
    assert_eq!(tries, 3);
    let mut tries = 0;
    let outcomes = drive(&rpush("k", "v"), &topology, RetryPolicy::Never, |_, _| {
        tries += 1;
        if tries < 10 {
            vec![lost(false)]
        } else {
            vec![number(1)]
        }
    });
    assert_eq!(
        texts(&outcomes),
        ["Integer(1)"],
        "what was never sent is sent"
    );
}

#[test]
fn write_that_may_have_run_is_not_reported_as_refused() {
    let topology = map(&[("k", 0)]);
    let mut tries = 0;
    let outcomes = drive(
        &set("k", "v"),
        &topology,
        RetryPolicy::Idempotent,
        |_, _| {
            tries += 1;
            match tries {
                1 => vec![lost(true)],
                _ => vec![error("CLUSTERDOWN The cluster is down")],
            }
        },
    );
    assert!(tries > 1);
    assert_eq!(texts(&outcomes), ["maybe_executed: true"]);
}

#[test]
fn master_that_became_a_replica_is_asked_again_after_a_look_at_the_map() {
    let topology = map(&[("k", 0)]);
    let plan = plan(&rpush("k", "v"), &topology);
    let now = Instant::now();
    let mut batch = Batch::new(&plan, &config(RetryPolicy::Never), now);
    for group in batch.groups(&topology, ReadFrom::Master, 0, now) {
        let text = "READONLY You can't write against a read only replica.";
        batch.settle(&group, vec![error(text)]);
    }
    assert!(batch.is_troubled(), "the map is to be asked for");
    assert!(matches!(batch.next(now), Next::Again(_)));
    let promoted = map(&[("k", 1)]);
    let again = batch.groups(&promoted, ReadFrom::Master, 0, now);
    assert_eq!(again[0].node, node(1));
}

#[test]
fn refused_command_does_not_overtake_later_ones() {
    let topology = map(&[("k", 0), ("other", 0)]);
    let request = (rpush("k", "1"), rpush("k", "2"), rpush("other", "3"));
    let mut sent = Vec::new();
    let outcomes = drive(&request, &topology, RetryPolicy::Never, |_, commands| {
        sent.extend(commands.iter().map(|words| words[2].clone()));
        let answers = |words: &Vec<String>| match (&words[2][..], sent.len()) {
            ("1", _) | ("3", 3) => error("CLUSTERDOWN The cluster is down"),
            _ => number(1),
        };
        commands.iter().map(answers).collect()
    });
    assert_eq!(sent, ["1", "2", "3", "3"]);
    let expected = [
        "CLUSTERDOWN The cluster is down",
        "Integer(1)",
        "Integer(1)",
    ];
    assert_eq!(texts(&outcomes), expected);
}

#[test]
fn split_command_says_that_it_may_have_run_where_a_part_did() {
    let topology = map(&[("a", 0), ("b", 1)]);
    let request = mset([("a", 1), ("b", 2)]);
    let outcomes = drive(
        &request,
        &topology,
        RetryPolicy::Never,
        |asked, commands| {
            assert_eq!(commands.len(), 1, "one slot each");
            if *asked == node(0) {
                return vec![Ok(OwnedReply::Simple(b"OK".to_vec()))];
            }
            assert_eq!(commands[0], ["MSET", "b", "2"]);
            vec![lost(true)]
        },
    );
    assert_eq!(texts(&outcomes), ["maybe_executed: true"]);
}

#[test]
fn replicas_read_in_turn_and_the_master_where_one_does_not_answer() {
    let text = |text: &str| OwnedReply::Bulk(text.into());
    let member = |place: usize| {
        OwnedReply::Array(vec![
            text(&format!("node{place}")),
            OwnedReply::Integer(7000),
        ])
    };
    let range = OwnedReply::Array(vec![
        OwnedReply::Integer(0),
        OwnedReply::Integer(16_383),
        member(0),
        member(1),
        member(2),
    ]);
    let reply = OwnedReply::Array(vec![range]);
    let topology = Topology::read(&reply, &Node::new("seed", 1)).unwrap();
    let read = plan(&get::<()>("k"), &topology);
    let now = Instant::now();
    let asked = |from, turn| {
        let mut batch = Batch::new(&read, &config(RetryPolicy::ReadOnly), now);
        let first = batch.groups(&topology, from, turn, now).remove(0);
        batch.settle(&first, vec![lost(false)]);
        let again = batch.groups(&topology, from, turn, now).remove(0);
        assert_eq!(again.node, node(0));
        first.node
    };
    assert_eq!(asked(ReadFrom::Replica, 0), node(1));
    assert_eq!(asked(ReadFrom::Replica, 1), node(2));
    assert_eq!(asked(ReadFrom::Any, 2), node(0));
    assert_eq!(asked(ReadFrom::Near, 1), node(2), "none is near");
    assert_eq!(asked(ReadFrom::Master, 1), node(0));
    let both = plan(&(get::<()>("k"), rpush("k", 1)), &topology);
    let mut batch = Batch::new(&both, &config(RetryPolicy::ReadOnly), now);
    let groups = batch.groups(&topology, ReadFrom::Replica, 0, now);
    assert_eq!(groups[0].node, node(0), "who writes reads from the master");
}

#[test]
fn reads_prefer_near_replicas_then_any_then_the_master() {
    let text = |text: &str| OwnedReply::Bulk(text.into());
    let member = |place: usize| {
        OwnedReply::Array(vec![
            text(&format!("node{place}")),
            OwnedReply::Integer(7000),
        ])
    };
    let range = |first: i64, last: i64, places: &[usize]| {
        let mut fields = vec![OwnedReply::Integer(first), OwnedReply::Integer(last)];
        fields.extend(places.iter().map(|place| member(*place)));
        OwnedReply::Array(fields)
    };
    let split = i64::from(slot_of(b"k"));
    let now = Instant::now();
    let reader = |places: &[usize], near: &[usize], turn| {
        let reply = OwnedReply::Array(vec![range(split, split, places)]);
        let mut topology = Topology::read(&reply, &Node::new("seed", 1)).unwrap();
        topology.prefer(&near.iter().map(|place| node(*place)).collect());
        let read = plan(&get::<()>("k"), &topology);
        let mut batch = Batch::new(&read, &config(RetryPolicy::ReadOnly), now);
        batch
            .groups(&topology, ReadFrom::Near, turn, now)
            .remove(0)
            .node
    };
    let all = [0, 1, 2, 3, 4];
    let near = [2, 4];
    let readers: Vec<_> = (0..4).map(|turn| reader(&all, &near, turn)).collect();
    assert_eq!(readers, [node(2), node(4), node(2), node(4)]);
    // A master that is near is not preferred to a replica that is not.
    assert_eq!(reader(&[0, 1], &[0], 0), node(1));
    assert_eq!(reader(&[0], &near, 0), node(0));
}

/// Chances of a test's own (SplitMix64: Steele, Lea, Flood, 2014).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 33) as usize % limit
    }
}

/// Keys in three slots, four in each.
const KEYS: [&str; 12] = [
    "{a}0", "{a}1", "{a}2", "{a}3", "{b}0", "{b}1", "{b}2", "{b}3", "{c}0", "{c}1", "{c}2", "{c}3",
];

/// Nodes that move slots, fail and lose connections by chance, and execute commands as Redis does.
struct Simulation {
    chance: Chance,
    /// The owner of each slot.
    owner: HashMap<u16, usize>,
    /// The importer of each slot that is moving.
    importer: HashMap<u16, usize>,
    /// Number of times that each slot has started to move. It does not come back to a node that had it, since what
    /// `ASK` says holds for one move only.
    moves: HashMap<u16, usize>,
    /// The content of each node: lists of values by key.
    lists: Vec<HashMap<String, Vec<String>>>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let owner = KEYS.map(|key| (slot_of(key.as_bytes()), chance.below(NODES)));
        Self {
            owner: owner.into(),
            importer: HashMap::new(),
            moves: HashMap::new(),
            lists: vec![HashMap::new(); NODES],
            chance,
        }
    }

    fn topology(&self) -> Topology {
        // One key of each slot is enough.
        let owners: Vec<(&str, usize)> = KEYS
            .iter()
            .step_by(4)
            .map(|key| (*key, self.owner[&slot_of(key.as_bytes())]))
            .collect();
        map(&owners)
    }

    /// A slot starts or ends to move, or one of its keys moves.
    fn event(&mut self) {
        let key = KEYS[self.chance.below(KEYS.len())];
        let slot = slot_of(key.as_bytes());
        let owner = self.owner[&slot];
        let Some(&importer) = self.importer.get(&slot) else {
            let moves = self.moves.entry(slot).or_default();
            if *moves + 1 < NODES {
                *moves += 1;
                self.importer.insert(slot, (owner + 1) % NODES);
            }
            return;
        };
        if let Some(list) = self.lists[owner].remove(key) {
            self.lists[importer].insert(key.to_owned(), list);
            return;
        }
        let left = |key: &&&str| slot_of(key.as_bytes()) == slot;
        if KEYS
            .iter()
            .filter(left)
            .all(|key| !self.lists[owner].contains_key(*key))
        {
            self.owner.insert(slot, importer);
            self.importer.remove(&slot);
        }
    }

    fn answer(&mut self, group: &Group<'_>) -> Vec<Outcome> {
        let place = (0..NODES).find(|place| node(*place) == group.node).unwrap();
        let commands = commands(group);
        if self.chance.below(8) == 0 {
            return vec![lost(false); commands.len()];
        }
        let down = self.chance.below(10) == 0;
        // The connection breaks before the reply to this command.
        let cut = self.chance.below(2 * commands.len() + 4);
        let mut asking = false;
        let mut outcomes = Vec::new();
        for (number, words) in commands.iter().enumerate() {
            if self.chance.below(3) == 0 {
                self.event();
            }
            let down = down && self.chance.below(2) == 0;
            let reply = self.execute(place, words, asking, down);
            asking = words[0] == "ASKING";
            outcomes.push(if number < cut { reply } else { lost(true) });
        }
        outcomes
    }

    fn execute(&mut self, place: usize, words: &[String], asking: bool, down: bool) -> Outcome {
        let [_, key, value] = words else {
            return Ok(OwnedReply::Simple(b"OK".to_vec()));
        };
        let slot = slot_of(key.as_bytes());
        let owner = self.owner[&slot];
        let importer = self.importer.get(&slot).copied();
        let here = self.lists[place].contains_key(key);
        if down {
            return error("CLUSTERDOWN The cluster is down");
        }
        if owner != place && !(asking && importer == Some(place)) {
            return error(format!("MOVED {slot} node{owner}:7000"));
        }
        if let (true, false, Some(importer)) = (owner == place, here, importer) {
            return error(format!("ASK {slot} node{importer}:7000"));
        }
        let list = self.lists[place].entry(key.clone()).or_default();
        list.push(value.clone());
        number(list.len() as i64)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Every write runs at most once, in the order of its key, under any behaviour of the cluster, and the
    /// answer to its caller is true.
    #[test]
    fn no_write_runs_twice_or_out_of_order_and_none_is_lost_unsaid(
        seed in any::<u64>(),
        picks in prop::collection::vec(0..KEYS.len(), 1..30),
    ) {
        let mut simulation = Simulation::new(seed);
        let mut topology = simulation.topology();
        for _ in 0..simulation.chance.below(20) {
            simulation.event();
        }
        let pushes: Vec<_> = picks.iter().enumerate().map(|(id, pick)| rpush(KEYS[*pick], id)).collect();
        let plan = plan(&pushes, &topology);
        let mut now = Instant::now();
        let mut batch = Batch::new(&plan, &config(RetryPolicy::Idempotent), now);
        loop {
            for group in batch.groups(&topology, ReadFrom::Any, 0, now) {
                let outcomes = simulation.answer(&group);
                batch.settle(&group, outcomes);
            }
            for (slot, master) in batch.take_moved() {
                topology.moved(slot, master);
            }
            if batch.is_troubled() && simulation.chance.below(2) == 0 {
                topology = simulation.topology();
            }
            match batch.next(now) {
                Next::Finish => break,
                Next::Again(pause) => now += pause.max(Duration::from_micros(100)),
            }
        }
        let outcomes = batch.finish();
        let mut ran: HashMap<usize, usize> = HashMap::new();
        for list in simulation.lists.iter().flat_map(HashMap::values) {
            let ids: Vec<usize> = list.iter().map(|id| id.parse().unwrap()).collect();
            prop_assert!(ids.is_sorted(), "out of order: {ids:?}");
            for id in ids {
                *ran.entry(id).or_default() += 1;
            }
        }
        for (id, outcome) in outcomes.iter().enumerate() {
            let times = ran.get(&id).copied().unwrap_or(0);
            match outcome {
                Ok(OwnedReply::Integer(_)) => prop_assert_eq!(times, 1),
                Ok(_) => prop_assert_eq!(times, 0),
                Err(error) if error.maybe_executed() => prop_assert!(times <= 1),
                Err(_) => prop_assert_eq!(times, 0),
            }
        }
    }
}
