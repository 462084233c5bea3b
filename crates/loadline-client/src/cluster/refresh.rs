//! Refreshes of a cluster's map of slots.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout, timeout_at};

use super::client::Hub;
use super::survey::{Survey, THROTTLE};
use super::topology::Node;
use super::view::{View, question};
use crate::Error;

/// Time that the other nodes have to contradict the first answer.
const GRACE: Duration = Duration::from_millis(50);

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
        let view = self.ask().await;
        asked.asked(Instant::now());
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
        let mut views = Vec::new();
        let mut left = patience;
        while let Ok(Some(answer)) = timeout(left, asked.join_next()).await {
            let Ok(view) = answer else { continue };
            if view.is_ok() {
                left = GRACE;
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
