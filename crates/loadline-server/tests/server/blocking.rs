//! Clients that wait for keys, compared with a real redis-server: who is served, in which order, and what stays.

use std::io::Write as _;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use loadline_server::ServerConfig;

use crate::support::{Ours, ReadWrite, Redis, ask};

/// Scenes of clients with the numbers 0 to 2. A step is the number of a client and the lines that it sends, with `~` between
/// them and `#n` for the id of a client. `!` behind the number says that the client waits afterwards, `?` reads what it
/// was sent since then, and `x` closes the connection. A client that was never sent anything else ends a scene.
const SCENES: &str = "\
0! BLPOP k 0|1 RPUSH k a b|0? |1 LRANGE k 0 -1|0! BRPOP l 0|1 RPUSH l a b|0? |1 LRANGE l 0 -1
0! BLPOP k 0|1! BRPOP k 0|2 RPUSH k a|0? |2 RPUSH k b c|1? |2 LRANGE k 0 -1
0! BLPOP k 0|1! BLPOP k 0|2 RPUSH k a b c|0? |1? |2 LRANGE k 0 -1
0! BLPOP a b a 0|2 RPUSH b x|0? |2 EXISTS b|2 RPUSH a y|0 BLPOP a b 0|0! BLPOP a b 0|2 MULTI~RPUSH b 1~RPUSH a 2~EXEC|0? |2 LRANGE a 0 -1|2 LRANGE b 0 -1
0! BLPOP a 0|1! BLPOP b 0|2 MULTI~RPUSH b 1~RPUSH a 2~EXEC|0? |1? |2 EXISTS a b
0! BLPOP k 0|2 MULTI~RPUSH k a~DEL k~EXEC|2 RPUSH k b|0? |0! BLPOP k 0|2 MULTI~RPUSH k a~DEL k~SADD k m~EXEC|2 DEL k|2 RPUSH k c d|0? |2 LLEN k
0! BLPOP k 0|2 SET k v|2 APPEND k v|2 DEL k|2 SADD k m|0x |2 DEL k|2 RPUSH k x|2 LLEN k
0 SET s v|0 BLPOP s 0|0 BLPOP k s 0|0 RPUSH k a|0 BLPOP s k 0|0 BLPOP k s 0|0 BLPOP|0 BLPOP k|0 BRPOP k x|0 BRPOP k -1|0 BLPOP k \"\"|0 BLPOP k nan|0 BLPOP k 1e30|0 BLPOP k -inf
0 BLPOP k 0.01|0 BRPOP k 0.001|0 BLPOP k 1e-9|0 BLPOP k 0x0.01|0 BLPOP a b c .02~PING~LLEN k|0 MULTI~BLPOP k 0~RPUSH k a b~BRPOP k 0~BLPOP k 0~BLPOP k 0~EXEC
0! BLPOP k 0|2 RPUSH l a|2 RENAME l k|0? |0! BLPOP k 0|2 RPUSH l a|2 COPY l k|0? |0! BLPOP k 0|2 SORT l STORE k ALPHA|0? |0! BLPOP m 0|2 SELECT 1~RPUSH m a~MOVE m 0~SELECT 0|0? |2 EXISTS l k m
0! BLPOP k 0|2 SELECT 1~RPUSH k a~SELECT 0|2 SWAPDB 0 1|0? |2 DBSIZE|1 SELECT 1|1! BLPOP k 0|0! BLPOP k 0|2 RPUSH k b|0? |2 SELECT 1~RPUSH k c~SELECT 0|1?
0! BLPOP k 0~LLEN k~SET done 1|2 RPUSH k a~LLEN k~EXISTS done|0? |2 EXISTS done|0! BLPOP k 0~BLPOP k 0~BLPOP l 0|2 RPUSH k a b c~LRANGE k 0 -1|2 CLIENT UNBLOCK #0|0?
0! BLPOP k 0|2 CLIENT UNBLOCK #0|0? |0! BLPOP k 0|2 CLIENT UNBLOCK #0 ERROR|0? |2 CLIENT UNBLOCK #0|2 CLIENT UNBLOCK #2|0! BLPOP k 0|2 CLIENT UNBLOCK #0 timeout~RPUSH k a|0? |2 LLEN k|2 CLIENT UNBLOCK x|2 CLIENT UNBLOCK #0 x
0! BLPOP k 0|1! BLPOP k 0|0x |2 RPUSH k a|1? |2 LLEN k|1! BLPOP k l 0|1x |2 RPUSH k a~RPUSH l b~LLEN k~LLEN l
0! BLPOP k 0|2 CLIENT KILL ID #0~RPUSH k a~LLEN k
1 WATCH k|0! BLPOP k 0|2 RPUSH k a|0? |1 MULTI~PING~EXEC|1 WATCH k|0! BLPOP k 0|2 RPUSH l a|1 MULTI~PING~EXEC|2 RPUSH k b|0?
0! CLIENT REPLY SKIP~BLPOP k 0|2 RPUSH k a|0? |0! SET k a~LPUSH k b~BLPOP l 0|2 RPUSH l a|0?
0 HELLO 3~SUBSCRIBE c|0! BLPOP k 0|2 PUBLISH c x|2 RPUSH k a|0? |0! BLPOP k 0|2 MULTI~PUBLISH c 1~RPUSH k a~PUBLISH c 2~EXEC|0? |2 EXISTS k
0! XREAD BLOCK 0 STREAMS k $|2 XADD k 1-1 a b|0? |0! XREAD BLOCK 0 STREAMS k 1-1|1! XREAD BLOCK 0 STREAMS k $|2 XADD k 2-2 a b|0? |1? |0! XREAD COUNT 1 BLOCK 0 STREAMS k l $ 0|2 MULTI~XADD l 1-1 a b~XADD k 3-3 c d~EXEC|0? |2 XADD k 3-3 a b
0 XREAD BLOCK 5 STREAMS k $|0 XREAD BLOCK x STREAMS k $|0 XREAD BLOCK -1 STREAMS k $|0 MULTI~XREAD BLOCK 0 STREAMS k $~EXEC|0! XREAD BLOCK 0 STREAMS k 0|2 SADD k x|2 DEL k|2 XADD k 1-1 a b|0? |0! XREAD BLOCK 0 STREAMS k $|2 MULTI~XADD k 2-1 a b~XDEL k 2-1~EXEC|0? |0! XREAD BLOCK 0 STREAMS k $|2 XTRIM k MAXLEN 0|2 XADD k NOMKSTREAM 5-* a b|0?
2 XGROUP CREATE k g $ MKSTREAM|0! XREADGROUP GROUP g a BLOCK 0 STREAMS k >|1! XREADGROUP GROUP g b BLOCK 0 STREAMS k >|2 XADD k 1-1 f v|0? |2 XADD k 2-1 f v|1? |2 XPENDING k g|0! XREADGROUP GROUP g a BLOCK 0 NOACK STREAMS k >|2 XADD k 3-1 f v|0? |2 XPENDING k g|0! XREADGROUP GROUP g a BLOCK 0 STREAMS k >|2 DEL k|0? |2 EXISTS k
2 XGROUP CREATE k g $ MKSTREAM|0! XREADGROUP GROUP g a BLOCK 0 STREAMS k >|1! XREAD BLOCK 0 STREAMS k $|2 SET k v|0? |1x |2 DEL k|2 XGROUP CREATE k g $ MKSTREAM|0! XREADGROUP GROUP g a BLOCK 0 STREAMS k >|2 XGROUP DESTROY k g|0? |2 XGROUP CREATE k g $|0! XREADGROUP GROUP g a BLOCK 0 STREAMS k >|2 FLUSHALL|0? |2 XGROUP CREATE k g $ MKSTREAM|0! XREADGROUP GROUP g a BLOCK 0 STREAMS k >|2 PEXPIRE k 1|0? |0! XREAD BLOCK 0 STREAMS k $|2 XADD l 1-1 a b|2 RENAME l k|0?
0! BLMOVE a b LEFT RIGHT 0|1! BRPOPLPUSH b c 0|2 RPUSH a x|0? |1? |2 LRANGE c 0 -1|0! BLMOVE k k LEFT RIGHT 0|2 RPUSH k x y|0? |2 LRANGE k 0 -1|2 SET s v|0! BLMOVE l s LEFT LEFT 0|2 RPUSH l x|0? |2 LRANGE l 0 -1|0 BLMOVE s k LEFT LEFT 0|0 BLMOVE m k LEFT LEFT .01|0 BLMOVE m k X LEFT 0|0 BRPOPLPUSH m k x|0 MULTI~BLMOVE m k LEFT LEFT 0~EXEC
0! BLMPOP 0 2 a b LEFT COUNT 3|1! BLPOP b 0|2 RPUSH b 1 2 3 4|0? |1? |2 EXISTS b|0 BLMPOP 0 0 a LEFT|0 BLMPOP 0 1 a UP|0 BLMPOP x 1 a LEFT|0 BLMPOP -1 1 a LEFT|0 BLMPOP 0.01 1 a LEFT COUNT 0|0 BLMPOP 0.01 1 a RIGHT|2 RPUSH a 1 2|0 BLMPOP 0 2 b a RIGHT COUNT 5
0! BZPOPMIN a b 0|1! BZPOPMAX b 0|2 ZADD b 1 x 2 y 3 z|0? |1? |2 ZRANGE b 0 -1|0! BZMPOP 0 2 a k MAX COUNT 2|1! BLPOP k 0|2 ZADD k 1 x 2.5 y 3 z|0? |2 ZRANGE k 0 -1|2 DEL k|2 RPUSH k i|1? |0 BZPOPMIN a .01|0 BZMPOP .01 1 a MIN|0 BZMPOP 0 1 a UP|2 SET s v|0 BZPOPMAX s 0|0 MULTI~BZPOPMIN a 0~BZMPOP 0 1 a MIN~EXEC
0 WAIT 0 0|0 WAIT -1 0|0 WAIT 1 5|0! WAIT 1 0|2 CLIENT UNBLOCK #0|0? |0! WAIT 1 0|2 CLIENT UNBLOCK #0 ERROR|0? |0 MULTI~WAIT 1 0~EXEC|0 WAIT x 0|0 WAIT 1 x|0 WAIT 1 -1|0 WAIT 1
0! BLPOP k 0|1! BLPOP k 0|2 CONFIG SET maxmemory 1~RPUSH k a~CONFIG SET maxmemory 0|2 RPUSH k a b|0? |1? |2 EXISTS k";

