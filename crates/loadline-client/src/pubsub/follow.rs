//! Tasks that keep a subscriber on a cluster where the cluster is.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::driver::Driver;
use super::handle::Shared;
use crate::cluster::Cluster;

/// The map is asked for at most this often.
const THROTTLE: Duration = Duration::from_millis(100);

/// Starts a driver for each new lane, until the subscriber is closed.
pub(super) async fn start_lanes(shared: Arc<Shared>) {
    while let Some(lanes) = poll_fn(|cx| shared.lock().poll_new(cx.waker())).await {
        for lane in lanes {
            tokio::spawn(Driver::new(Arc::clone(&shared), lane, None).run());
        }
    }
}

/// Asks for the map when something shows that it is old, and now and then: a node that was cut off from the
/// others does not know that, and says nothing.
pub(super) async fn refresh(shared: Arc<Shared>, cluster: Cluster) {
    let period = shared.config.keepalive.unwrap_or(Duration::MAX);
    loop {
        let stale = poll_fn(|cx| shared.lock().poll_stale(cx.waker()));
        // Either a lane reported a change, or the interval has passed.
        if let Ok(None) = timeout(period, stale).await {
            return;
        }
        // Where no node answers, the lanes go on with what they know, and the map stays wanted.
        if cluster.refresh().await.is_ok() {
            let mut wake = Vec::new();
            let topology = cluster.topology();
            shared.lock().install(topology, Instant::now(), &mut wake);
            wake.into_iter().for_each(Waker::wake);
        }
        sleep(THROTTLE).await;
    }
}
