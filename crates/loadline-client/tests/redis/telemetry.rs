//! Exports of the SDK of OpenTelemetry, for requests.

use std::time::Duration;

use loadline_client::commands::{get, incr, ping, set};
use loadline_client::{Client, Error, Telemetry, atomic, cmd};
use opentelemetry::Context;
use opentelemetry::trace::{FutureExt, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, SpanData};
use rustix::process::Signal;

use crate::server::{Redis, runtime};

/// Providers whose exporters keep everything.
struct Sdk {
    spans: InMemorySpanExporter,
    tracers: SdkTracerProvider,
    metrics: InMemoryMetricExporter,
    meters: SdkMeterProvider,
}

impl Sdk {
    fn new(sampler: Sampler) -> Self {
        let (spans, metrics) = (
            InMemorySpanExporter::default(),
            InMemoryMetricExporter::default(),
        );
        Self {
            tracers: SdkTracerProvider::builder()
                .with_sampler(sampler)
                .with_simple_exporter(spans.clone())
                .build(),
            spans,
            meters: SdkMeterProvider::builder()
                .with_reader(PeriodicReader::builder(metrics.clone()).build())
                .build(),
            metrics,
        }
    }

    fn telemetry(&self) -> Telemetry {
        Telemetry::new(&self.tracers, &self.meters)
    }

    fn client(&self, redis: &Redis) -> Client {
        let telemetry = self.telemetry().with_query_text();
        redis.builder().database(3).telemetry(telemetry).build()
    }

    /// The spans since the last call.
    fn take_spans(&self) -> Vec<SpanData> {
        let spans = self.spans.get_finished_spans().unwrap();
        self.spans.reset();
        spans
    }

    /// The attributes of each series of the histogram, with the number of values and their sum.
    fn durations(&self) -> Vec<(Vec<String>, u64, f64)> {
        self.meters.force_flush().unwrap();
        let mut series = Vec::new();
        let exported = self.metrics.get_finished_metrics().unwrap();
        let scopes = exported.last().unwrap().scope_metrics();
        for metric in scopes.flat_map(|scope| scope.metrics()) {
            assert_eq!(
                (metric.name(), metric.unit()),
                ("db.client.operation.duration", "s")
            );
            let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = metric.data() else {
                panic!("{metric:?}");
            };
            for point in histogram.data_points() {
                assert_eq!(point.bounds().next(), Some(0.001));
                series.push((shown(point.attributes()), point.count(), point.sum()));
            }
        }
        series.sort_by(|one, other| one.0.cmp(&other.0));
        series
    }
}

fn shown<'a>(attributes: impl Iterator<Item = &'a opentelemetry::KeyValue>) -> Vec<String> {
    let mut shown: Vec<String> = attributes
        .map(|attribute| format!("{}={}", attribute.key, attribute.value))
        .collect();
    shown.sort();
    shown
}

/// The attributes of a span without those that all spans of this server share, which are checked.
fn own(span: &SpanData, redis: &Redis) -> Vec<String> {
    let mut shown = shown(span.attributes.iter());
    for shared in [
        "db.namespace=3".to_owned(),
        "db.system.name=redis".into(),
        "server.address=127.0.0.1".into(),
        format!("server.port={}", redis.address().port()),
    ] {
        let place = shown.iter().position(|attribute| *attribute == shared);
        shown.remove(place.unwrap_or_else(|| panic!("no {shared} in {span:?}")));
    }
    assert_eq!(span.span_kind, SpanKind::Client);
    assert!(span.start_time <= span.end_time);
    shown
}

/// Any argument of a command that the client does not know could be a secret.
#[test]
fn unknown_command_is_exported_by_its_name_without_arguments() {
    let redis = Redis::start();
    let sdk = Sdk::new(Sampler::AlwaysOn);
    let mut connection = sdk.client(&redis).blocking().unwrap();
    let unknown = connection.run(cmd::<()>("New.Command").arg("secret"));
    assert!(unknown.unwrap_err().is_server_code("ERR"));
    let spans = sdk.take_spans();
    let expected = [
        "db.operation.name=NEW.COMMAND",
        "db.query.text=New.Command ?",
        "db.response.status_code=ERR",
        "error.type=ERR",
    ];
    assert_eq!(own(&spans[0], &redis), expected);
}

