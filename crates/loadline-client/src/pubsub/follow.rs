//! Tasks that let a subscriber follow its cluster.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::driver::Driver;
use super::subscriber::Subscriber;
use crate::cluster::Cluster;

/// The map is asked for at most this often.
const THROTTLE: Duration = Duration::from_millis(100);

/// Starts a driver for each new connection, until the subscriber is closed.
pub(super) async fn start_connections(shared: Arc<Subscriber>) {
    while let Some(connections) = poll_fn(|cx| shared.lock().poll_new(cx.waker())).await {
        for connection in connections {
            tokio::spawn(Driver::new(Arc::clone(&shared), connection, None).run());
        }
    }
}

/// Asks for the map when something shows that it is outdated, and once in each keepalive period: a node that is
/// cut off from the others does not know it, and sends nothing.
pub(super) async fn refresh(shared: Arc<Subscriber>, cluster: Cluster) {
    let period = shared.config.keepalive.unwrap_or(Duration::MAX);
    loop {
        let stale = poll_fn(|cx| shared.lock().poll_stale(cx.waker()));
        // Either the map is known to be outdated, or the period is over.
        if let Ok(None) = timeout(period, stale).await {
            return;
        }
        // If no node answers, the connections continue with the old map, and it stays outdated.
        if cluster.refresh().await.is_ok() {
            let mut wake = Vec::new();
            let topology = cluster.topology();
            shared.lock().install(topology, Instant::now(), &mut wake);
            wake.into_iter().for_each(Waker::wake);
        }
        sleep(THROTTLE).await;
    }
}
