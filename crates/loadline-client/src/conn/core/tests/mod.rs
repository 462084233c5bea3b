//! A connection and a server in virtual time, with every order of events.

mod cases;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use loadline_resp::{Limits, RequestParser, encode};
use proptest::prelude::*;

use super::*;
use crate::conn::session::MOST_TRIES;
use crate::{Address, Cmd, RetryPolicy, cmd};

const TIMEOUT: Duration = Duration::from_millis(500);
const QUEUE_BYTES: usize = 2400;

/// A caller that knows whether it was woken.
#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Pair = (Cmd<String>, Cmd<String>);

/// The request of a caller: an echo of its number, by a command that may be repeated or one that must not.
enum Ask {
    One(Cmd<String>),
    Two(Pair),
}

struct Caller {
    ask: Ask,
    slot: SlotId,
    bell: Arc<Bell>,
}

/// The other end: it executes commands in their order, and answers with their last argument.
struct Server {
    parser: RequestParser,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    executed: HashMap<String, u32>,
}

impl Server {
    fn new() -> Self {
        Self {
            parser: RequestParser::new(Limits::default()),
            inbox: Vec::new(),
            outbox: Vec::new(),
            executed: HashMap::new(),
        }
    }

    fn hang_up(&mut self) {
        self.parser.reset();
        self.inbox.clear();
        self.outbox.clear();
    }

    /// Executes up to this number of commands.
    fn run(&mut self, commands: usize) {
        for _ in 0..commands {
            let parsed = self.parser.parse(&self.inbox);
            let (used, request) = parsed.expect("the client sends requests");
            let args: Option<Vec<Vec<u8>>> =
                request.map(|request| request.iter().map(<[u8]>::to_vec).collect());
            self.inbox.drain(..used);
            let Some(args) = args else { return };
            let last = String::from_utf8(args.last().unwrap().clone()).unwrap();
            match args[0].as_slice() {
                b"HELLO" => self.outbox.extend_from_slice(b"%1\r\n+proto\r\n:3\r\n"),
                b"PING" => self.outbox.extend_from_slice(b"+PONG\r\n"),
                _ => {
                    *self.executed.entry(last.clone()).or_default() += 1;
                    encode::bulk(&mut self.outbox, last.as_bytes());
                }
            }
        }
    }
}

struct World {
    conn: Conn,
    server: Server,
    now: Instant,
    callers: HashMap<u32, Caller>,
    /// Requests that were taken back, and will not be executed.
    withdrawn: Vec<u32>,
    next: u32,
    policy: RetryPolicy,
    linked: bool,
    pushes: usize,
}

/// The requests by number: even ones may be repeated.
fn repeatable(number: u32) -> bool {
    number.is_multiple_of(2)
}

fn command(number: u32, part: u32) -> Cmd<String> {
    let name = if repeatable(number) { "GET" } else { "INCR" };
    cmd(name).arg(format!("{number}.{part}"))
}

impl World {
    fn new(policy: RetryPolicy) -> Self {
        let mut config = Config::new(Address::Unix("/nowhere".into()));
        config.retry = policy;
        config.response_timeout = Some(TIMEOUT);
        config.keepalive = Some(2 * TIMEOUT);
        config.max_queue_bytes = QUEUE_BYTES;
        let now = Instant::now();
        Self {
            conn: Conn::new(Arc::new(config), true, now),
            server: Server::new(),
            now,
            callers: HashMap::new(),
            withdrawn: Vec::new(),
            next: 0,
            policy,
            linked: false,
            pushes: 0,
        }
    }

    fn submit(&mut self, two: bool) {
        let number = self.next;
        self.next += 1;
        let bell = Arc::new(Bell::default());
        let waker = Arc::clone(&bell).into();
        let ask = if two {
            Ask::Two((command(number, 0), command(number, 1)))
        } else {
            Ask::One(command(number, 0))
        };
        let taken = match &ask {
            Ask::One(one) => self.conn.submit(one, false, &waker, &mut Meter::begin()),
            Ask::Two(two) => self.conn.submit(two, false, &waker, &mut Meter::begin()),
        };
        match taken {
            Ok((slot, _)) => {
                let caller = Caller { ask, slot, bell };
                self.callers.insert(number, caller);
            }
            Err(Error::QueueFull { .. }) => self.check_untouched(number),
            Err(error) => panic!("{error}"),
        }
        assert!(self.conn.out.unanswered() <= QUEUE_BYTES as u64 + 100);
    }