/// A client of one of the servers.
struct Client {
    stream: Box<dyn ReadWrite>,
    id: String,
    /// The lines that it sent and waits for.
    sent: Option<String>,
}

impl Client {
    fn new(stream: impl ReadWrite + 'static, hello: &str) -> Self {
        let mut stream: Box<dyn ReadWrite> = Box::new(stream);
        ask(&mut stream, hello);
        let id = ask(&mut stream, "CLIENT ID").trim()[1..].to_owned();
        Self {
            stream,
            id,
            sent: None,
        }
    }
}

/// The clients of a scene on one of the servers, and one that looks at them.
struct Stage {
    clients: Vec<Option<Client>>,
    watcher: Client,
    blocked: usize,
}

impl Stage {
    fn new(connect: impl Fn() -> Client) -> Self {
        let mut watcher = connect();
        ask(&mut watcher.stream, "FLUSHALL");
        Self {
            clients: (0..3).map(|_| Some(connect())).collect(),
            watcher,
            blocked: 0,
        }
    }

    /// Waits until the server says that this many clients are blocked.
    fn wait(&mut self, step: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        let wanted = format!("blocked_clients:{}", self.blocked);
        loop {
            let info = ask(&mut self.watcher.stream, "INFO clients");
            if info.lines().any(|line| line == wanted) {
                return;
            }
            assert!(Instant::now() < until, "{step}: {info} without {wanted}");
            std::thread::yield_now();
        }
    }

