//! Tests of the proxy with real sockets.

#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test fail as the test does"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use loadline_link::Error;
use loadline_link::address::Address;
use loadline_link::fault::Fault;
use loadline_link::l4::{LIMIT_BYTES, Proxy, Route};
use loadline_link::shape::{Jitter, Shape};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const MS: Duration = Duration::from_millis(1);
/// A timeout that turns a hang into a failure; nothing takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server played by the test, behind a proxy.
struct Behind {
    server: TcpListener,
    proxy: Proxy,
}

impl Behind {
    fn new(shape: Shape) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let route = Route::from_loopback(server.local_addr().unwrap().into());
        let proxy = Proxy::start(&[route], shape).unwrap();
        Self { server, proxy }
    }

    fn address(&self) -> SocketAddr {
        let Address::Tcp(address) = self.proxy.addresses()[0] else {
            panic!("it listens on TCP");
        };
        address
    }

    fn client(&self) -> TcpStream {
        patient(TcpStream::connect(self.address()).unwrap())
    }

    /// Opens a connection and returns both ends.
    fn connection(&self) -> (TcpStream, TcpStream) {
        let client = self.client();
        (client, patient(self.server.accept().unwrap().0))
    }
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn read_exactly(stream: &mut impl Read, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    stream.read_exact(&mut buffer).unwrap();
    buffer
}

/// Reads until an orderly end.
fn read_to_end(stream: &mut impl Read) -> Vec<u8> {
    let mut buffer = Vec::new();
    stream.read_to_end(&mut buffer).unwrap();
    buffer
}

/// Asserts that nothing arrives for a while, including an end.
fn hears_nothing(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(100 * MS)).unwrap();
    let heard = stream.read(&mut [0; 16]);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let silent = matches!(&heard, Err(error) if error.kind() == ErrorKind::WouldBlock);
    assert!(silent, "{heard:?}");
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// Writes `bytes` in chunks of random sizes, then ends the stream in order.
fn write_in_chunks(mut stream: impl Write, bytes: &[u8], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut rest = bytes;
    while !rest.is_empty() {
        let most = if rng.random_bool(0.5) { 20 } else { 100_000 };
        let (chunk, after) = rest.split_at(rng.random_range(1..=most).min(rest.len()));
        stream.write_all(chunk).unwrap();
        rest = after;
    }
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut rng = SmallRng::seed_from_u64(seed);
    (0..bytes).map(|_| rng.random()).collect()
}

/// Sends three megabytes in random chunks in both directions at once.
fn bytes_stay_intact(shape: Shape, seed: u64) {
    let behind = Behind::new(shape);
    let (client, server) = behind.connection();
    let up = noise(3_000_000, seed);
    let down = noise(3_100_000, seed + 1);
    std::thread::scope(|scope| {
        for (stream, bytes, seed) in [(&client, &up, seed + 2), (&server, &down, seed + 3)] {
            scope.spawn(move || {
                write_in_chunks(stream, bytes, seed);
                stream.shutdown(Shutdown::Write).unwrap();
            });
        }
        let at_server = scope.spawn(|| read_to_end(&mut &server));
        assert!(read_to_end(&mut &client) == down);
        assert!(at_server.join().unwrap() == up);
    });
    wait_until("the connection is closed", || {
        let stats = behind.proxy.stats();
        stats.connections_open == 0 && stats.bytes_in_flight == 0
    });
    let stats = behind.proxy.stats();
    assert_eq!(stats.bytes_up, up.len() as u64);
    assert_eq!(stats.bytes_down, down.len() as u64);
}

#[test]
fn bytes_stay_intact_without_delay() {
    bytes_stay_intact(Shape::default(), 10);
}

#[test]
fn bytes_stay_intact_with_delay_and_jitter() {
    let uniform = Jitter::Uniform { within: 2 * MS };
    bytes_stay_intact(Shape::round_trip(5 * MS).with_jitter(uniform), 20);
    let pareto = Jitter::Pareto {
        scale: MS / 4,
        exponent: 1.5,
    };
    bytes_stay_intact(Shape::round_trip(2 * MS).with_jitter(pareto), 30);
}

#[test]
fn bytes_stay_intact_with_a_limited_bandwidth() {
    let shape = Shape::round_trip(MS).with_bandwidth(20_000_000);
    let start = Instant::now();
    bytes_stay_intact(shape, 40);
    // 3.1 MB at 20 MB/s.
    assert!(start.elapsed() >= 155 * MS);
}

