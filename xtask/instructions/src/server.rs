//! Commands as the server executes them: its event loop, the requests' bytes, the store and the replies' bytes.
//!
//! A measured function runs a server of its own on a thread of its own, and callgrind counts threads apart. One
//! connection sends windows of requests; the next window follows the last reply, so the turns of the event loop are
//! the same in every run. What is counted includes the start of the loop, the connection and the first window, which
//! makes the keys: two percent of a case.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use loadline_resp::{Limits, Skipper, encode};
use loadline_server::{Listen, Server, ServerConfig};

use crate::{Measured, VALUE, distinct};

/// Requests that are sent together.
const WINDOW: usize = 16;
/// Windows of a case.
const WINDOWS: usize = 100;
/// Time limit of a reply; the server runs in a simulator.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run() -> anyhow::Result<Vec<Measured>> {
    let key = |place: usize| format!("key:{place:012}");
    let text = String::from_utf8_lossy(VALUE);
    let set = |place| words(&["SET", &key(place), &text]);
    let get = |place| words(&["GET", &key(place)]);
    let sets = window(set);
    let mget = |_| {
        let keys: Vec<String> = (0..10).map(key).collect();
        let keys = keys.iter().map(String::as_str);
        words(&["MGET"].into_iter().chain(keys).collect::<Vec<_>>())
    };
    let field = |place: usize| words(&["HSET", "hash", &key(place), &text]);
    let read_field = |place: usize| words(&["HGET", "hash", &key(place)]);
    let member = |place: usize| words(&["SADD", "set", &key(place)]);
    let item = |place: usize| {
        if place.is_multiple_of(2) {
            words(&["LPUSH", "list", &text])
        } else {
            words(&["RPOP", "list"])
        }
    };
    Ok(vec![
        case(serve_get, &sets, &window(get))?,
        case(serve_get_alone, &sets[..1], &[get(0)])?,
        case(serve_set, &sets, &sets)?,
        case(serve_mget, &sets, &window(mget))?,
        case(serve_incr, &[], &window(|_| words(&["INCR", "count"])))?,
        case(
            serve_expire,
            &sets,
            &window(|place| words(&["EXPIRE", &key(place), "1000"])),
        )?,
        case(serve_hset, &[], &window(field))?,
        case(serve_hget, &window(field), &window(read_field))?,
        case(serve_sadd, &[], &window(member))?,
        case(serve_list, &[], &window(item))?,
    ])
}

fn words(words: &[&str]) -> Vec<u8> {
    let mut request = Vec::new();
    encode::command(&mut request, words);
    request
}

fn window(request: impl Fn(usize) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..WINDOW).map(request).collect()
}

/// Sends `first` once and `requests` [`WINDOWS`] times to a server that `serve` runs.
fn case(
    serve: impl Fn(&mut Server, &AtomicBool) -> bool + Copy + Send + Sync,
    first: &[Vec<u8>],
    requests: &[Vec<u8>],
) -> anyhow::Result<Measured> {
    let mut server = Server::bind(ServerConfig {
        listen: vec![Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())],
        ..ServerConfig::default()
    })?;
    let address = *server.local_addrs().first().context("no address")?;
    let stop = AtomicBool::new(false);
    let served = thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&mut server, &stop));
        let sent = TcpStream::connect(address)
            .map_err(Into::into)
            .and_then(|mut connection| {
                connection.set_nodelay(true)?;
                connection.set_read_timeout(Some(PATIENCE))?;
                exchange(&mut connection, first)?;
                for _ in 0..WINDOWS {
                    exchange(&mut connection, requests)?;
                }
                // The end of the connection, or of the wait, wakes the server up.
                stop.store(true, Ordering::Relaxed);
                anyhow::Ok(())
            });
        stop.store(true, Ordering::Relaxed);
        sent.map(|()| serving.join().unwrap_or(false))
    })?;
    ensure!(
        served,
        "{}: the server failed",
        std::any::type_name_of_val(&serve)
    );
    Ok(Measured::new(&serve, (WINDOWS * requests.len()) as u64))
}

/// Sends `requests` together and reads a reply to each.
fn exchange(connection: &mut TcpStream, requests: &[Vec<u8>]) -> anyhow::Result<()> {
    if requests.is_empty() {
        return Ok(());
    }
    connection.write_all(&requests.concat())?;
    let mut skipper = Skipper::new(Limits::default());
    let mut received = vec![0; 64 << 10];
    let (mut replies, mut errors) = (0, 0);
    while replies < requests.len() {
        let bytes = connection.read(&mut received)?;
        ensure!(bytes > 0, "the server closed the connection");
        let fed = skipper.feed(&received[..bytes], |skipped| {
            replies += 1;
            errors += usize::from(!skipped.error_code().is_empty());
        });
        fed.context("the server does not speak RESP")?;
    }
    ensure!(errors == 0, "{errors} requests were refused");
    Ok(())
}

#[inline(always)]
fn serve(server: &mut Server, stop: &AtomicBool) -> bool {
    server.run(stop).is_ok()
}

#[inline(never)]
fn serve_get(server: &mut Server, stop: &AtomicBool) -> bool {
    distinct("get");
    serve(server, stop)
}

#[inline(never)]
fn serve_get_alone(server: &mut Server, stop: &AtomicBool) -> bool {
    distinct("get_alone");
    serve(server, stop)
}

#[inline(never)]
fn serve_set(server: &mut Server, stop: &AtomicBool) -> bool {
    distinct("set");
    serve(server, stop)
}

#[inline(never)]
fn serve_mget(server: &mut Server, stop: &AtomicBool) -> bool {
    distinct("mget");
    serve(server, stop)
}

#[inline(never)]
fn serve_incr(server: &mut Server, stop: &AtomicBool) -> bool {
    distinct("incr");
    serve(server, stop)
}

#[inline(never)]
fn serve_expire(server: &mut Server, stop: &AtomicBool) -> bool {
    distinct("expire");
    serve(server, stop)
}

#[inline(never)]
fn serve_hset(server: &mut Server, stop: &AtomicBool) -> bool {
    distinct("hset");
    serve(server, stop)
}

#[inline(never)]
fn serve_hget(server: &mut Server, stop: &AtomicBool) -> bool {
    distinct("hget");
    serve(server, stop)
}

#[inline(never)]
fn serve_sadd(server: &mut Server, stop: &AtomicBool) -> bool {
    distinct("sadd");
    serve(server, stop)
}

#[inline(never)]
fn serve_list(server: &mut Server, stop: &AtomicBool) -> bool {
    distinct("list");
    serve(server, stop)
}
