//! The bytes that values hold.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// The bytes that an allocator adds to an allocation, and the multiple to which it rounds (those of glibc).
const HEADER_BYTES: usize = 8;
const ALIGN_BYTES: usize = 16;
const LEAST_BYTES: usize = 32;
const IDLE_PART: usize = 16;
/// The two counts of an `Arc`.
pub(super) const ARC_BYTES: usize = 16;

/// Values whose bytes a cache can count.
///
/// Numbers, texts, `Vec`, `Box`, `Arc`, `Option`, tuples, arrays and the collections of the standard library are weighed
/// with everything that they hold. A type of the application adds up its fields:
///
/// ```
/// use loadline_cache::{Cache, Weigh};
///
/// struct Page {
///     title: String,
///     lines: Vec<String>,
///     views: u64,
/// }
///
/// impl Weigh for Page {
///     fn held_bytes(&self) -> usize {
///         self.title.held_bytes() + self.lines.held_bytes()
///     }
/// }
///
/// let cache = Cache::<u32, Page>::builder()
///     .memory_bytes(64 << 20)
///     .build(|number| {
///         let title = format!("page {number}");
///         Ok::<_, std::io::Error>(Some(Page { title, lines: Vec::new(), views: 0 }))
///     })?;
/// # assert!(cache.get(&7)?.is_some());
/// # Ok::<(), loadline_cache::Error>(())
/// ```
///
/// A type of another crate is weighed by [`Cache::builder_weighed`](crate::Cache::builder_weighed).
#[diagnostic::on_unimplemented(
    message = "the cache does not know how many bytes a `{Self}` holds",
    note = "implement `loadline_cache::Weigh` for it by adding up the `held_bytes` of its fields, or begin with \
            `Cache::builder_weighed(bytes, |key, value| bytes of the value)`"
)]
pub trait Weigh {
    /// Bytes that the value holds outside itself, such as the heap of a `String`, in bytes of the allocator. What several
    /// values share is counted for each of them.
    fn held_bytes(&self) -> usize;
}

/// Bytes that an allocation of `bytes` takes, with a share of the room that lies idle between allocations of different
/// sizes.
pub(crate) fn allocated(bytes: usize) -> usize {
    if bytes == 0 || bytes > isize::MAX as usize / 2 {
        return bytes;
    }
    let whole = (bytes + HEADER_BYTES).next_multiple_of(ALIGN_BYTES);
    let whole = whole.max(LEAST_BYTES);
    whole + whole / IDLE_PART
}

/// Bytes that a value takes in an `Arc` of its own.
pub(crate) fn weight_in_arc<V: Weigh>(value: &V) -> u64 {
    (allocated(ARC_BYTES + size_of::<V>()) - ARC_BYTES + value.held_bytes()) as u64
}

fn sum<'a, T: Weigh + 'a>(values: impl IntoIterator<Item = &'a T>) -> usize {
    // Nothing to add up for plain data.
    match std::mem::needs_drop::<T>() {
        true => values.into_iter().map(Weigh::held_bytes).sum(),
        false => 0,
    }
}

macro_rules! plain {
    ($($plain:ty),*) => {$(
        impl Weigh for $plain {
            fn held_bytes(&self) -> usize {
                0
            }
        }
    )*};
}

plain!(
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    f32,
    f64,
    bool,
    char,
    str,
    ()
);
plain!(
    std::time::Duration,
    std::time::SystemTime,
    std::time::Instant,
    &'static str
);
plain!(std::net::IpAddr, std::net::SocketAddr);

impl Weigh for String {
    fn held_bytes(&self) -> usize {
        allocated(self.capacity())
    }
}

impl<T: Weigh> Weigh for Vec<T> {
    fn held_bytes(&self) -> usize {
        allocated(self.capacity() * size_of::<T>()) + sum(self)
    }
}

impl<T: Weigh> Weigh for VecDeque<T> {
    fn held_bytes(&self) -> usize {
        allocated(self.capacity() * size_of::<T>()) + sum(self)
    }
}

impl<T: Weigh> Weigh for BinaryHeap<T> {
    fn held_bytes(&self) -> usize {
        allocated(self.capacity() * size_of::<T>()) + sum(self)
    }
}

impl<T: Weigh> Weigh for [T] {
    fn held_bytes(&self) -> usize {
        sum(self)
    }
}

impl<T: Weigh, const N: usize> Weigh for [T; N] {
    fn held_bytes(&self) -> usize {
        sum(self)
    }
}

