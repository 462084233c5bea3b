//! The actions of the arms, one type for each kind.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use loadline_cache::{Batch, Cache, Error, KeyValue, Tier, connect};
use loadline_client::commands::get;
use loadline_client::{Client, pool};

use super::load::AnyCodec;
use super::pool::Pool;
use super::probe::Parted;
use crate::object::{Format, Object};
use crate::plan::{Flawed, Setup, TierOp};
use crate::systems::engines::{Keys, Names, described};

/// Something that is done with objects; says whether it found them.
///
/// # Errors
/// The failure of [`call`](Self::call).
pub(super) trait Action: Send {
    fn call(&mut self, objects: &[usize]) -> Result<bool, String>;
}

/// An action that needs no type of its own.
pub(super) struct Simple<F>(pub(super) F);

impl<F: FnMut(usize) -> Result<bool, String> + Send> Action for Simple<F> {
    fn call(&mut self, objects: &[usize]) -> Result<bool, String> {
        objects
            .iter()
            .try_fold(true, |all, object| Ok((self.0)(*object)? && all))
    }
}

impl Action for Parted {
    fn call(&mut self, objects: &[usize]) -> Result<bool, String> {
        objects
            .iter()
            .try_fold(true, |all, object| Ok(Parted::call(self, *object)? && all))
    }
}

/// A cache with all objects of `pool` in memory and nothing below.
///
/// # Errors
/// The error of the cache.
pub(super) fn in_memory(pool: &Arc<Pool>) -> Result<Cache<u32, Object>, String> {
    let object_bytes = pool.object(0).bytes();
    let source = Arc::clone(pool);
    // A shard has a fixed share, so there is room to spare.
    let room = 8 * object_bytes * pool.len() as u64;
    let cache = Cache::<u32, Object>::builder_weighed(room, |_, object| object.bytes())
        .expected_entry_bytes(object_bytes)
        .build(move |number: &u32| source.recompute(*number as usize).map(Some));
    let cache = cache.map_err(|error| error.to_string())?;
    for number in 0..pool.len() {
        cache.insert(&(number as u32), Object::clone(pool.object(number)));
    }
    Ok(cache)
}

/// A cache over the server at `url` that keeps nothing in memory, with all objects of `pool` in the server.
///
/// # Errors
/// The error of the cache.
pub(super) fn over_server(
    pool: &Arc<Pool>,
    url: &str,
    prefix: &str,
    format: Format,
) -> Result<Cache<u32, Object>, String> {
    let source = Arc::clone(pool);
    let tier = Tier::open(url)
        .prefix(format!("{prefix}cache:"))
        .timeout(Duration::from_secs(5));
    let cache = Cache::<u32, Object>::builder_weighed(1, |_, object| object.bytes())
        .tier(tier, AnyCodec(format))
        .build(move |number: &u32| source.recompute(*number as usize).map(Some));
    let cache = cache.map_err(|error| error.to_string())?;
    for number in 0..pool.len() {
        cache
            .get(&(number as u32))
            .map_err(|error| error.to_string())?;
    }
    Ok(cache)
}

/// Reads from and writes to a tier.
pub(super) struct OnTier {
    pub(super) store: Arc<dyn KeyValue>,
    pub(super) pool: Arc<Pool>,
    pub(super) names: Names,
    pub(super) format: Format,
    pub(super) op: TierOp,
    /// The length of each encoded object, which separates the replies of a batch.
    pub(super) lengths: Arc<Vec<usize>>,
    pub(super) keys: Keys,
    pub(super) batch: Batch,
    pub(super) out: Vec<u8>,
}

impl OnTier {
    fn get(&mut self, objects: &[usize]) -> Result<bool, String> {
        let Self {
            keys, names, out, ..
        } = self;
        keys.clear();
        out.clear();
        for &number in objects {
            keys.push(|out| names.append(number as u64, out));
        }
        if let [_] = objects {
            return self.store.get_into(keys.key(0), out).map_err(said);
        }
        let found = keys.read(&*self.store, out);
        Ok(found.map_err(said)? == objects.len())
    }

    fn decode(&self, objects: &[usize]) -> Result<(), String> {
        if let [_] = objects {
            drop(black_box(self.format.decode(&self.out)?));
            return Ok(());
        }
        let mut rest = &self.out[..];
        for &number in objects {
            let (one, others) = rest
                .split_at_checked(self.lengths[number])
                .ok_or("a reply is shorter than what was written")?;
            drop(black_box(self.format.decode(one)?));
            rest = others;
        }
        Ok(())
    }

