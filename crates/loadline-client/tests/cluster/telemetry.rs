//! Exports of the SDK of OpenTelemetry, for requests to several nodes.

use std::collections::BTreeSet;

use loadline_client::Telemetry;
use loadline_client::cluster::Builder;
use loadline_client::commands::{get, incr, set};
use opentelemetry::Value;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

use crate::nodes::{runtime, shared};

fn integer(span: &SpanData, name: &str) -> Option<i64> {
    let attribute = span.attributes.iter().find(|of| of.key.as_str() == name);
    attribute.map(|attribute| match attribute.value {
        Value::I64(number) => number,
        _ => panic!("{attribute:?}"),
    })
}

#[test]
fn each_node_of_a_request_has_a_span_on_both_kinds_of_cluster() {
    let spans = InMemorySpanExporter::default();
    let tracers = SdkTracerProvider::builder();
    let tracers = tracers.with_simple_exporter(spans.clone()).build();
    let meters = SdkMeterProvider::builder().build();
    let telemetry = Telemetry::new(&tracers, &meters);
    let first = shared().masters()[0].node();
    let client = loadline_client::Client::builder()
        .url(&format!("redis://{}:{}", first.host(), first.port()))
        .unwrap()
        .telemetry(telemetry)
        .build();
    let builder = || Builder::from_config(client.config().clone()).unwrap();
    let ports: BTreeSet<i64> = (shared().masters().iter())
        .map(|master| i64::from(master.node().port()))
        .collect();
    let check = |errors: usize| {
        let spans = spans.get_finished_spans().unwrap();
        let pipelines: Vec<&SpanData> = (spans.iter())
            .filter(|span| span.name.starts_with("PIPELINE "))
            .collect();
        let sizes = pipelines.iter();
        let sizes = sizes.filter_map(|span| integer(span, "db.operation.batch.size"));
        assert_eq!(sizes.sum::<i64>(), 60, "{pipelines:?}");
        let used = pipelines.iter();
        let used: BTreeSet<i64> = used
            .filter_map(|span| integer(span, "server.port"))
            .collect();
        assert_eq!(used, ports);
        let failed = |span: &&&SpanData| {
            span.attributes
                .iter()
                .any(|of| of.key.as_str() == "error.type")
        };
        assert_eq!(pipelines.iter().filter(failed).count(), errors);
    };
    let key = |n: u32| format!("telemetry:{n}");
    let sets: Vec<_> = (0..30).map(|n| set(key(n), "x").encoded()).collect();
    let reads: Vec<_> = (0..30).map(|n| get::<String>(key(n)).encoded()).collect();

    let mut cluster = builder().open_blocking().unwrap();
    // Without the questions for the map of slots.
    spans.reset();
    for outcome in cluster.run(&sets) {
        outcome.unwrap();
    }
    for outcome in cluster.run(&reads) {
        outcome.unwrap();
    }
    check(0);
    runtime().block_on(async {
        let cluster = builder().open().await.unwrap();
        spans.reset();
        for outcome in cluster.run(&reads).await {
            outcome.unwrap();
        }
        // No number: each of the three nodes refuses its part.
        let increments: Vec<_> = (0..30).map(|n| incr(key(n))).collect();
        assert!(cluster.run(increments).await.iter().all(Result::is_err));
    });
    check(3);
}