#[test]
fn proxied_bytes_are_never_early() {
    for latency in [MS / 2, MS, 5 * MS, 20 * MS] {
        let jitter = Jitter::Pareto {
            scale: MS / 10,
            exponent: 3.0,
        };
        for shape in [
            Shape::round_trip(latency),
            Shape::round_trip(latency).with_jitter(jitter),
        ] {
            let behind = Behind::new(shape);
            let (mut client, mut server) = behind.connection();
            for _ in 0..30 {
                let start = Instant::now();
                client.write_all(b"there").unwrap();
                read_exactly(&mut server, 5);
                let there = start.elapsed();
                assert!(there >= shape.up.delay, "{there:?} of {latency:?}");
                server.write_all(b"back").unwrap();
                read_exactly(&mut client, 4);
                let both = start.elapsed();
                assert!(both >= latency, "{both:?} of {latency:?}");
            }
        }
    }
}

#[test]
fn bytes_sent_together_arrive_together() {
    let behind = Behind::new(Shape::round_trip(400 * MS));
    let (mut client, mut server) = behind.connection();
    let start = Instant::now();
    for index in 0..50u8 {
        client.write_all(&[index]).unwrap();
    }
    assert_eq!(read_exactly(&mut server, 50), (0..50).collect::<Vec<u8>>());
    // In sequence they would take ten seconds.
    let elapsed = start.elapsed();
    assert!(elapsed >= 200 * MS && elapsed < 9_000 * MS, "{elapsed:?}");
}

#[test]
fn half_close_is_carried_through_and_the_rest_still_flows() {
    let behind = Behind::new(Shape::round_trip(4 * MS));
    let (mut client, mut server) = behind.connection();
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut server), b"question");
    server.write_all(b"answer").unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut client), b"answer");
}

#[test]
fn reset_of_the_server_reaches_the_client() {
    let behind = Behind::new(Shape::round_trip(4 * MS));
    let (mut client, server) = behind.connection();
    client.write_all(b"unread").unwrap();
    wait_until("the server has bytes", || {
        server.peek(&mut [0]).is_ok_and(|bytes| bytes == 1)
    });
    // Closing with unread bytes sends a reset.
    drop(server);
    let error = client.read(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn server_that_is_not_there_resets_the_client() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = closed.local_addr().unwrap();
    drop(closed);
    let route = Route::from_loopback(nowhere.into());
    let proxy = Proxy::start(&[route], Shape::round_trip(MS)).unwrap();
    let Address::Tcp(address) = proxy.addresses()[0] else {
        panic!("it listens on TCP");
    };
    let mut client = patient(TcpStream::connect(address).unwrap());
    let error = client.read(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    wait_until("the pair is gone", || proxy.stats().connections_open == 0);
}

#[test]
fn two_hundred_connections_keep_their_bytes_apart() {
    let behind = Behind::new(Shape::round_trip(5 * MS));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                let mut server = patient(behind.server.accept().unwrap().0);
                scope.spawn(move || {
                    let bytes = read_to_end(&mut server);
                    server.write_all(&bytes).unwrap();
                });
            }
        });
        let clients: Vec<_> = (0..200)
            .map(|index| {
                let mut client = behind.client();
                client.write_all(&noise(20_000, index)).unwrap();
                client
            })
            .collect();
        for (index, mut client) in clients.into_iter().enumerate() {
            client.shutdown(Shutdown::Write).unwrap();
            assert!(read_to_end(&mut client) == noise(20_000, index as u64));
        }
    });
    assert_eq!(behind.proxy.stats().connections, 200);
}

#[test]
fn stalled_reader_stops_the_sender() {
    let behind = Behind::new(Shape::round_trip(2 * MS));
    let (mut client, mut server) = behind.connection();
    client.set_write_timeout(Some(300 * MS)).unwrap();
    let chunk = vec![7; 1 << 20];
    let (mut sent, begun) = (0, Instant::now());
    let stats = loop {
        match client.write(&chunk) {
            Ok(bytes) => sent += bytes,
            // A write also takes as long where the proxy does not run; then there is still room.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let stats = behind.proxy.stats();
                if stats.bytes_in_flight > LIMIT_BYTES as u64 / 2 {
                    break stats;
                }
            }
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 200 << 20, "{sent} bytes went in");
        assert!(begun.elapsed() < PATIENCE, "{:?}", behind.proxy.stats());
    };
    assert!(stats.bytes_in_flight_peak <= LIMIT_BYTES as u64);
    // The data was delayed, not lost.
    let mut rest = vec![0; 1 << 20];
    let mut got = 0;
    while got < sent {
        got += server.read(&mut rest).unwrap();
    }
    assert_eq!(got, sent);
}

