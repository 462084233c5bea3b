//! A store of this process.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::{Answer, AsyncKeyValue};
use crate::{Batch, Error, KeyValue};

pub(super) struct LocalTasks {
    store: Arc<dyn KeyValue>,
    /// Whether a write waits for the disk.
    waits: bool,
}

impl LocalTasks {
    pub(super) fn new(store: Arc<dyn KeyValue>, waits: bool) -> Self {
        Self { store, waits }
    }

    fn write<R: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn KeyValue) -> Result<R, Error> + Send + 'static,
    ) -> Answer<'_, R> {
        Box::pin(async move {
            if !self.waits {
                return work(&*self.store);
            }
            let store = Arc::clone(&self.store);
            match tokio::task::spawn_blocking(move || work(&*store)).await {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        })
    }
}

impl AsyncKeyValue for LocalTasks {
    fn keeps(&self, key: &[u8]) -> bool {
        self.store.keeps(key)
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<Vec<u8>>> {
        Box::pin(async move { self.store.get(key) })
    }

    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> Answer<'a, Vec<Option<Vec<u8>>>> {
        Box::pin(async move { self.store.get_many(keys) })
    }

    fn put<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> Answer<'a, ()> {
        let (key, value) = (key.to_vec(), value.to_vec());
        self.write(move |store| store.put(&key, &value))
    }

    fn put_for<'a>(&'a self, key: &'a [u8], value: &'a [u8], ttl: Duration) -> Answer<'a, ()> {
        let (key, value) = (key.to_vec(), value.to_vec());
        self.write(move |store| store.put_for(&key, &value, ttl))
    }

    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool> {
        let key = key.to_vec();
        self.write(move |store| store.delete(&key))
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a [u8],
        expected: Option<&'a [u8]>,
        next: Option<&'a [u8]>,
    ) -> Answer<'a, bool> {
        let key = key.to_vec();
        let (expected, next) = (expected.map(<[u8]>::to_vec), next.map(<[u8]>::to_vec));
        self.write(move |store| store.compare_and_swap(&key, expected.as_deref(), next.as_deref()))
    }

    fn apply<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ()> {
        let batch = batch.clone();
        self.write(move |store| store.apply(&batch))
    }

    fn write_many<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ()> {
        let batch = batch.clone();
        self.write(move |store| store.write_many(&batch))
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a [u8],
        visit: &'a mut (dyn FnMut(&[u8], &[u8]) + Send),
    ) -> Answer<'a, ()> {
        Box::pin(async move { self.store.scan(prefix, visit) })
    }

    fn scan_keys<'a>(
        &'a self,
        prefix: &'a [u8],
        visit: &'a mut (dyn FnMut(&[u8]) -> ControlFlow<()> + Send),
    ) -> Answer<'a, ()> {
        Box::pin(async move { self.store.scan_keys(prefix, visit) })
    }
}
