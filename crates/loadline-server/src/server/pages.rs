//! Huge pages for the databases.

use std::thread::{self, JoinHandle};

use loadline_store::HugePages;

use crate::state::Shared;

/// Moves the memory of the databases to huge pages when it has grown, on a thread of its own: the kernel may have to
/// make room for them.
#[derive(Debug, Default)]
pub(super) struct Pages {
    huge: HugePages,
    moving: Option<JoinHandle<usize>>,
}

impl Pages {
    /// Starts the thread if there is much to move and it is not at work.
    pub(super) fn follow(&mut self, shared: &Shared) {
        if self
            .moving
            .as_ref()
            .is_some_and(|moving| !moving.is_finished())
        {
            return;
        }
        let full = self.huge.follow(&shared.databases, shared.written_bytes());
        if full.is_empty() {
            return;
        }
        let thread = thread::Builder::new().name("loadline-pages".to_owned());
        // Without the thread, the memory stays as it is until it has grown again.
        self.moving = thread.spawn(move || full.move_to_huge_pages(|| false)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_moved_when_it_has_grown() {
        const WRITTEN_BYTES: u64 = 64 << 20;
        let mut shared = Shared::new(None, 1, 0, 0);
        let mut pages = Pages::default();
        pages.follow(&shared);
        assert!(pages.moving.is_none(), "nothing was written");
        for number in 0..150_000_u32 {
            shared.databases[3].put_string(&number.to_be_bytes(), &[7; 130], 0, |_| Some(None));
        }
        shared.stats.bytes_in = WRITTEN_BYTES;
        pages.follow(&shared);
        let moved = pages.moving.take().map(JoinHandle::join);
        println!("{:?} huge pages", moved.unwrap().unwrap());
        shared.stats.bytes_in += WRITTEN_BYTES;
        pages.follow(&shared);
        assert!(pages.moving.is_none(), "nothing was added");
    }
}
