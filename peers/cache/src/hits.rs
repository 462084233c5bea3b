//! Hits in Redis: a floor in each codec through our cache, beside Protocol Buffers through redis-rs and beside the bare
//! transfer. The floors, their codecs and their sizes are those of `loadline tiers`, and every arm ends with a floor that the
//! application can read.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::rc::Rc;

use anyhow::{Context, ensure};
use loadline_cache::codec::{Codec, CodecError};
use loadline_cache::{Cache, Tier};
use prost::Message;
use redis::Commands;

use super::object::encoding::FloorMessage;
use super::object::{Compression, Encoding, Floor, Format, Object, SIDE};
use super::tiers::{Server, patient, turns};

/// Calls of one turn.
const CALLS: u32 = 100;
const SEED: u64 = 7;
/// The basis of comparison: packed fields through redis-rs.
const LEAN: Format = Format::plain(Encoding::Protobuf);

const PACKED: Format = Format {
    encoding: Encoding::Columns,
    compression: Some(Compression::Lz4),
};

/// A floor as bytes, in a cache.
struct OfFloors(Format);

impl Codec<Object> for OfFloors {
    fn id(&self) -> u8 {
        200
    }

    fn encode(&self, value: &Object, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        Ok(self.0.encode(value, bytes)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Object, CodecError> {
        Ok(self.0.decode(bytes)?)
    }
}

fn floor() -> Object {
    Object::Floor(Floor::generate(SIDE, SIDE, SEED))
}

fn encoded(format: Format) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let written = format.encode(&floor(), &mut bytes);
    written.map_err(|why| anyhow::anyhow!("{format}: {why}"))?;
    Ok(bytes)
}

/// One row: its name, the bytes that are transferred, and a hit.
struct Arm {
    name: String,
    bytes: usize,
    hit: Box<dyn FnMut()>,
    misses: Box<dyn Fn() -> u64>,
}

/// A cache whose memory has no room, so that every call goes to Redis.
fn through_cache(name: &str, url: &str, format: Format) -> anyhow::Result<Arm> {
    let prefix = format!("{format}:");
    let value = floor();
    let cache = Cache::<u32, Object>::builder_weighed(0, |_, _| 1);
    let cache = cache
        .tier(patient(Tier::open(url).prefix(&*prefix)), OfFloors(format))
        .build(move |_| Ok::<_, io::Error>(Some(value.clone())))?;
    cache.get(&1)?;
    let cache = Rc::new(cache);
    let counted = Rc::clone(&cache);
    Ok(Arm {
        name: format!("cache, {format}{name}"),
        bytes: FRAME_BYTES + encoded(format)?.len(),
        hit: Box::new(move || drop(black_box(cache.get(&1).expect("loads do not fail")))),
        misses: Box::new(move || counted.stats().tier.map_or(0, |tier| tier.misses)),
    })
}

/// Bytes that the cache writes before those of the codec.
const FRAME_BYTES: usize = 44;

fn through_peer(
    name: &str,
    url: &str,
    format: Format,
    decode: impl Fn(&[u8]) + 'static,
) -> anyhow::Result<Arm> {
    let mut client = redis::Client::open(url)?.get_connection()?;
    let (key, bytes) = (format!("peer:{format}"), encoded(format)?);
    let _: () = client.set(&key, &bytes)?;
    Ok(Arm {
        name: format!("redis-rs, {format}{name}"),
        bytes: bytes.len(),
        hit: Box::new(move || {
            let bytes: Vec<u8> = client.get(&key).expect("the server answers");
            decode(&bytes);
        }),
        misses: Box::new(|| 0),
    })
}

/// The same without a client and without a cache, and without decoding if `is_decoded` is false.
fn bare(server: &Server, format: Format, is_decoded: bool) -> anyhow::Result<Arm> {
    let key = format!("{format}:1");
    let mut client = redis::Client::open(server.url())?.get_connection()?;
    let frame: Vec<u8> = client.get(&key)?;
    let body = encoded(format)?.len();
    ensure!(frame.len() == FRAME_BYTES + body, "the frame has changed");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port))?;
    stream.set_nodelay(true)?;
    let request = format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
    let mut reply = vec![0; format!("${}\r\n", frame.len()).len() + frame.len() + 2];
    Ok(Arm {
        name: match is_decoded {
            true => format!("transfer and decode, {format}"),
            false => format!("transfer alone, {format}"),
        },
        bytes: frame.len(),
        hit: Box::new(move || {
            let sent = stream.write_all(request.as_bytes());
            sent.and_then(|()| stream.read_exact(&mut reply))
                .expect("the server answers");
            let end = reply.len() - 2;
            if is_decoded {
                decode_as(format, &reply[end - body..end]);
            }
        }),
        misses: Box::new(|| 0),
    })
}

