use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::sync::Arc;

use ::rkyv::api::access_with_context;
use ::rkyv::api::high::{HighSerializer, HighValidator};
use ::rkyv::bytecheck::CheckBytes;
use ::rkyv::rancor::Error;
use ::rkyv::ser::allocator::ArenaHandle;
use ::rkyv::util::AlignedVec;
use ::rkyv::validation::Validator;
use ::rkyv::validation::archive::ArchiveValidator;
use ::rkyv::validation::shared::SharedValidator;
use ::rkyv::{Archive, Serialize};
use yoke::Yoke;

use super::super::weigh::{Weigh, allocated};
use super::{Codec, CodecError};

/// rkyv: values that are read in place, and never decoded. The values of the cache are [`Flat`].
///
/// A value is copied once from where it was received, into aligned memory, and checked once. That is the fastest way to get a
/// large value out of a tier; its bytes are larger than those of the other codecs. They are those of a type, so that any
/// change of it is a new schema version.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rkyv;

const ID: u8 = 6;
/// The most levels of values that own others. Checking a value needs a part of the stack for each of them.
const DEEPEST: NonZeroUsize = NonZeroUsize::new(128).expect("it is not 0");

/// A value as rkyv lays it out, in bytes of its own. It dereferences to the archived form of `T`.
///
/// ```
/// use loadline_cache::codec::{Flat, Rkyv};
/// use loadline_cache::{Cache, Tier};
///
/// #[derive(rkyv::Archive, rkyv::Serialize)]
/// struct Floor {
///     heights: Vec<i16>,
/// }
///
/// let cache = Cache::<u32, Flat<Floor>>::builder()
///     .memory_bytes(64 << 20)
///     .tier(Tier::open("ram"), Rkyv)
///     .build(|number| Flat::new(&Floor { heights: vec![*number as i16; 10_000] }).map(Some))?;
/// let floor = cache.get(&7)?.expect("every floor exists");
/// assert_eq!(floor.heights[9_999], 7);
/// # Ok::<(), loadline_cache::Error>(())
/// ```
pub struct Flat<T: Archive>
where
    T::Archived: 'static,
{
    archived: Yoke<&'static T::Archived, Arc<AlignedVec>>,
}

impl<T: Archive> Flat<T>
where
    T::Archived: for<'a> CheckBytes<HighValidator<'a, Error>> + 'static,
{
    /// Lays `value` out.
    ///
    /// # Errors
    /// That it has no archived form, or is nested too deeply.
    pub fn new(value: &T) -> Result<Self, CodecError>
    where
        T: for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Error>>,
    {
        Self::checked(::rkyv::to_bytes::<Error>(value)?)
    }

    fn checked(bytes: AlignedVec) -> Result<Self, CodecError> {
        let archived = Yoke::try_attach_to_cart(Arc::new(bytes), |bytes| check::<T>(bytes))?;
        Ok(Self { archived })
    }
}

impl<T: Archive> Weigh for Flat<T>
where
    T::Archived: 'static,
{
    fn held_bytes(&self) -> usize {
        allocated(self.bytes().len()) + allocated(2 * size_of::<usize>() + size_of::<AlignedVec>())
    }
}

/// The archived form that `bytes` are, if they are one.
fn check<T: Archive>(bytes: &[u8]) -> Result<&T::Archived, Error>
where
    T::Archived: for<'a> CheckBytes<HighValidator<'a, Error>>,
{
    let archive = ArchiveValidator::with_max_depth(bytes, Some(DEEPEST));
    let mut context = Validator::new(archive, SharedValidator::new());
    access_with_context::<T::Archived, _, Error>(bytes, &mut context)
}

impl<T: Archive> Flat<T>
where
    T::Archived: 'static,
{
    /// The bytes that it consists of.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.archived.backing_cart()
    }
}

impl<T: Archive> Deref for Flat<T>
where
    T::Archived: 'static,
{
    type Target = T::Archived;

    fn deref(&self) -> &T::Archived {
        self.archived.get()
    }
}

impl<T: Archive> Clone for Flat<T>
where
    T::Archived: 'static,
{
    /// Shares the bytes.
    fn clone(&self) -> Self {
        Self {
            archived: self.archived.clone(),
        }
    }
}

impl<T: Archive> PartialEq for Flat<T>
where
    T::Archived: PartialEq + 'static,
{
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Archive> fmt::Debug for Flat<T>
where
    T::Archived: fmt::Debug + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Flat").field(&**self).finish()
    }
}

