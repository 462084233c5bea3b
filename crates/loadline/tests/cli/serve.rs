//! `loadline serve`, spoken to in raw RESP.

use std::os::unix::net::UnixStream;

use crate::util::{Dir, PATIENCE, Serving, converse, signal, wait_until};

#[test]
fn it_serves_and_ends_on_a_signal() {
    for name in ["TERM", "INT"] {
        let mut serving = Serving::start(&Dir::new(), &[]);
        serving.answers("PING\r\n", "+PONG\r\n");
        serving.answers(
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nNOPE\r\n",
            "+OK\r\n$1\r\nv\r\n-ERR unknown command 'NOPE', with args beginning with: \r\n",
        );
        signal(serving.process.id(), name);
        let mut status = None;
        wait_until("the server ends", || {
            status = serving.process.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "{name}: {status:?}");
    }
}

#[test]
fn it_serves_a_socket_in_the_file_system() {
    let dir = Dir::new();
    let _serving = Serving::start(&dir, &["--unix", "served.sock"]);
    let stream = UnixStream::connect(dir.path().join("served.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    converse(stream, "PING\r\n", "+PONG\r\n");
}

#[test]
fn with_a_password_strangers_are_refused() {
    let dir = Dir::new();
    dir.write("secret.txt", "hunter2\n");
    let serving = Serving::start(&dir, &["--password-file", "secret.txt"]);
    serving.answers("GET k\r\n", "-NOAUTH Authentication required.\r\n");
    serving.answers(
        "AUTH nope\r\n",
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    );
    serving.answers("AUTH hunter2\r\nGET k\r\n", "+OK\r\n$-1\r\n");
}

#[test]
fn the_memory_limit_is_that_of_the_command_line() {
    let flags = ["--maxmemory", "1MiB", "--maxmemory-policy", "allkeys-lfu"];
    let serving = Serving::start(&Dir::new(), &flags);
    serving.answers(
        "CONFIG GET maxmemory\r\nCONFIG GET maxmemory-policy\r\n",
        "*2\r\n$9\r\nmaxmemory\r\n$7\r\n1048576\r\n*2\r\n$16\r\nmaxmemory-policy\r\n$11\r\nallkeys-lfu\r\n",
    );
}

#[test]
fn a_port_that_is_taken_ends_with_69() {
    let dir = Dir::new();
    let serving = Serving::start(&dir, &[]);
    let address = serving.address.to_string();
    dir.run(&["serve", "--listen", &address])
        .failed(69, &address);
}
