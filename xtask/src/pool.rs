//! Work on several things at the same time.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::Context;

/// The number of CPUs that this program may use; 1 if the system does not say.
pub(crate) fn cpus() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Gives this thread, and the programs that it starts from now on, the time of the CPUs that nobody else wants.
///
/// # Errors
/// If the system does not permit it.
pub(crate) fn yield_to_others() -> anyhow::Result<()> {
    let milder = 10;
    rustix::process::nice(milder).context("the priority of a thread could not be lowered")?;
    Ok(())
}

/// The result of `work` for each item, in the order of the items, which are begun in that order, `workers` at the same time.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    workers: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(place) else { return };
                    let result = work(item);
                    let mut done = done.lock().expect("no thread panics with the lock");
                    done.push((place, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panics with the lock");
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    #[test]
    fn items_are_worked_on_together_and_results_keep_their_order() {
        let together = Barrier::new(2);
        let doubled = super::map(&[1, 2, 3, 4], 2, |item| {
            together.wait();
            item * 2
        });
        assert_eq!(doubled, [2, 4, 6, 8]);
        assert!(super::map(&[0; 0], 2, |item| *item).is_empty());
    }
}
