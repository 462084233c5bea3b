//! RESP2 and RESP3, the protocols of Redis: an incremental decoder with limits, a reply skipper, a request
//! parser and an encoder that does not allocate.
//!
//! It works on bytes only. It is not a client: it has no sockets, no clocks and no notion of which reply
//! answers which request. It trusts nothing that it reads: hostile bytes give an [`Error`], in memory that
//! is in proportion to the bytes received, independent of the lengths that they announce.
//!
//! The main type is [`Decoder`], which reads replies into values that borrow from the buffer. [`Skipper`]
//! counts replies where their content does not matter, [`RequestParser`] is the server's side, [`head`] reads
//! short values of the usual form without any of them, and [`encode`] writes requests and replies.
//!
//! ```
//! use loadline_resp::{Decoder, Limits, Reply, encode};
//!
//! let mut request = Vec::new();
//! encode::command(&mut request, &["GET", "greeting"]);
//! assert_eq!(request, b"*2\r\n$3\r\nGET\r\n$8\r\ngreeting\r\n");
//!
//! let received = b"$5\r\nhello\r\n";
//! let mut decoder = Decoder::new(Limits::default());
//! let (reply, used) = decoder.decode(received)?.expect("the reply is complete");
//! assert_eq!(reply, Reply::Bulk(b"hello"));
//! assert_eq!(used, received.len());
//! # Ok::<(), loadline_resp::Error>(())
//! ```
//!
//! Streamed strings and aggregates of RESP3 are refused with [`Error::Streamed`]; no known server sends
//! them.

#![forbid(unsafe_code)]

mod decode;
pub mod encode;
mod error;
pub mod head;
mod inline;
mod limits;
mod number;
mod reply;
mod request;
mod shape;
mod skip;
mod span;
#[cfg(test)]
mod tests;
mod token;

pub use decode::Decoder;
pub use encode::{Sink, SliceSink};
pub use error::{Error, Malformed, RequestFault};
pub use limits::{DEPTH_CEILING, Limits};
pub use reply::{Attributed, Frame, OwnedReply, Reply};
pub use request::{MAX_ARGS, Request, RequestParser};
pub use shape::ReplyKind;
pub use skip::{ERROR_TEXT_BYTES, Skipped, Skipper};

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// RESP2, which every connection starts with.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}
