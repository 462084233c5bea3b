use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use loadline_load::wire::Connect;

use super::*;

/// A server that answers requests with `replies`, in order, and returns what it received.
fn scripted(replies: &'static [&'static [u8]]) -> (Server, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::local(listener.local_addr().unwrap());
    let thread = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut heard = String::new();
        for reply in replies {
            let mut buffer = [0; 4_096];
            let bytes = socket.read(&mut buffer).unwrap();
            heard.push_str(std::str::from_utf8(&buffer[..bytes]).unwrap());
            socket.write_all(reply).unwrap();
        }
        heard
    });
    (server, thread)
}

#[test]
fn server_that_is_none_is_found_out() {
    for (reply, reason) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "type"),
        (b"", "closed"),
        (b"+PONG\r\n+OK\r\n+OK\r\n", "more replies"),
        (b"$99999999999\r\n", "limit"),
    ] {
        let (server, thread) = scripted(Box::leak(Box::new([reply])));
        let error = Endpoint::local(server)
            .connect()
            .map(drop)
            .unwrap_err()
            .to_string();
        thread.join().unwrap();
        assert!(error.contains(reason), "{error}");
    }
}
