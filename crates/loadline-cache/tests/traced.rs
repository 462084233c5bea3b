//! Events and spans of lookups. In a process of its own: `tracing` remembers for a moment that the threads of other tests have
//! no subscriber.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use loadline_cache::codec::Raw;
use loadline_cache::{Cache, Tier};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes a line for each span and event.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            // Times differ.
            name @ "latency_us" => self.0.push_str(&format!(" {name}")),
            name => self.0.push_str(&format!(" {name}={value:?}")),
        }
    }
}

impl Lines {
    fn add(&self, head: &str, record: impl FnOnce(&mut Line)) {
        let mut line = Line(head.to_owned());
        record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "loadline_cache"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.add(span.metadata().name(), |line| span.record(line));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.add("end", |line| values.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let level = event.metadata().level().to_string();
        self.add(&level, |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn lookup_is_a_span_with_an_event_for_each_tier() {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        let tier = Tier::open("ram").timeout(std::time::Duration::from_secs(60));
        let load = |key: &u32| match key {
            1 => Ok(Some(b"page".to_vec())),
            _ => Err(io::Error::other("no such page")),
        };
        let pages = Cache::<u32, Vec<u8>>::builder()
            .tier(tier, Raw)
            .build(load)
            .unwrap();
        pages.get(&1).unwrap();
        pages.get(&1).unwrap();
        pages.get_many(&[1, 2]);
    });
    let lines = lines.0.lock().unwrap();
    assert_eq!(
        **lines,
        [
            "lookup keys=1",
            "TRACE message=step tier=\"memory\" outcome=\"miss\"",
            "TRACE message=step tier=\"tier\" outcome=\"miss\" latency_us",
            "TRACE message=step tier=\"load\" outcome=\"done\" latency_us",
            "TRACE message=step tier=\"tier\" outcome=\"written\" latency_us",
            "end latency_us",
            "TRACE message=step tier=\"memory\" outcome=\"hit\"",
            "lookup keys=2",
            "TRACE message=step tier=\"memory\" outcome=\"hit\"",
            "TRACE message=step tier=\"memory\" outcome=\"miss\"",
            "TRACE message=step tier=\"tier\" outcome=\"miss\" latency_us",
            "DEBUG message=step tier=\"load\" outcome=\"failed\" latency_us",
            "end latency_us",
        ]
    );
}