    fn perform(&mut self, step: &str) -> String {
        let (who, lines) = step.split_once(' ').unwrap_or((step, ""));
        let number: usize = who[..1].parse().unwrap();
        let mut lines = lines.replace('~', "\r\n");
        for other in 0..3 {
            if let Some(client) = &self.clients[other] {
                lines = lines.replace(&format!("#{other}"), &client.id);
            }
        }
        let client = self.clients[number].as_mut().unwrap();
        match &who[1..] {
            "!" => {
                client
                    .stream
                    .write_all(format!("{lines}\r\n").as_bytes())
                    .unwrap();
                client.sent = Some(lines);
                self.blocked += 1;
                self.wait(step);
                String::new()
            }
            "?" => {
                client.sent.take().unwrap();
                self.blocked -= 1;
                ask(&mut client.stream, "PING")
            }
            "x" => {
                self.clients[number] = None;
                self.blocked -= 1;
                self.wait(step);
                String::new()
            }
            _ => ask(&mut client.stream, &lines),
        }
    }
}

#[test]
fn waiting_clients_are_served_as_by_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    for scene in SCENES.lines() {
        for hello in ["HELLO 2", "HELLO 3"] {
            let mut one = Stage::new(|| Client::new(ours.connect(), hello));
            let mut other = Stage::new(|| Client::new(redis.connect(), hello));
            for step in scene.split('|') {
                let (one, other) = (one.perform(step), other.perform(step));
                let (one, other) = (without_id(&one), without_id(&other));
                assert_eq!(one, other, "{step} of {scene} after {hello} (ours left)");
            }
        }
    }
}