    fn set(&mut self, objects: &[usize]) -> Result<bool, String> {
        let Self {
            batch,
            names,
            pool,
            format,
            ..
        } = self;
        let mut failed = Ok(());
        batch.clear();
        for &number in objects {
            batch.put_with(
                None,
                |out| names.append(number as u64, out),
                |out| {
                    if let Err(why) = format.encode(pool.object(number), out) {
                        failed = Err(why);
                    }
                },
            );
        }
        failed?;
        let written = match batch.iter().next() {
            Some((key, Some(value))) if batch.len() == 1 => self.store.put(key, value),
            _ => self.store.apply(batch),
        };
        written.map_err(said)?;
        Ok(true)
    }
}

impl Action for OnTier {
    fn call(&mut self, objects: &[usize]) -> Result<bool, String> {
        match self.op {
            TierOp::Set => self.set(objects),
            TierOp::Miss | TierOp::Transfer => self.get(objects),
            TierOp::RoundTrip => {
                self.set(objects)?;
                let found = self.get(objects)?;
                self.decode(objects)?;
                Ok(found)
            }
            _ => {
                let found = self.get(objects)?;
                if found {
                    self.decode(objects)?;
                }
                Ok(found)
            }
        }
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it is passed to map_err, which passes a value"
)]
fn said(error: Error) -> String {
    described(&error)
}

/// Opening a connection or a store for a first operation, with one PING so that the connection is in use.
pub(super) struct SettingUp {
    pub(super) client: Client,
    pub(super) setup: Setup,
    /// Runtime that a pool needs.
    pub(super) runtime: tokio::runtime::Runtime,
}

impl Action for SettingUp {
    fn call(&mut self, _: &[usize]) -> Result<bool, String> {
        let made = match self.setup {
            Setup::Connection => self.client.blocking().map(drop),
            Setup::Pool => self.runtime.block_on(async {
                let pool = self.client.pool(pool::Limits::default()).await?;
                pool.get().await.map(drop)
            }),
            Setup::Runtime => {
                let runtime = runtime()?;
                runtime.block_on(self.client.multiplexed()).map(drop)
            }
        };
        made.map(|()| true).map_err(|error| error.to_string())
    }
}

/// A runtime of this thread.
///
/// # Errors
/// That the operating system gives none.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())
}

/// An operation with a flaw.
pub(super) struct WithFlaw {
    pub(super) flawed: Flawed,
    pub(super) client: Client,
    pub(super) store: Arc<dyn KeyValue>,
    pub(super) cache: Cache<u32, Object>,
    pub(super) pool: Arc<Pool>,
    pub(super) names: Names,
    pub(super) format: Format,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl Action for WithFlaw {
    fn call(&mut self, objects: &[usize]) -> Result<bool, String> {
        let number = objects[0];
        self.key.clear();
        self.names.append(number as u64, &mut self.key);
        match self.flawed {
            Flawed::ConnectingGet => {
                let store = connect(self.client.clone()).map_err(said)?;
                self.value.clear();
                let found = store.get_into(&self.key, &mut self.value).map_err(said)?;
                drop(black_box(self.format.decode(&self.value)?));
                Ok(found)
            }
            Flawed::RuntimeGet => self.get_in_new_runtime(),
            Flawed::RuntimeMiss => {
                self.key.extend_from_slice(b":absent");
                self.get_in_new_runtime()
            }
            Flawed::GeneratingSet => {
                let object = self.pool.recompute(number)?;
                self.put(&object)
            }
            Flawed::CopyingHit => {
                let found = self.cached(number)?;
                let copy = found.as_deref().cloned();
                Ok(black_box(copy).is_some())
            }
            Flawed::GeneratingHit => {
                let object = self.pool.recompute(number)?;
                self.cache.insert(&(number as u32), object);
                let found = self.cached(number)?;
                let copy = found.as_deref().cloned();
                Ok(black_box(copy).is_some())
            }
            Flawed::RoundTrip => {
                let object = self.pool.recompute(number)?;
                let store = connect(self.client.clone()).map_err(said)?;
                self.value.clear();
                self.format.encode(&object, &mut self.value)?;
                store.put(&self.key, &self.value).map_err(said)?;
                self.get_in_new_runtime()
            }
        }
    }
}

impl WithFlaw {
    fn cached(&self, number: usize) -> Result<Option<Arc<Object>>, String> {
        let found = self.cache.get(&(number as u32));
        found.map_err(|error| error.to_string())
    }

    fn put(&mut self, object: &Object) -> Result<bool, String> {
        self.value.clear();
        self.format.encode(object, &mut self.value)?;
        self.store.put(&self.key, &self.value).map_err(said)?;
        Ok(true)
    }

    fn get_in_new_runtime(&self) -> Result<bool, String> {
        let value: Option<Vec<u8>> = runtime()?
            .block_on(async {
                let connection = self.client.multiplexed().await?;
                connection.run(get(&self.key[..])).await
            })
            .map_err(|error| error.to_string())?;
        let Some(value) = value else {
            return Ok(false);
        };
        drop(black_box(self.format.decode(&value)?));
        Ok(true)
    }
}
