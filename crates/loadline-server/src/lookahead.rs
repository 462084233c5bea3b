//! A look at the requests of a pipeline before they are executed.

use loadline_resp::head;
use loadline_store::Keyspace;

/// The most requests of one look.
const REQUESTS: usize = 16;
/// The most words of these requests together.
const WORDS: usize = 96;
/// The most bytes of these requests together, so that no word is longer than the parser allows.
const BYTES: usize = 64 << 10;

/// The next requests of a connection, read at once: their keys can be brought into the cache of the processor together, and
/// nothing is kept for the rest of a request that is not there yet. A request that is unusual, malformed or incomplete ends
/// the look, and is left to the parser.
#[derive(Debug)]
pub(crate) struct Lookahead<'b> {
    words: [&'b [u8]; WORDS],
    /// The number of words up to the end of each request, and the bytes of the request.
    ends: [(usize, usize); REQUESTS],
    count: usize,
    taken: usize,
}

impl Default for Lookahead<'_> {
    fn default() -> Self {
        Self {
            words: [&[]; WORDS],
            ends: [(0, 0); REQUESTS],
            count: 0,
            taken: 0,
        }
    }
}

impl<'b> Lookahead<'b> {
    /// Reads the requests at the front of `bytes`, in the place of those of the last look.
    pub(crate) fn look(&mut self, bytes: &'b [u8]) {
        let bytes = &bytes[..bytes.len().min(BYTES)];
        let (mut filled, mut at) = (0, 0);
        (self.count, self.taken) = (0, 0);
        while self.count < REQUESTS {
            let room = &mut self.words[filled..];
            let mut words = 0;
            let used = head::words(&bytes[at..], room.len(), |place, word| {
                room[place] = word;
                words = place + 1;
            });
            let Some(used) = used else {
                break;
            };
            filled += words;
            at += used;
            self.ends[self.count] = (filled, used);
            self.count += 1;
        }
    }

    /// The words of the next request, and its bytes.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(&[&'b [u8]], usize)> {
        if self.taken == self.count {
            return None;
        }
        let begin = self
            .taken
            .checked_sub(1)
            .map_or(0, |last| self.ends[last].0);
        let (end, bytes) = self.ends[self.taken];
        self.taken += 1;
        Some((&self.words[begin..end], bytes))
    }

    /// Forgets the requests that were not taken.
    pub(crate) fn clear(&mut self) {
        self.taken = self.count;
    }

    /// The second words of the requests, which are keys in most commands.
    fn keys(&self) -> impl Iterator<Item = &'b [u8]> {
        let mut begin = 0;
        self.ends[..self.count].iter().filter_map(move |(end, _)| {
            let words = &self.words[std::mem::replace(&mut begin, *end)..*end];
            words.get(1).copied()
        })
    }

    /// Brings the keys of the requests into the cache of the processor, where there are several of them.
    #[inline]
    pub(crate) fn warm(&self, store: &mut Keyspace) {
        if self.count > 1 {
            store.warm(self.keys());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_resp::{Limits, RequestParser, encode};
    use proptest::prelude::*;

    /// The second words of the requests of one look, and the bytes of the requests.
    fn keys(bytes: &[u8]) -> (Vec<&[u8]>, usize) {
        let mut ahead = Lookahead::default();
        ahead.look(bytes);
        let keys = ahead.keys().collect();
        let mut used = 0;
        while let Some((_, bytes)) = ahead.next() {
            used += bytes;
        }
        (keys, used)
    }

    #[test]
    fn keys_are_the_second_words() {
        let mut bytes = Vec::new();
        encode::command(&mut bytes, &["SET", "key", "value"]);
        encode::command(&mut bytes, &["PING"]);
        encode::command(&mut bytes, &["GET", ""]);
        let usual = bytes.len();
        assert_eq!(keys(&bytes), (vec![&b"key"[..], b""], usual));
        for other in [
            &b"GET key\r\n"[..],
            b"*2\r\n$3\r\nGET\r\n$9\r\nkey\r\n",
            b"*2\r\n$3\r\nGET\r\n$3\r\nkey",
            b"*2\r\n$99999999999999999999\r\n",
            b"*97\r\n",
            b"*-1\r\n",
            b"*",
        ] {
            let mut bytes = bytes.clone();
            bytes.extend_from_slice(other);
            assert_eq!(keys(&bytes), (vec![&b"key"[..], b""], usual), "{other:?}");
        }
    }

    #[test]
    fn look_ends_where_requests_words_or_bytes_are_many() {
        let repeated = |words: &[&str]| {
            let mut bytes = Vec::new();
            (0..40).for_each(|_| encode::command(&mut bytes, words));
            let mut ahead = Lookahead::default();
            ahead.look(&bytes);
            std::iter::from_fn(|| ahead.next().map(drop)).count()
        };
        assert_eq!(repeated(&["GET", "key"]), REQUESTS);
        assert_eq!(repeated(&["MSET"; 21]), WORDS / 21);
        assert_eq!(repeated(&["SET", "key", &"v".repeat(BYTES / 3)]), 2);
    }

    #[test]
    fn cleared_look_has_no_requests() {
        let mut ahead = Lookahead::default();
        ahead.look(b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n");
        assert_eq!(ahead.next(), Some((&[&b"PING"[..]][..], 14)));
        ahead.clear();
        assert_eq!(ahead.next(), None);
    }

    proptest! {
        /// It agrees with the parser on any bytes in which it finds something.
        #[test]
        fn lookahead_finds_the_requests_of_the_parser(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just(b"*1\r\n".to_vec()), Just(b"*2\r\n".to_vec()), Just(b"*3\r\n".to_vec()), Just(b"$3\r\n".to_vec()),
                    Just(b"key\r\n".to_vec()), Just(b"$0\r\n".to_vec()), Just(b"\r\n".to_vec()), Just(b"$".to_vec()),
                    Just(b"\r".to_vec()), proptest::collection::vec(any::<u8>(), 0..4),
                ],
                0..40,
            )
        ) {
            let bytes = parts.concat();
            let mut ahead = Lookahead::default();
            ahead.look(&bytes);
            let mut parser = RequestParser::new(Limits::default());
            let mut at = 0;
            while let Some((words, used)) = ahead.next() {
                let (step, request) = parser.parse(&bytes[at..]).unwrap();
                prop_assert_eq!(request.unwrap().iter().collect::<Vec<_>>(), words);
                prop_assert_eq!(step, used);
                at += used;
            }
        }
    }
}
