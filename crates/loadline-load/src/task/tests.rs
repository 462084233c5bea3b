use std::cell::Cell;

use super::*;
use crate::keys::KeyDist;
use crate::pacing::Stop;
use crate::values::{ValueData, ValueSize, Values};
use crate::workload::{Command, Digits, KeySpace, Number, Part};

/// Sleeps for every operation, and remembers how many slept at once.
#[derive(Clone, Default)]
struct Sleeper {
    asleep: Rc<Cell<usize>>,
    most: Rc<Cell<usize>>,
    performed: Rc<Cell<u64>>,
}

impl Performer for Sleeper {
    type Operation = u64;

    fn prepare(&self, _: usize, chooser: &mut Chooser, workload: &Workload) -> u64 {
        chooser.number(Number::Key, workload.keys())
    }

    async fn perform(&self, key: u64) -> Done {
        self.asleep.set(self.asleep.get() + 1);
        self.most.set(self.most.get().max(self.asleep.get()));
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.asleep.set(self.asleep.get() - 1);
        self.performed.set(self.performed.get() + 1);
        match key % 10 {
            0 => Done::Nil,
            1 => Done::Failed("ERR no".into()),
            _ => Done::Well,
        }
    }
}

fn tasks(in_flight: usize) -> (Sleeper, Tasks<Sleeper>) {
    let get = Command {
        name: "GET".into(),
        weight: 1,
        parts: vec![Part::Number(Number::Key, Digits::Eight)],
        replies: 1,
        reads: true,
        returns_payload: false,
    };
    let workload = Workload::new(
        vec![get],
        KeySpace::new(&KeyDist::Sequential, 1_000, 0).unwrap(),
        Values::new(ValueSize::Fixed(8), ValueData::Random, 1).unwrap(),
    )
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let sleeper = Sleeper::default();
    let tasks = Tasks::new(workload, sleeper.clone(), in_flight, Rc::new(runtime), 1).unwrap();
    (sleeper, tasks)
}

fn block(stop: Stop) -> Block {
    Block {
        pacing: Pacing::Closed,
        stop,
        interval: Duration::from_millis(10),
        seed: 1,
    }
}

#[test]
fn as_many_tasks_as_asked_for_share_the_operations() {
    let (sleeper, mut tasks) = tasks(20);
    let outcome = tasks
        .run(&block(Stop::after_ops(500)), &Control::default())
        .unwrap();
    assert_eq!((outcome.ops, sleeper.performed.get()), (500, 500));
    assert_eq!(sleeper.most.get(), 20);
    assert_eq!((outcome.nils, outcome.reads), (50, 500));
    assert_eq!(outcome.errors.iter().collect::<Vec<_>>(), [("ERR", 50)]);
    // Twenty at a time, at least two milliseconds each.
    assert!(outcome.duration >= Duration::from_millis(50));
    assert!(outcome.response.value_at(0.5).unwrap() >= 2_000_000);
}

#[test]
fn block_ends_in_time_and_only_closed_loops_are_run() {
    let (_, mut tasks) = tasks(4);
    let stop = Stop::after(Duration::from_millis(50));
    let outcome = tasks.run(&block(stop), &Control::default()).unwrap();
    assert!((4..=100).contains(&outcome.ops), "{}", outcome.ops);
    let open = Block {
        pacing: Pacing::Open {
            rate: 1.0,
            arrivals: crate::pacing::ArrivalProcess::Uniform,
        },
        ..block(stop)
    };
    assert!(tasks.run(&open, &Control::default()).is_err());
}
