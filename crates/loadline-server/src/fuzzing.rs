//! The entry point of the fuzz target `commands`: arbitrary requests to a server without sockets.

use loadline_resp::{Limits, RequestParser, Skipper};

use crate::buffer::Output;
use crate::commands;
use crate::others::Nobody;
use crate::peer::Origin;
use crate::session::Replies;
use crate::state::Shared;

/// The limit of pending replies, so that values of 512 MB do not slow fuzzing down.
const OUTPUT_BYTES: usize = 16 << 20;
/// The limit of requests per input.
const MOST_REQUESTS: usize = 64;

/// Executes the requests in `bytes` for one client of a new server.
///
/// # Panics
/// If the reply to a request is not exactly one complete reply, as far as the client wants replies.
pub fn serve(bytes: &[u8]) {
    let mut shared = Shared::new(None, 10, 6_379, commands::places().len());
    let mut session = shared.session(Origin::default());
    let mut parser = RequestParser::new(Limits::default());
    let mut at = 0;
    for _ in 0..MOST_REQUESTS {
        let Ok((used, Some(request))) = parser.parse(&bytes[at..]) else {
            return;
        };
        at += used;
        let wanted = session.replies == Replies::On;
        let mut output = Output::new(OUTPUT_BYTES);
        let words: Vec<&[u8]> = request.iter().collect();
        commands::execute(&words, &mut session, &mut shared, &mut output, &Nobody);
        if output.has_overflowed() || session.closing || shared.shutdown {
            return;
        }
        let mut skipper = Skipper::new(Limits::default());
        let mut replies = 0;
        let read = skipper.feed(output.as_slice(), |_| replies += 1);
        assert_eq!(read, Ok(()), "to {request:?}");
        assert!(skipper.is_between_replies(), "half a reply to {request:?}");
        let still_wanted = session.replies == Replies::On;
        assert!(
            replies == 1 || (replies == 0 && !(wanted && still_wanted)),
            "{replies} replies to {request:?}"
        );
    }
}
