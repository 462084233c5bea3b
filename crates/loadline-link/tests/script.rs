//! A proxy that follows a script, with real sockets and a protocol of lines.

#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test fail as the test does"
)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loadline_link::Error;
use loadline_link::address::Address;
use loadline_link::fault::Fault;
use loadline_link::l4::{Proxy, Route, Scripted};
use loadline_link::script::{
    Action, Again, Counts, Ends, Messages, Part, Scope, Script, Step, Trigger,
};
use loadline_link::shape::Shape;

/// A timeout that turns a hang into a failure; nothing takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time for which nothing must arrive.
const QUIET: Duration = Duration::from_millis(100);

/// Lines, whose name is their first letter.
struct Lines;

impl Messages for Lines {
    fn message<'b>(&'b mut self, bytes: &'b [u8]) -> Result<(usize, Option<&'b [u8]>), String> {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        Ok(end.map_or((0, None), |end| (end + 1, Some(&bytes[..1]))))
    }

    fn reply(&mut self, bytes: &[u8]) -> Result<(usize, Ends), String> {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        Ok(end.map_or((bytes.len(), Ends::Nothing), |end| (end + 1, Ends::Reply)))
    }
}

/// A server that answers each line with the number of lines so far, behind a proxy.
struct Behind {
    proxy: Proxy,
    executed: Arc<AtomicU64>,
}

impl Behind {
    fn new(steps: Vec<Step>) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let route = Route::from_loopback(server.local_addr().unwrap().into());
        let executed = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&executed);
        std::thread::spawn(move || {
            for stream in server.incoming() {
                let (mut stream, counted) = (stream.unwrap(), Arc::clone(&counted));
                std::thread::spawn(move || {
                    for _ in BufReader::new(stream.try_clone().unwrap())
                        .lines()
                        .map_while(Result::ok)
                    {
                        let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
                        let _ = stream.write_all(format!("{number}\n").as_bytes());
                    }
                });
            }
        });
        let scripted = Scripted {
            script: Script { seed: 1, steps },
            messages: Some(Box::new(|| Box::new(Lines))),
            max_connections: 64,
        };
        let proxy = Proxy::scripted(&[route], Shape::default(), scripted).unwrap();
        Self { proxy, executed }
    }

    fn address(&self) -> SocketAddr {
        let Address::Tcp(address) = self.proxy.addresses()[0] else {
            panic!("it listens on TCP");
        };
        address
    }

    fn client(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn executed(&self) -> u64 {
        self.executed.load(Ordering::SeqCst)
    }
}

fn at(name: &str, first: u64, action: Action) -> Step {
    Step {
        when: Trigger {
            counts: Counts::Messages(vec![name.into()]),
            first,
            again: Again::Never,
            times: None,
        },
        action,
        scope: Scope::Path,
        lasts: None,
    }
}

/// Sends some lines at once.
fn send(mut stream: &TcpStream, lines: &str) {
    stream.write_all(lines.as_bytes()).unwrap();
}

/// The next line; empty at an orderly end. It reads no byte behind the line.
fn line(mut stream: &TcpStream) -> String {
    let (mut text, mut byte) = (String::new(), [0]);
    while !text.ends_with('\n') && stream.read(&mut byte).unwrap() > 0 {
        text.push(char::from(byte[0]));
    }
    text
}

