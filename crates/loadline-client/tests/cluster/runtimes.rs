//! Clusters whose handles are used on several runtimes, some of which end.

use std::future::Future;
use std::time::Duration;

use loadline_client::Error;
use loadline_client::cluster::{Cluster, Cursor};
use loadline_client::commands::{get, set};

use crate::nodes::{runtime, shared};

/// Longer than anything here takes, and shorter than a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

async fn open() -> Cluster {
    // So that a request that is tried again until its deadline hangs for this test.
    let port = shared().masters()[0].port;
    let url = format!("cluster://127.0.0.1:{port}?response_timeout=60s");
    Cluster::open(&url).await.unwrap()
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    let finished = tokio::time::timeout(PATIENCE, future).await;
    finished.expect("the request hangs")
}

/// Runs one request on each master.
async fn use_each_master(cluster: &Cluster, tag: &str) {
    for n in 0..30 {
        in_time(cluster.run(set(format!("{tag}:{n}"), n)))
            .await
            .unwrap();
    }
}

fn assert_closed<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Closed {
                maybe_executed: false
            }
        ),
        "{error}"
    );
}

#[test]
fn cluster_whose_runtime_has_ended_is_closed() {
    let first = runtime();
    let (used, unused) = first.block_on(async {
        let used = open().await;
        use_each_master(&used, "ended").await;
        (used, open().await)
    });
    assert!(used.is_connected());
    drop(first);
    for cluster in [used, unused] {
        assert!(!cluster.is_connected());
        runtime().block_on(in_time(async {
            assert_closed(cluster.run(set("ended:0", 1)).await);
            assert_closed(cluster.run(get::<Option<u64>>("ended:0")).await);
            let (a, b) = cluster.run((set("ended:a", 1), set("ended:b", 1))).await;
            assert_closed(a);
            assert_closed(b);
            let mut cursor = Cursor::start();
            assert_closed(cluster.scan_page::<String>(&mut cursor, "*", 10).await);
        }));
        assert!(!cluster.is_connected());
    }
}

#[test]
fn cluster_outlives_another_runtime_that_used_it() {
    let home = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let cluster = home.block_on(open());
    // Most of the connections are first used there.
    let visitor = runtime();
    visitor.block_on(use_each_master(&cluster, "visited"));
    drop(visitor);
    home.block_on(use_each_master(&cluster, "visited"));
    assert!(cluster.is_connected());
}
