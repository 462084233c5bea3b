//! Servers that a test plays itself.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// The answer of a server to `HELLO`.
pub(crate) const HELLO: &[u8] = b"%1\r\n+proto\r\n:3\r\n";

/// Serves each connection in its own thread, which gets the number of the connection. The threads end
/// with the process of the test.
pub(crate) fn serve(each: impl Fn(TcpStream, usize) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (stream, each) = (stream.unwrap(), each.clone());
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || each(stream, number));
        }
    });
    address
}

/// Reads once; empty at the end of the connection.
pub(crate) fn read(stream: &mut TcpStream) -> Vec<u8> {
    let mut buf = [0; 4096];
    let bytes = stream.read(&mut buf).unwrap_or(0);
    buf[..bytes].to_vec()
}

/// Answers what the client reads first: the handshake.
pub(crate) fn greet(stream: &mut TcpStream) {
    read(stream);
    // A client that is gone is no matter here.
    let _ = stream.write_all(HELLO);
}

/// Answers each of the following reads with the next of these, and is silent after them.
pub(crate) fn answer(stream: &mut TcpStream, answers: &[&[u8]]) {
    for answer in answers {
        if read(stream).is_empty() || stream.write_all(answer).is_err() {
            return;
        }
    }
    while !read(stream).is_empty() {}
}
