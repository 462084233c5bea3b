//! Refreshes of a cluster's map of slots.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout_at};

use super::client::Hub;
use super::survey::{Survey, THROTTLE, grace};
use super::topology::Node;
use super::view::{View, question};
use crate::Error;

/// A request that waits for a node.
#[derive(Debug)]
pub(super) struct WaitsForNode<'h>(&'h Hub);

impl Drop for WaitsForNode<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Hub {
    /// Asks for the map, unless another task has just done so.
    ///
    /// # Errors
    /// The reason why no node answered.
    pub(super) async fn refresh(self: &Arc<Self>) -> Result<(), Error> {
        let begun = Instant::now();
        let mut asked = self.asked.lock().await;
        // Another task may have asked while this one waited for the lock.
        if !asked.is_due(begun) {
            return Ok(());
        }
        // The wait for the lock is over.
        let begun = Instant::now();
        let view = self.ask().await;
        asked.asked(begun, Instant::now());
        self.install(view?.topology);
        Ok(())
    }

    /// Asks for the map until the deadline. If no node answers, the old one stays.
    pub(super) async fn refresh_until(self: &Arc<Self>, deadline: Option<Instant>) {
        let refresh = self.refresh();
        let outcome = match deadline {
            None => refresh.await,
            Some(deadline) => match timeout_at(deadline.into(), refresh).await {
                Ok(outcome) => outcome,
                Err(_) => return,
            },
        };
        if let Err(error) = outcome {
            crate::meter::lost(&self.plain.config, &error);
        }
    }

    /// Takes note of a request that waits for a node, until the value is dropped. A task asks for the map as often as allowed
    /// meanwhile: requests that wait do so too seldom, since they all fail together when an attempt to connect does.
    pub(super) fn wait_for_node(self: &Arc<Self>) -> WaitsForNode<'_> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        WaitsForNode(self)
    }

    /// Starts that task if there is none.
    pub(super) fn watch(self: &Arc<Self>) {
        if self.watching.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(self);
        self.runtime.spawn(async move {
            while shared.waiting.load(Ordering::Acquire) > 0 {
                shared.refresh_until(None).await;
                let due = shared.asked.lock().await.due();
                sleep_until(due.unwrap_or_else(Instant::now).into()).await;
            }
            shared.watching.store(false, Ordering::Release);
        });
    }

    /// Starts a task that asks for the map soon.
    pub(super) fn refresh_soon(self: &Arc<Self>) {
        if self.asking.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(self);
        self.runtime.spawn(async move {
            // Changes come in bursts, and the map after the last one is needed.
            sleep(THROTTLE).await;
            shared.asking.store(false, Ordering::Release);
            shared.refresh_until(None).await;
        });
    }

    /// Asks some nodes at a time, until one or more have answered.
    async fn ask(self: &Arc<Self>) -> Result<View, Error> {
        let is_connected = |node: &Node| self.is_connected(node);
        let seeds = &self.plain.seeds;
        let mut survey = Survey::new(&self.topology(), seeds, self.turn(), is_connected);
        loop {
            let nodes = survey.next()?;
            let answers = self.ask_some(&nodes).await;
            if let Some(view) = survey.took(answers) {
                return Ok(view);
            }
        }
    }

    async fn ask_some(self: &Arc<Self>, nodes: &[Node]) -> Vec<Result<View, Error>> {
        let mut asked = JoinSet::new();
        for node in nodes {
            let (node, connection) = (node.clone(), self.connection(node));
            asked.spawn(async move { View::read(connection.run(question()).await, &node) });
        }
        let patience = self.plain.config.connect_timeout;
        let begun = Instant::now();
        let mut deadline = begun + patience;
        let mut views = Vec::new();
        while let Ok(Some(answer)) = timeout_at(deadline.into(), asked.join_next()).await {
            let Ok(view) = answer else { continue };
            if view.is_ok() {
                let now = Instant::now();
                deadline = deadline.min(now + grace(now - begun));
            }
            views.push(view);
        }
        if views.is_empty() {
            views.push(Err(Error::Cluster(format!(
                "none of {} nodes answered the question for the map of slots within {patience:?}",
                nodes.len()
            ))));
        }
        views
    }
}