    fn cancel(&mut self, pick: usize) {
        if let Some((_, caller)) = self.remove_caller(pick) {
            self.conn.cancel(caller.slot);
        }
    }

    fn withdraw(&mut self, pick: usize) {
        if let Some((number, caller)) = self.remove_caller(pick)
            && !self.conn.withdraw(caller.slot)
        {
            self.withdrawn.push(number);
        }
    }

    fn remove_caller(&mut self, pick: usize) -> Option<(u32, Caller)> {
        let mut numbers: Vec<u32> = self.callers.keys().copied().collect();
        numbers.sort_unstable();
        let number = *numbers.get(pick.checked_rem(numbers.len())?)?;
        let caller = self.callers.remove(&number)?;
        Some((number, caller))
    }

    fn flush(&mut self, bytes: usize) {
        if let Some(outgoing) = self.conn.outgoing() {
            let bytes = bytes.min(outgoing.bytes().len());
            self.server
                .inbox
                .extend_from_slice(&outgoing.bytes()[..bytes]);
            self.conn.wrote(outgoing, bytes);
        }
    }

    fn deliver(&mut self, bytes: usize) {
        let bytes = bytes.min(self.server.outbox.len());
        let delivered: Vec<u8> = self.server.outbox.drain(..bytes).collect();
        let mut events = Events::default();
        self.conn
            .receive(&delivered, self.now, &mut events)
            .unwrap();
        self.act(events);
    }

    fn push(&mut self) {
        // Pushes come between replies.
        if self.linked && self.server.outbox.is_empty() && self.conn.inbound.fresh {
            self.server
                .outbox
                .extend_from_slice(b">2\r\n+message\r\n+hello\r\n");
            self.pushes += 1;
        }
    }

    fn break_off(&mut self, executed_first: usize) {
        if !self.linked {
            return;
        }
        self.server.run(executed_first);
        self.lose(&Error::connection(
            io::ErrorKind::ConnectionReset.into(),
            true,
        ));
    }

    fn lose(&mut self, error: &Error) {
        self.server.hang_up();
        self.linked = false;
        let mut events = Events::default();
        self.conn.broke(error, self.now, &mut events);
        self.act(events);
    }

    fn connect(&mut self) {
        if !self.linked {
            self.linked = true;
            self.conn.connected(self.now);
        }
    }

    fn advance(&mut self, time: Duration) {
        self.now += time;
        let mut events = Events::default();
        let overdue = self.conn.turn(self.now, &mut events);
        self.act(events);
        if let Err(error) = overdue {
            assert!(
                self.linked,
                "only a connection has replies that are overdue"
            );
            self.lose(&error);
        }
    }

    /// Wakes the waiting tasks and polls them.
    fn act(&mut self, events: Events) {
        events.wake.into_iter().for_each(std::task::Waker::wake);
        let woken: Vec<u32> = self
            .callers
            .iter()
            .filter(|(_, caller)| caller.bell.0.load(Ordering::Relaxed))
            .map(|(number, _)| *number)
            .collect();
        for number in woken {
            let caller = self.callers.remove(&number).unwrap();
            let waker = Arc::clone(&caller.bell).into();
            let results = match &caller.ask {
                Ask::One(one) => vec![read(&mut self.conn, caller.slot, &waker, one)],
                Ask::Two(two) => {
                    let (first, second) = read(&mut self.conn, caller.slot, &waker, two);
                    vec![first, second]
                }
            };
            for (part, result) in results.into_iter().enumerate() {
                self.check(number, part, result);
            }
        }
    }