impl<T: Archive> Codec<Flat<T>> for Rkyv
where
    T::Archived: for<'a> CheckBytes<HighValidator<'a, Error>> + 'static,
{
    fn id(&self) -> u8 {
        ID
    }

    fn encode(&self, value: &Flat<T>, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        bytes.extend_from_slice(value.bytes());
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Flat<T>, CodecError> {
        let mut aligned = AlignedVec::with_capacity(bytes.len());
        aligned.extend_from_slice(bytes);
        Flat::checked(aligned)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use ::rkyv::Serialize;

    use super::*;
    use crate::{Cache, KeyValue, Tier, open};

    #[derive(Archive, Serialize)]
    struct Floor {
        name: String,
        heights: Vec<i16>,
        seed: u64,
    }

    fn floor(seed: u64) -> Flat<Floor> {
        let floor = Floor {
            name: "cellar".into(),
            heights: vec![seed as i16; 1_000],
            seed,
        };
        Flat::new(&floor).unwrap()
    }

    /// Wherever the bytes begin, the value is aligned.
    #[test]
    fn value_is_read_from_bytes_at_any_address() {
        let mut frame = Vec::new();
        for head in 0..20 {
            frame.clear();
            frame.resize(head, 0);
            Rkyv.encode(&floor(7), &mut frame).unwrap();
            let read: Flat<Floor> = Rkyv.decode(&frame[head..]).unwrap();
            assert_eq!((read.seed.to_native(), &*read.name), (7, "cellar"));
            assert!(read.heights.iter().all(|height| *height == 7));
            assert_eq!(read.bytes().as_ptr().align_offset(16), 0);
            let shared = read.clone();
            assert_eq!(shared.bytes().as_ptr(), read.bytes().as_ptr());
        }
    }

    /// Writes bytes that are no value under the number of the codec.
    struct Lying;

    impl Codec<Flat<Floor>> for Lying {
        fn id(&self) -> u8 {
            ID
        }

        fn encode(&self, value: &Flat<Floor>, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
            // The checksum fits, and the lengths inside do not.
            bytes.extend(value.bytes().iter().map(|byte| byte ^ 0x55));
            Ok(())
        }

        fn decode(&self, _: &[u8]) -> Result<Flat<Floor>, CodecError> {
            Err("it writes only".into())
        }
    }

    #[test]
    fn garbage_is_a_miss_that_is_counted_and_replaced() {
        let store: Arc<dyn KeyValue> = Arc::from(open("ram").unwrap());
        let tier = || Tier::store(Arc::clone(&store));
        let load = |key: &u32| Ok::<_, io::Error>(Some(floor(u64::from(*key))));
        let lying = Cache::builder().tier(tier(), Lying).build(load).unwrap();
        lying.get(&1).unwrap();
        let reader = Cache::builder().tier(tier(), Rkyv).build(load).unwrap();
        assert_eq!(reader.get(&1).unwrap().unwrap().seed, 1);
        let counts = reader.stats().tier.unwrap();
        assert_eq!((counts.damaged, counts.misses, counts.hits), (1, 1, 0));
        let next = Cache::builder().tier(tier(), Rkyv).build(load).unwrap();
        assert_eq!(next.get(&1).unwrap().unwrap().seed, 1);
        assert_eq!(next.stats().tier.unwrap().hits, 1);
    }

    #[derive(Archive, Serialize)]
    #[rkyv(serialize_bounds(
        __S: ::rkyv::ser::Writer + ::rkyv::ser::Allocator,
        __S::Error: ::rkyv::rancor::Source,
    ))]
    #[rkyv(bytecheck(bounds(
        __C: ::rkyv::validation::ArchiveContext,
        __C::Error: ::rkyv::rancor::Source,
    )))]
    struct Link {
        #[rkyv(omit_bounds)]
        next: Option<Box<Link>>,
    }

    /// Bytes of a chain that would need more stack than there is are no value.
    #[test]
    fn deep_value_is_refused() {
        let chain = |length: usize| {
            (0..length).fold(Link { next: None }, |next, _| Link {
                next: Some(Box::new(next)),
            })
        };
        assert!(Flat::new(&chain(100)).is_ok());
        let bytes = ::rkyv::to_bytes::<Error>(&chain(1_000)).unwrap();
        let read: Result<Flat<Link>, _> = Rkyv.decode(&bytes);
        assert!(read.is_err());
    }
}
