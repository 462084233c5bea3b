use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use loadline_load::wire::Connect;

use super::*;
use crate::target::Login;

/// A server that gives `replies` to as many requests, one after the other, and hands back what it was
/// sent.
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

fn words(wire: &str) -> String {
    wire.split("\r\n")
        .filter(|line| !line.starts_with(['*', '$']))
        .collect::<Vec<_>>()
        .join(" ")
        .trim()
        .to_owned()
}

fn login(user: Option<&str>) -> Login {
    Login {
        user: user.map(Into::into),
        password: Some(Secret::new("hunter2".into())),
    }
}

#[test]
fn the_handshake_says_what_is_needed_and_no_more() {
    let cases: [(_, _, _, &[&[u8]], _); 5] = [
        (
            Protocol::Resp2,
            Login::default(),
            0,
            &[b"+PONG\r\n", b"+OK\r\n"],
            "PING CLIENT SETNAME loadline",
        ),
        (
            Protocol::Resp2,
            login(None),
            3,
            &[b"+OK\r\n", b"+OK\r\n", b"+PONG\r\n", b"+OK\r\n"],
            "AUTH hunter2 SELECT 3 PING CLIENT SETNAME loadline",
        ),
        (
            Protocol::Resp2,
            login(Some("ann")),
            0,
            &[b"+OK\r\n", b"+PONG\r\n", b"+OK\r\n"],
            "AUTH ann hunter2 PING CLIENT SETNAME loadline",
        ),
        (
            Protocol::Resp3,
            login(None),
            0,
            &[b"%0\r\n", b"+PONG\r\n", b"+OK\r\n"],
            "HELLO 3 AUTH default hunter2 PING CLIENT SETNAME loadline",
        ),
        (
            Protocol::Resp3,
            Login::default(),
            0,
            &[b"%0\r\n", b">1\r\n+hint\r\n+PONG\r\n", b"+OK\r\n"],
            "HELLO 3 PING CLIENT SETNAME loadline",
        ),
    ];
    for (protocol, login, database, replies, wanted) in cases {
        let (mut server, thread) = scripted(replies);
        server.login = login;
        server.database = database;
        Endpoint::new(server, protocol, None)
            .connect()
            .map(drop)
            .unwrap();
        assert_eq!(words(&thread.join().unwrap()), wanted);
    }
}

#[test]
fn a_refused_login_says_so_without_the_password() {
    for reply in [
        &b"-WRONGPASS invalid username-password pair\r\n"[..],
        b"-ERR unknown command 'AUTH', with args beginning with: 'hunter2'\r\n",
        b"-ERR what is hunter2\r\n",
    ] {
        let (mut server, thread) = scripted(Box::leak(Box::new([reply])));
        server.login = login(None);
        let error = Endpoint::new(server, Protocol::Resp2, None)
            .open()
            .unwrap_err()
            .to_string();
        thread.join().unwrap();
        assert!(error.starts_with("AUTH was answered"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_server_that_is_none_is_found_out() {
    for (reply, reason) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "type"),
        (b"", "closed"),
        (b"+PONG\r\n+OK\r\n+OK\r\n", "more replies"),
        (b"$99999999999\r\n", "limit"),
    ] {
        let (server, thread) = scripted(Box::leak(Box::new([reply])));
        let error = Endpoint::new(server, Protocol::Resp2, None)
            .connect()
            .map(drop)
            .unwrap_err()
            .to_string();
        thread.join().unwrap();
        assert!(error.contains(reason), "{error}");
    }
}