fn decode_as(format: Format, bytes: &[u8]) {
    drop(black_box(format.decode(bytes).expect("it was encoded")));
}

pub(crate) fn run() -> anyhow::Result<()> {
    let server = Server::start()?;
    let (tcp, unix) = (server.url(), server.unix_url());
    let spin = format!("{tcp}?spin=100us");
    let plain = Format::plain;
    let unix_of_peer = format!("redis+{unix}");
    let peer = |name: &str, url: &str, encoding: Encoding| {
        through_peer(name, url, plain(encoding), move |bytes| {
            decode_as(plain(encoding), bytes);
        })
    };
    let mut arms = vec![
        peer("", &tcp, Encoding::Protobuf)?,
        through_peer(", only the message", &tcp, LEAN, |bytes| {
            drop(black_box(
                FloorMessage::decode(bytes).expect("it was encoded"),
            ));
        })?,
        peer(", unix socket", &unix_of_peer, Encoding::Protobuf)?,
        peer("", &tcp, Encoding::ProtobufTiles)?,
        peer("", &tcp, Encoding::Columns)?,
    ];
    for encoding in Encoding::OF_FLOORS {
        arms.push(through_cache("", &tcp, plain(encoding))?);
    }
    arms.push(through_cache("", &tcp, PACKED)?);
    let fastest = [Encoding::Columns, Encoding::Rkyv, Encoding::Bitcode];
    for (name, url) in [(", unix socket", &unix), (", spin=100us", &spin)] {
        for encoding in fastest {
            arms.push(through_cache(name, url, plain(encoding))?);
        }
    }
    let bared = arms.len();
    for encoding in fastest {
        arms.push(bare(&server, plain(encoding), true)?);
    }
    let alone = arms.len();
    arms.push(bare(&server, plain(Encoding::Bitcode), false)?);
    let mut calls: Vec<&mut dyn FnMut()> = Vec::new();
    for arm in &mut arms {
        calls.push(&mut *arm.hit);
    }
    let times = turns(CALLS, &mut calls);
    // Only the first cache over each key found nothing, when it was opened.
    let missed = arms.iter().find(|arm| (arm.misses)() > 1);
    ensure!(
        missed.is_none(),
        "a call has missed: {:?}",
        missed.map(|arm| &arm.name)
    );
    println!(
        "{:<44} {:>8} {:>8} {:>20}",
        "hit in Redis of a floor of 100x100 tiles", "bytes", "us", "first row (goal 5)"
    );
    for (arm, time) in arms.iter().zip(&times) {
        let ratio = times[0] / time;
        println!(
            "{:<44} {:>8} {time:>8.1} {ratio:>19.2}x",
            arm.name, arm.bytes
        );
    }
    println!(
        "the transfer of the fewest bytes takes {:.1} us, so that no codec can be more than {:.1} times as fast as the first row",
        times[alone],
        times[0] / times[alone]
    );
    for (arm, time) in arms[bared..alone].iter().zip(&times[bared..alone]) {
        let format = arm.name.rsplit(' ').next().unwrap_or_default();
        let own = format!("cache, {format}");
        let own = arms.iter().position(|arm| arm.name == own);
        let own = times[own.context("each is measured through the cache")?];
        println!(
            "a hit with {format} takes {:.2} times as long as its transfer and decode (goal 1.25)",
            own / time
        );
    }
    Ok(())
}
