//! A server that replies without doing any work: the time of a call to it is the time of the socket, with the
//! encoding and decoding at both ends.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loadline_cache::connect;
use loadline_client::Tls;
use loadline_resp::{Limits, Protocol, Request, RequestParser, encode};

use super::Connect;
use crate::exit::Failure;
use crate::systems::NullServer;
use crate::systems::client::client;

/// Buffer size for reading.
const READ_BYTES: usize = 64 << 10;

/// Starts the server, and opens connections to it as long as the returned function exists.
///
/// # Errors
/// If no port is free.
pub(super) fn start() -> Result<Connect, Failure> {
    let server = null_server(Arc::default(), None)?;
    let at = server.server();
    let client = client(&at, &at.address, &Tls::default(), Protocol::Resp3);
    Ok(Arc::new(move || {
        let _ = &server;
        Ok(connect(client.clone())?.into())
    }))
}

/// Starts the server on a free port of loopback, or on a socket in the file system. It answers reads with as many bytes as
/// the last write of all connections that share `value_bytes` had.
///
/// # Errors
/// That it cannot listen there.
pub(crate) fn null_server(
    value_bytes: Arc<AtomicUsize>,
    unix: Option<&Path>,
) -> Result<NullServer, Failure> {
    // The other end notices where a connection breaks.
    match unix {
        None => NullServer::start(move |stream| {
            let _ = Connection::new(&value_bytes).serve(stream);
        }),
        Some(path) => NullServer::start_at(path, move |stream| {
            let _ = Connection::new(&value_bytes).serve(stream);
        }),
    }
}

/// One connection.
pub(super) struct Connection<'v> {
    /// Length of the last value written over any connection. A read is answered with a value of this length.
    value_bytes: &'v AtomicUsize,
    value: Vec<u8>,
    /// Number of commands in an open transaction.
    queued: Option<u64>,
    out: Vec<u8>,
}

impl<'v> Connection<'v> {
    pub(super) fn new(value_bytes: &'v AtomicUsize) -> Self {
        Self {
            value_bytes,
            value: Vec::new(),
            queued: None,
            out: Vec::new(),
        }
    }

    /// Answers every complete request, however it is split, until the peer closes the connection.
    pub(super) fn serve(mut self, mut stream: impl Read + Write) -> io::Result<()> {
        let mut parser = RequestParser::new(Limits::default());
        let mut chunk = vec![0; READ_BYTES];
        let mut pending = Vec::new();
        loop {
            let read = stream.read(&mut chunk)?;
            if read == 0 {
                return Ok(());
            }
            pending.extend_from_slice(&chunk[..read]);
            let mut used = 0;
            loop {
                let (bytes, request) = parser
                    .parse(&pending[used..])
                    .map_err(|error| io::Error::other(error.to_string()))?;
                used += bytes;
                let Some(request) = request else {
                    break;
                };
                self.answer(&request);
            }
            pending.drain(..used);
            stream.write_all(&self.out)?;
            self.out.clear();
        }
    }

    fn answer(&mut self, request: &Request<'_>) {
        let out = &mut self.out;
        let keys = request.len() as u64 - 1;
        match &request[0] {
            b"HELLO" => {
                encode::map_header(out, 2, Protocol::Resp3);
                encode::bulk(out, b"server");
                encode::bulk(out, b"null");
                encode::bulk(out, b"proto");
                encode::integer(out, 3);
            }
            b"GET" => {
                self.value
                    .resize(self.value_bytes.load(Ordering::Relaxed), b'x');
                encode::bulk(out, &self.value);
            }
            b"MGET" => {
                self.value
                    .resize(self.value_bytes.load(Ordering::Relaxed), b'x');
                encode::array_header(out, keys);
                (0..keys).for_each(|_| encode::bulk(out, &self.value));
            }
            b"DEL" => encode::integer(out, keys as i64),
            b"MULTI" => {
                self.queued = Some(0);
                encode::simple(out, b"OK");
            }
            b"EXEC" => {
                let queued = self.queued.take().unwrap_or(0);
                encode::array_header(out, queued);
                (0..queued).for_each(|_| encode::simple(out, b"OK"));
            }
            b"SET" | b"MSET" => {
                let value = request.get(2).unwrap_or_default();
                self.value_bytes.store(value.len(), Ordering::Relaxed);
                match &mut self.queued {
                    Some(queued) => {
                        *queued += 1;
                        encode::simple(out, b"QUEUED");
                    }
                    None => encode::simple(out, b"OK"),
                }
            }
            _ => encode::simple(out, b"OK"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that returns one byte per read.
    struct Bytes<'b> {
        incoming: &'b [u8],
        outgoing: Vec<u8>,
    }

    impl Read for Bytes<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.incoming.split_first() else {
                return Ok(0);
            };
            buffer[0] = *first;
            self.incoming = rest;
            Ok(1)
        }
    }

    impl Write for Bytes<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.outgoing.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn reads_are_answered_with_as_many_bytes_as_were_written() {
        let incoming = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n1234\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n\
            *3\r\n$4\r\nMGET\r\n$1\r\nk\r\n$1\r\nl\r\n*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n5\r\n\
            *1\r\n$4\r\nEXEC\r\n*3\r\n$3\r\nDEL\r\n$1\r\nk\r\n$1\r\nl\r\n";
        let value_bytes = AtomicUsize::new(0);
        let mut stream = Bytes {
            incoming,
            outgoing: Vec::new(),
        };
        Connection::new(&value_bytes).serve(&mut stream).unwrap();
        assert_eq!(
            String::from_utf8(stream.outgoing).unwrap(),
            "+OK\r\n$4\r\nxxxx\r\n*2\r\n$4\r\nxxxx\r\n$4\r\nxxxx\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n:2\r\n"
        );
        assert_eq!(value_bytes.into_inner(), 1);
    }

    #[test]
    fn bytes_that_are_no_request_end_the_connection() {
        let value_bytes = AtomicUsize::new(0);
        let mut stream = Bytes {
            incoming: b"*1\r\n$99999999999999\r\n",
            outgoing: Vec::new(),
        };
        assert!(Connection::new(&value_bytes).serve(&mut stream).is_err());
    }
}