    fn check(&self, number: u32, part: usize, result: Result<String, Error>) {
        let key = format!("{number}.{part}");
        let executed = self.server.executed.get(&key).copied().unwrap_or(0);
        match result {
            Ok(reply) => {
                assert_eq!(reply, key, "a reply came to the wrong caller");
                assert!(executed >= 1, "{key} was answered and not executed");
            }
            Err(error) => {
                if !error.maybe_executed() {
                    assert_eq!(executed, 0, "{key} was said not to have run: {error}");
                }
            }
        }
        let may_repeat = repeatable(number) && self.policy != RetryPolicy::Never;
        assert!(
            executed <= 1 || may_repeat,
            "{key} was executed {executed} times"
        );
    }

    fn check_untouched(&self, number: u32) {
        let key = format!("{number}.0");
        assert!(
            !self.server.executed.contains_key(&key),
            "{key} was refused and executed"
        );
    }

    /// Lets everything come to its end.
    fn settle(&mut self) {
        for _ in 0..8 {
            self.connect();
            for _ in 0..50 {
                self.flush(usize::MAX);
                self.server.run(usize::MAX);
                self.deliver(usize::MAX);
            }
        }
        assert!(
            self.callers.is_empty(),
            "{} callers wait for ever",
            self.callers.len()
        );
        assert_eq!(self.conn.out.unanswered(), 0);
        for &number in &self.withdrawn {
            self.check_untouched(number);
        }
        for (key, executed) in &self.server.executed {
            let number: u32 = key.split('.').next().unwrap().parse().unwrap();
            let may_repeat = repeatable(number) && self.policy != RetryPolicy::Never;
            assert!(
                *executed <= 1 || may_repeat,
                "{key} was executed {executed} times"
            );
        }
        assert!(self.conn.buffer_bytes() < 64 << 10);
    }
}

fn read<Q: Request>(conn: &mut Conn, slot: SlotId, waker: &Waker, request: &Q) -> Q::Output {
    match conn.poll(slot, waker, Vec::new) {
        Poll::Ready(taken) => request.decode(&mut taken.replies()),
        Poll::Pending => panic!("a caller was woken for nothing"),
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Submit { two: bool },
    Cancel(usize),
    Withdraw(usize),
    Flush(usize),
    Run(usize),
    Deliver(usize),
    Push,
    Break { executed_first: usize },
    Connect,
    Advance(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => any::<bool>().prop_map(|two| Event::Submit { two }),
        2 => any::<usize>().prop_map(Event::Cancel),
        2 => any::<usize>().prop_map(Event::Withdraw),
        6 => (0usize..200).prop_map(Event::Flush),
        6 => (0usize..6).prop_map(Event::Run),
        6 => (0usize..60).prop_map(Event::Deliver),
        1 => Just(Event::Push),
        1 => (0usize..8).prop_map(|executed_first| Event::Break { executed_first }),
        3 => Just(Event::Connect),
        2 => (0u64..400).prop_map(Event::Advance),
    ]
}

fn policies() -> impl Strategy<Value = RetryPolicy> {
    prop_oneof![
        Just(RetryPolicy::ReadOnly),
        Just(RetryPolicy::Idempotent),
        Just(RetryPolicy::Never),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_order_of_events_shifts_a_reply_or_repeats_a_write(
        policy in policies(),
        events in prop::collection::vec(event(), 1..150),
    ) {
        let mut world = World::new(policy);
        for event in events {
            match event {
                Event::Submit { two } => world.submit(two),
                Event::Cancel(pick) => world.cancel(pick),
                Event::Withdraw(pick) => world.withdraw(pick),
                Event::Flush(bytes) => world.flush(bytes),
                Event::Run(commands) => world.server.run(commands),
                Event::Deliver(bytes) => world.deliver(bytes),
                Event::Push => world.push(),
                Event::Break { executed_first } => world.break_off(executed_first),
                Event::Connect => world.connect(),
                Event::Advance(ms) => world.advance(Duration::from_millis(ms)),
            }
        }
        world.settle();
    }
}

/// A world whose connection is ready.
fn ready(policy: RetryPolicy) -> World {
    let mut world = World::new(policy);
    world.connect();
    exchange(&mut world);
    assert_eq!(world.conn.protocol(), Some(Protocol::Resp3));
    world
}

fn exchange(world: &mut World) {
    world.flush(usize::MAX);
    world.server.run(usize::MAX);
    world.deliver(usize::MAX);
}
