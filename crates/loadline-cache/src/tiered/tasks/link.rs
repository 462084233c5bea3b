//! The connection of a cache for tasks to its tier.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::place::Place;
use crate::tasks::open_place;
use crate::{AsyncKeyValue, Error};

/// The connection to a tier, opened once it can be.
pub(crate) struct AsyncLink {
    place: Option<Place>,
    store: OnceCell<Arc<dyn AsyncKeyValue>>,
    pub(super) timeout: Duration,
}

impl AsyncLink {
    /// # Errors
    /// [`Error::Url`]; those of a store of this process.
    pub(crate) async fn open(url: &str, timeout: Duration) -> Result<Self, Error> {
        let link = Self {
            place: Some(Place::parse(url)?),
            store: OnceCell::new(),
            timeout,
        };
        match tokio::time::timeout(timeout, link.try_open()).await {
            // It is opened once it can be.
            Ok(Ok(_) | Err(Error::Client(_))) | Err(_) => Ok(link),
            Ok(Err(error)) => Err(error),
        }
    }

    pub(crate) fn of(store: Arc<dyn AsyncKeyValue>, timeout: Duration) -> Self {
        Self {
            place: None,
            store: OnceCell::from(store),
            timeout,
        }
    }

    async fn try_open(&self) -> Result<&Arc<dyn AsyncKeyValue>, Error> {
        let open = async || match &self.place {
            Some(place) => Ok(open_place(place.clone()).await?.into()),
            None => Err(Error::Settings("there is no store")),
        };
        self.store.get_or_try_init(open).await
    }

    pub(super) async fn store(&self) -> Result<&dyn AsyncKeyValue, Error> {
        self.try_open().await.map(|store| &**store)
    }
}