#[test]
fn unix_socket_is_proxied_and_its_file_goes_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = directory.path().join("server");
    let listen = directory.path().join("link");
    let server = UnixListener::bind(&upstream).unwrap();
    let route = Route {
        listen: Address::Unix(listen.clone()),
        upstream: Address::Unix(upstream),
    };
    let proxy = Proxy::start(std::slice::from_ref(&route), Shape::round_trip(6 * MS)).unwrap();
    let start = Instant::now();
    let mut client = UnixStream::connect(&listen).unwrap();
    client.write_all(b"ping").unwrap();
    let (mut peer, _) = server.accept().unwrap();
    assert_eq!(read_exactly(&mut peer, 4), b"ping");
    assert!(start.elapsed() >= 3 * MS);
    drop(peer);
    assert_eq!(read_to_end(&mut client), b"");

    proxy.inject(Fault::Refuse).unwrap();
    let refused = UnixStream::connect(&listen).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    proxy.clear().unwrap();
    UnixStream::connect(&listen).unwrap();
    proxy.stop();
    assert!(!listen.exists());
}

#[test]
fn existing_file_at_the_listen_path_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("precious");
    std::fs::write(&file, b"data").unwrap();
    let route = Route {
        listen: Address::Unix(file.clone()),
        upstream: Address::any_loopback(),
    };
    let refusal = Proxy::start(&[route], Shape::default()).unwrap_err();
    assert!(matches!(refusal, Error::Listen { .. }), "{refusal}");
    assert_eq!(std::fs::read(&file).unwrap(), b"data");
}

#[test]
fn impossible_links_are_refused() {
    let refusal = Proxy::start(&[], Shape::default()).unwrap_err();
    assert!(matches!(refusal, Error::NoRoute));
    let behind = Behind::new(Shape::default());
    let refusal = behind.proxy.set_shape(Shape::default().with_loss(0.1));
    assert!(refusal.unwrap_err().to_string().contains("packet"));
    let taken = Route {
        listen: behind.address().into(),
        upstream: Address::any_loopback(),
    };
    let refusal = Proxy::start(&[taken], Shape::default()).unwrap_err();
    assert!(refusal.to_string().contains("listen"), "{refusal}");
}

#[test]
fn shape_can_change_while_it_runs() {
    let behind = Behind::new(Shape::default());
    let (mut client, mut server) = behind.connection();
    let mut there = || {
        let start = Instant::now();
        client.write_all(b"x").unwrap();
        read_exactly(&mut server, 1);
        start.elapsed()
    };
    let quickest = (0..20).map(|_| there()).min();
    behind.proxy.set_shape(Shape::round_trip(400 * MS)).unwrap();
    assert!(there() >= 200 * MS);
    assert!(quickest < Some(200 * MS), "{quickest:?}");
}