#[test]
fn requests_are_exported_by_the_conventions_without_values() {
    let redis = Redis::start();
    let sdk = Sdk::new(Sampler::AlwaysOn);
    let mut connection = sdk.client(&redis).blocking().unwrap();
    let check = |expected: &[&str]| {
        let spans = sdk.take_spans();
        assert_eq!(spans.len(), 1, "{spans:?}");
        let at = format!("127.0.0.1:{}", redis.address().port());
        let name = expected[0];
        assert_eq!(own(&spans[0], &redis), expected[1..]);
        assert_eq!(spans[0].name, format!("{name} {at}"));
        spans[0].status.clone()
    };

    connection.run(set("key", "secret")).unwrap();
    let ok = check(&["SET", "db.operation.name=SET", "db.query.text=SET key ?"]);
    assert_eq!(ok, Status::Unset);
    let refused = connection.run(incr("key")).unwrap_err();
    assert!(refused.is_server_code("ERR"));
    let status = check(&[
        "INCR",
        "db.operation.name=INCR",
        "db.query.text=INCR key",
        "db.response.status_code=ERR",
        "error.type=ERR",
    ]);
    assert_eq!(status, Status::error("ERR"));
    let _ = connection.run((set("a", "secret"), get::<String>("a"), incr("a")));
    check(&[
        "PIPELINE",
        "db.operation.batch.size=3",
        "db.operation.name=PIPELINE",
        "db.query.text=SET a ?; GET a; INCR a",
        "db.response.status_code=ERR",
        "error.type=ERR",
    ]);
    connection
        .run(atomic((incr("n"), incr("n"))))
        .unwrap()
        .unwrap()
        .0
        .unwrap();
    check(&[
        "MULTI",
        "db.operation.batch.size=2",
        "db.operation.name=MULTI",
        "db.query.text=MULTI; INCR n; INCR n; EXEC",
    ]);
    let _ = connection.run(cmd::<()>("AUTH").arg(("me", "secret")));
    check(&[
        "AUTH",
        "db.operation.name=AUTH",
        "db.query.text=AUTH ? ?",
        "db.response.status_code=WRONGPASS",
        "error.type=WRONGPASS",
    ]);
    // A request without commands, or one that is refused before it is sent, is no operation.
    let nothing: Vec<Result<(), Error>> = connection.run(Vec::<loadline_client::Cmd<()>>::new());
    assert!(nothing.is_empty() && sdk.take_spans().is_empty());

    let series = sdk.durations();
    let counts: u64 = series.iter().map(|(_, count, _)| count).sum();
    assert_eq!((series.len(), counts), (5, 5), "{series:?}");
    for (attributes, _, seconds) in series {
        assert!((0.0..60.0).contains(&seconds), "{attributes:?}: {seconds}");
        let batch = attributes
            .iter()
            .any(|name| name.starts_with("db.query") || name.contains("batch"));
        assert!(!batch, "{attributes:?}");
        assert!(attributes.contains(&"db.system.name=redis".to_owned()));
    }
}

#[test]
fn span_of_a_request_is_a_child_of_the_span_of_its_task() {
    let redis = Redis::start();
    let sdk = Sdk::new(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)));
    let client = sdk.client(&redis);
    let tracer = sdk.tracers.tracer("application");
    let context = Context::current_with_span(tracer.start("parent"));
    let parent = context.span().span_context().clone();
    runtime().block_on(async {
        let shared = client.multiplexed().await.unwrap();
        let work = async move {
            let (one, two) = shared.run((set("a", 1), get::<i64>("a"))).await;
            one.unwrap();
            two.unwrap()
        };
        let running = tokio::spawn(work.with_context(context));
        assert_eq!(running.await.unwrap(), 1);
    });
    let spans = sdk.take_spans();
    let span = spans.iter().find(|span| span.name != "parent").unwrap();
    assert_eq!(span.span_context.trace_id(), parent.trace_id());
    assert_eq!(span.parent_span_id, parent.span_id());
    let batch = "db.operation.batch.size=2".to_owned();
    assert!(own(span, &redis).contains(&batch), "{span:?}");
}

#[test]
fn unsampled_requests_are_counted_and_not_exported() {
    let redis = Redis::start();
    let sdk = Sdk::new(Sampler::AlwaysOff);
    let mut connection = sdk.client(&redis).blocking().unwrap();
    for _ in 0..3 {
        connection.run(ping()).unwrap();
    }
    assert!(sdk.take_spans().is_empty());
    let series = sdk.durations();
    assert_eq!((series.len(), series[0].1), (1, 3), "{series:?}");
}

#[test]
fn lost_connection_and_timeout_are_types_of_errors() {
    let redis = Redis::start();
    let sdk = Sdk::new(Sampler::AlwaysOn);
    let builder = redis.builder().telemetry(sdk.telemetry()).database(3);
    let client = builder
        .response_timeout(Some(Duration::from_millis(50)))
        .build();
    let mut connection = client.blocking().unwrap();
    redis.signal(Signal::STOP);
    let late = connection.run(incr("n")).unwrap_err();
    assert!(matches!(late, Error::Timeout { .. }), "{late:?}");
    let span = sdk.take_spans().pop().unwrap();
    let expected = ["db.operation.name=INCR", "error.type=timeout"];
    assert_eq!(own(&span, &redis), expected);
    redis.signal(Signal::KILL);
    let lost = connection.run(incr("n")).unwrap_err();
    assert!(matches!(lost, Error::Connection { .. }), "{lost:?}");
    let span = sdk.take_spans().pop().unwrap();
    assert_eq!(own(&span, &redis)[1], "error.type=connection");
}