fn is_silent(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(QUIET)).unwrap();
    let heard = stream.read(&mut [0; 16]);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    matches!(&heard, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn cut_reply_ends_its_connection_after_the_message_was_executed() {
    let mut step = at("i", 2, Action::CutReply);
    step.when.again = Again::Every(1);
    step.when.times = Some(2);
    let behind = Behind::new(vec![step]);
    let client = behind.client();
    send(&client, "i\ng\ni\ni\n");
    assert_eq!(
        [line(&client), line(&client), line(&client)],
        ["1\n", "2\n", ""]
    );
    // The last line arrived as well, and its reply was cut off with the one before.
    while behind.executed() < 4 {
        std::thread::yield_now();
    }
    let other = behind.client();
    send(&other, "i\n");
    assert_eq!(line(&other), "5\n");
    let occurrences = behind.proxy.occurrences();
    assert_eq!(occurrences.len(), 2);
    assert!(
        occurrences
            .iter()
            .all(|one| one.step == 0 && one.ended >= Some(one.began))
    );
}

#[test]
fn answers_come_in_their_turn_and_the_connection_can_end_after_them() {
    let answer = |close_after| Action::Answer {
        parts: vec![
            Part {
                text: "no".into(),
                times: 2,
            },
            Part {
                text: "\n".into(),
                times: 1,
            },
        ],
        close_after,
    };
    let closing = Some(Duration::from_millis(1));
    let behind = Behind::new(vec![at("w", 1, answer(None)), at("w", 2, answer(closing))]);
    let client = behind.client();
    send(&client, "r\nw\nr\nw\nr\n");
    let lines: [String; 5] = std::array::from_fn(|_| line(&client));
    assert_eq!(lines, ["1\n", "nono\n", "2\n", "nono\n", ""]);
}

#[test]
fn faults_of_a_connection_begin_before_its_message_and_leave_others_alone() {
    for fault in [Fault::BlackHole, Fault::Freeze, Fault::HalfOpen, Fault::Cut] {
        let mut step = at("x", 1, Action::Fault(fault));
        step.scope = Scope::Connection;
        let behind = Behind::new(vec![step]);
        let (client, other) = (behind.client(), behind.client());
        send(&client, "a\n");
        assert_eq!(line(&client), "1\n");
        send(&client, "x\nb\n");
        if fault == Fault::Cut {
            assert_eq!(line(&client), "");
        } else {
            assert!(is_silent(&client), "{fault:?}");
        }
        assert_eq!(behind.executed(), 1, "{fault:?}");
        send(&other, "a\n");
        assert_eq!(line(&other), "2\n", "{fault:?}");
        if fault == Fault::Freeze {
            behind.proxy.clear().unwrap();
            assert_eq!([line(&client), line(&client)], ["3\n", "4\n"]);
        }
    }
}

#[test]
fn lasting_faults_of_the_path_end_by_themselves() {
    let lasts = Some(3 * QUIET);
    let lasting = |fault| Step {
        lasts,
        ..at("x", 1, Action::Fault(fault))
    };
    let behind = Behind::new(vec![lasting(Fault::Refuse), lasting(Fault::Freeze)]);
    let (client, other) = (behind.client(), behind.client());
    send(&other, "a\n");
    assert_eq!(line(&other), "1\n");
    send(&client, "x\n");
    while behind.proxy.occurrences().len() < 2 {
        std::thread::yield_now();
    }
    let refused = TcpStream::connect(behind.address());
    let begun = behind.proxy.occurrences()[1].began;
    // On a busy machine, it can be over before the attempt.
    assert!(refused.is_err() || begun.elapsed() >= 3 * QUIET);
    send(&other, "a\n");
    let mut lines = [line(&client), line(&other)];
    assert!(begun.elapsed() >= 3 * QUIET);
    lines.sort();
    assert_eq!(lines, ["2\n", "3\n"]);
    while behind
        .proxy
        .occurrences()
        .iter()
        .any(|one| one.ended.is_none())
    {
        std::thread::yield_now();
    }
    let late = behind.client();
    send(&late, "a\n");
    assert_eq!(line(&late), "4\n");
}

#[test]
fn times_are_counted_from_the_start_of_the_proxy() {
    let timed = |first: Duration, action, lasts| Step {
        when: Trigger {
            counts: Counts::Time,
            first: u64::try_from(first.as_nanos()).unwrap(),
            again: Again::Never,
            times: None,
        },
        action: Action::Fault(action),
        scope: Scope::Path,
        lasts,
    };
    let start = Instant::now();
    let delay = 2 * QUIET;
    let behind = Behind::new(vec![
        timed(Duration::ZERO, Fault::Delay { delay }, None),
        timed(10 * QUIET, Fault::Reset, None),
    ]);
    let mut client = behind.client();
    while behind.proxy.occurrences().is_empty() {
        std::thread::yield_now();
    }
    let sent = Instant::now();
    send(&client, "a\n");
    assert_eq!(line(&client), "1\n");
    assert!(sent.elapsed() >= 2 * delay, "{:?}", sent.elapsed());
    let reset = client.read(&mut [0]).unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    assert!(start.elapsed() >= 10 * QUIET);
}

#[test]
fn scripts_that_count_messages_need_a_protocol() {
    let scripted = Scripted {
        script: Script {
            seed: 1,
            steps: vec![at("x", 1, Action::CutReply)],
        },
        messages: None,
        max_connections: 1,
    };
    let route = Route::from_loopback(Address::any_loopback());
    let refusal = Proxy::scripted(&[route], Shape::default(), scripted).unwrap_err();
    assert!(matches!(refusal, Error::Script { .. }), "{refusal}");
}
