//! A look at the requests of a pipeline before they are executed.

use loadline_resp::head;

/// The most requests that are looked at.
pub(crate) const REQUESTS: usize = 16;
/// A request with more words ends the look.
const WORDS: usize = 8;

/// Puts the second words of the first requests, which are keys in most commands, into `keys`. Returns how many there are,
/// and the bytes of these requests. It is a hint: a request that is unusual, malformed or incomplete ends the look.
pub(crate) fn keys<'b>(bytes: &'b [u8], keys: &mut [&'b [u8]; REQUESTS]) -> (usize, usize) {
    let (mut count, mut at) = (0, 0);
    for place in keys {
        let Some((key, used)) = request(&bytes[at..]) else {
            break;
        };
        *place = key;
        count += 1;
        at += used;
    }
    (count, at)
}

/// The second word of the first request, and the bytes of the request.
fn request(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let mut key = None;
    let used = head::words(bytes, WORDS, |place, word| {
        if place == 1 {
            key = Some(word);
        }
    })?;
    Some((key?, used))
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_resp::{Limits, RequestParser, encode};
    use proptest::prelude::*;

    fn keys(bytes: &[u8]) -> (Vec<&[u8]>, usize) {
        let mut keys = [&[][..]; REQUESTS];
        let (count, used) = super::keys(bytes, &mut keys);
        (keys[..count].to_vec(), used)
    }

    #[test]
    fn keys_are_the_second_words() {
        let mut bytes = Vec::new();
        encode::command(&mut bytes, &["SET", "key", "value"]);
        encode::command(&mut bytes, &["GET", ""]);
        let usual = bytes.len();
        assert_eq!(keys(&bytes), (vec![&b"key"[..], b""], usual));
        for other in [
            &b"*1\r\n$4\r\nPING\r\n"[..],
            b"GET key\r\n",
            b"*2\r\n$3\r\nGET\r\n$9\r\nkey\r\n",
            b"*2\r\n$3\r\nGET\r\n$3\r\nkey",
            b"*2\r\n$99999999999999999999\r\n",
            b"*9\r\n",
            b"*-1\r\n",
            b"*",
        ] {
            let mut bytes = bytes.clone();
            bytes.extend_from_slice(other);
            assert_eq!(keys(&bytes), (vec![&b"key"[..], b""], usual), "{other:?}");
        }
        let many = [&bytes[..]; 20].concat();
        assert_eq!(keys(&many).0.len(), REQUESTS);
        assert_eq!(keys(&many).1, REQUESTS / 2 * usual);
    }

    proptest! {
        /// It agrees with the parser on any bytes in which it finds something.
        #[test]
        fn lookahead_finds_the_requests_of_the_parser(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just(b"*2\r\n".to_vec()), Just(b"*3\r\n".to_vec()), Just(b"$3\r\n".to_vec()), Just(b"key\r\n".to_vec()),
                    Just(b"$0\r\n".to_vec()), Just(b"\r\n".to_vec()), Just(b"$".to_vec()), Just(b"\r".to_vec()),
                    proptest::collection::vec(any::<u8>(), 0..4),
                ],
                0..40,
            )
        ) {
            let bytes = parts.concat();
            let (found, used) = keys(&bytes);
            let mut parser = RequestParser::new(Limits::default());
            let mut at = 0;
            for key in found {
                let (step, request) = parser.parse(&bytes[at..]).unwrap();
                prop_assert_eq!(request.unwrap().get(1), Some(key));
                at += step;
            }
            prop_assert_eq!(at, used);
        }
    }
}