/// A reply without the id in the reply to HELLO.
fn without_id(reply: &str) -> String {
    match reply.split_once("id\r\n:") {
        Some((begin, rest)) => {
            let end = rest.split_once("\r\n").map_or(rest, |(_, end)| end);
            format!("{begin}id\r\n{end}")
        }
        None => reply.to_owned(),
    }
}

/// Clients that wait for one key leave by closing, by timeouts and by CLIENT UNBLOCK; every item has one receiver.
#[test]
fn no_item_is_lost_or_given_twice_while_waiting_clients_go() {
    let ours = Ours::start(ServerConfig::default());
    let mut pusher = ours.connect();
    let (mut received, mut pushed) = (Vec::new(), 0_u64);
    let numbers = |reply: &str| -> Vec<u64> {
        let numbers = reply.lines().filter_map(|line| line.parse().ok());
        numbers.collect()
    };
    for round in 0..20 {
        let mut clients: Vec<_> = (0..12)
            .map(|_| {
                let mut client = ours.connect();
                let id = ask(&mut client, "CLIENT ID").trim()[1..].to_owned();
                (client, id)
            })
            .collect();
        for (number, (client, _)) in clients.iter_mut().enumerate() {
            let line = format!("BLPOP q{} q 0\r\n", number % 3);
            client.write_all(line.as_bytes()).unwrap();
        }
        let until = Instant::now() + Duration::from_secs(60);
        while !ask(&mut pusher, "INFO clients").contains("blocked_clients:12\r") {
            assert!(Instant::now() < until);
        }
        clients.rotate_left(round % 12);
        for (client, _) in clients.drain(..4) {
            client.shutdown(Shutdown::Both).unwrap();
        }
        let mut hasty: Vec<_> = (0..4).map(|_| ours.connect()).collect();
        for client in &mut hasty {
            client.write_all(b"BLPOP q 0.001\r\n").unwrap();
        }
        let items: Vec<String> = (0..9)
            .map(|item| format!("RPUSH q {}", pushed + item))
            .collect();
        pushed += 9;
        ask(&mut pusher, &items.join("\r\n"));
        for (client, id) in &mut clients {
            ask(&mut pusher, &format!("CLIENT UNBLOCK {id}"));
            received.extend(numbers(&ask(client, "PING")));
        }
        for client in &mut hasty {
            received.extend(numbers(&ask(client, "PING")));
        }
        received.extend(numbers(&ask(&mut pusher, "LRANGE q 0 -1\r\nDEL q")));
    }
    received.sort_unstable();
    assert_eq!(received, (0..pushed).collect::<Vec<_>>());
    assert!(ask(&mut pusher, "INFO clients").contains("blocked_clients:0\r"));
}