impl<T: Weigh + ?Sized> Weigh for Box<T> {
    fn held_bytes(&self) -> usize {
        allocated(size_of_val(&**self)) + (**self).held_bytes()
    }
}

impl<T: Weigh + ?Sized> Weigh for Arc<T> {
    fn held_bytes(&self) -> usize {
        allocated(ARC_BYTES + size_of_val(&**self)) + (**self).held_bytes()
    }
}

impl<T: Weigh> Weigh for Option<T> {
    fn held_bytes(&self) -> usize {
        self.as_ref().map_or(0, Weigh::held_bytes)
    }
}

impl<T: Weigh, E: Weigh> Weigh for Result<T, E> {
    fn held_bytes(&self) -> usize {
        self.as_ref()
            .map_or_else(Weigh::held_bytes, Weigh::held_bytes)
    }
}

impl<T: ToOwned<Owned: Weigh> + ?Sized> Weigh for Cow<'static, T> {
    fn held_bytes(&self) -> usize {
        match self {
            Cow::Borrowed(_) => 0,
            Cow::Owned(owned) => owned.held_bytes(),
        }
    }
}

/// The table of the standard library: a byte and an entry for each place, of which at most seven in eight are used.
fn table_bytes(capacity: usize, entry_bytes: usize) -> usize {
    match capacity {
        0 => 0,
        capacity => allocated((capacity * 8 / 7).next_power_of_two() * (entry_bytes + 1) + 16),
    }
}

impl<K: Weigh, V: Weigh, S> Weigh for HashMap<K, V, S> {
    fn held_bytes(&self) -> usize {
        table_bytes(self.capacity(), size_of::<(K, V)>()) + sum(self.keys()) + sum(self.values())
    }
}

impl<K: Weigh, S> Weigh for HashSet<K, S> {
    fn held_bytes(&self) -> usize {
        table_bytes(self.capacity(), size_of::<K>()) + sum(self)
    }
}

/// The nodes of a B-tree, which have room for 11 entries and are two thirds full.
fn tree_bytes(len: usize, entry_bytes: usize) -> usize {
    len.div_ceil(7) * allocated(11 * entry_bytes + 2 * LEAST_BYTES)
}

impl<K: Weigh, V: Weigh> Weigh for BTreeMap<K, V> {
    fn held_bytes(&self) -> usize {
        tree_bytes(self.len(), size_of::<(K, V)>()) + sum(self.keys()) + sum(self.values())
    }
}

impl<K: Weigh> Weigh for BTreeSet<K> {
    fn held_bytes(&self) -> usize {
        tree_bytes(self.len(), size_of::<K>()) + sum(self)
    }
}

macro_rules! tuples {
    ($(($($name:ident),*))*) => {$(
        impl<$($name: Weigh),*> Weigh for ($($name,)*) {
            fn held_bytes(&self) -> usize {
                #[expect(non_snake_case, reason = "a field is named like its type")]
                let ($($name,)*) = self;
                0 $(+ $name.held_bytes())*
            }
        }
    )*};
}

tuples! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

impl Weigh for bytes::Bytes {
    /// A part of a larger buffer is weighed as the part.
    fn held_bytes(&self) -> usize {
        allocated(self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry_bytes;

    #[test]
    fn entry_weighs_its_key_its_value_and_the_cache() {
        assert!((300..400).contains(&entry_bytes(40, 100)));
        assert!((200..300).contains(&entry_bytes(0, 100)));
        assert_eq!(entry_bytes(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn values_weigh_what_they_hold() {
        let text = "x".repeat(1_000);
        let least = |value: &dyn Weigh| assert!((1_000..1_600).contains(&value.held_bytes()));
        least(&text);
        least(&Some(text.clone()));
        least(&text.clone().into_bytes());
        least(&Box::<str>::from(&text[..]));
        least(&Arc::<str>::from(&text[..]));
        least(&Arc::new(text.clone()));
        least(&vec![text.clone()]);
        least(&(7_u64, text.clone()));
        least(&[text.clone(), String::new()]);
        least(&Cow::<str>::Owned(text.clone()));
        least(&Ok::<_, u8>(text.clone()));
        least(&HashMap::from([(1_u8, text.clone())]));
        least(&BTreeMap::from([(1_u8, text.clone())]));
        least(&BTreeSet::from([text]));
        least(&vec![[0_u32; 5]; 50]);
        for nothing in [
            &0_u64 as &dyn Weigh,
            &String::new(),
            &"borrowed",
            &[0.5_f64; 9],
        ] {
            assert_eq!(nothing.held_bytes(), 0);
        }
    }
}