#[test]
fn stopping_closes_everything() {
    let behind = Behind::new(Shape::default());
    let (mut client, mut server) = behind.connection();
    let address = behind.address();
    behind.proxy.stop();
    assert_eq!(read_to_end(&mut client), b"");
    assert_eq!(read_to_end(&mut server), b"");
    let refused = TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn cut_ends_both_sides_in_order_and_loses_what_is_under_way() {
    let behind = Behind::new(Shape::round_trip(10_000 * MS));
    let (mut client, mut server) = behind.connection();
    client.write_all(b"lost").unwrap();
    wait_until("it is under way", || {
        behind.proxy.stats().bytes_in_flight == 4
    });
    behind.proxy.inject(Fault::Cut).unwrap();
    assert_eq!(read_to_end(&mut server), b"");
    assert_eq!(read_to_end(&mut client), b"");
    assert_eq!(behind.proxy.stats().bytes_in_flight, 0);
    // Later connections work normally.
    let (mut client, _server) = behind.connection();
    client.write_all(b"fine").unwrap();
    drop((client, server));
}

#[test]
fn reset_is_an_error_on_both_sides() {
    let behind = Behind::new(Shape::round_trip(10_000 * MS));
    let (mut client, mut server) = behind.connection();
    client.write_all(b"lost").unwrap();
    wait_until("it is under way", || {
        behind.proxy.stats().bytes_in_flight == 4
    });
    behind.proxy.inject(Fault::Reset).unwrap();
    for stream in [&mut client, &mut server] {
        let error = stream.read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    let stats = behind.proxy.stats();
    assert_eq!((stats.connections_open, stats.bytes_in_flight), (0, 0));
}

#[test]
fn half_open_is_an_end_for_the_server_and_nothing_for_the_client() {
    let behind = Behind::new(Shape::round_trip(MS));
    let (mut client, mut server) = behind.connection();
    behind.proxy.inject(Fault::HalfOpen).unwrap();
    assert_eq!(read_to_end(&mut server), b"");
    drop(server);
    for _ in 0..3 {
        client.write_all(b"is anybody there?").unwrap();
        hears_nothing(&mut client);
    }
    drop(client);
    wait_until("the client has closed", || {
        behind.proxy.stats().connections_open == 0
    });
}

#[test]
fn freeze_holds_everything_until_it_is_cleared_and_loses_nothing() {
    let behind = Behind::new(Shape::round_trip(2 * MS));
    let (mut client, mut server) = behind.connection();
    client.write_all(b"1").unwrap();
    assert_eq!(read_exactly(&mut server, 1), b"1");
    behind.proxy.inject(Fault::Freeze).unwrap();
    client.write_all(b"2").unwrap();
    server.write_all(b"3").unwrap();
    hears_nothing(&mut client);
    hears_nothing(&mut server);
    // The kernel completes a new connection, which receives nothing either.
    let mut second = behind.client();
    second.write_all(b"4").unwrap();
    hears_nothing(&mut second);

    behind.proxy.clear().unwrap();
    assert_eq!(read_exactly(&mut server, 1), b"2");
    assert_eq!(read_exactly(&mut client, 1), b"3");
    let mut other = patient(behind.server.accept().unwrap().0);
    assert_eq!(read_exactly(&mut other, 1), b"4");
}

#[test]
fn connections_in_a_black_hole_stay_silent_and_later_ones_work() {
    let behind = Behind::new(Shape::round_trip(2 * MS));
    let (mut client, mut server) = behind.connection();
    behind.proxy.inject(Fault::BlackHole).unwrap();
    client.write_all(b"lost").unwrap();
    behind.proxy.clear().unwrap();
    client.write_all(b"lost").unwrap();
    server.write_all(b"lost").unwrap();
    hears_nothing(&mut client);
    hears_nothing(&mut server);
    let (mut client, mut server) = behind.connection();
    client.write_all(b"fine").unwrap();
    assert_eq!(read_exactly(&mut server, 4), b"fine");
}

#[test]
fn refused_are_new_connections_only_and_until_it_is_cleared() {
    let behind = Behind::new(Shape::round_trip(MS));
    let (mut client, mut server) = behind.connection();
    behind.proxy.inject(Fault::Refuse).unwrap();
    let refused = TcpStream::connect(behind.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    client.write_all(b"goes on").unwrap();
    assert_eq!(read_exactly(&mut server, 7), b"goes on");
    behind.proxy.clear().unwrap();
    let (mut client, mut server) = behind.connection();
    client.write_all(b"back").unwrap();
    assert_eq!(read_exactly(&mut server, 4), b"back");
}

#[test]
fn slow_close_delays_the_end_and_not_the_bytes() {
    let behind = Behind::new(Shape::round_trip(MS));
    let (client, mut server) = behind.connection();
    let delay = 1_000 * MS;
    behind.proxy.inject(Fault::SlowClose { delay }).unwrap();
    let start = Instant::now();
    (&client).write_all(b"last words").unwrap();
    drop(client);
    assert_eq!(read_exactly(&mut server, 10), b"last words");
    let words = start.elapsed();
    assert_eq!(read_to_end(&mut server), b"");
    let end = start.elapsed();
    assert!(end >= delay && words < end - 100 * MS, "{words:?} {end:?}");
}
