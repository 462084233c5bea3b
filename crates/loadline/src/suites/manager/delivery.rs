//! Jobs on connections that stay open: batches of commands, messages and stream entries.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use loadline_client::blocking::{self, Socket};
use loadline_client::commands::{ping, publish, set, xadd_capped};
use loadline_client::pubsub::Event;
use loadline_client::{Client, Error};
use loadline_resp::{Decoder, Frame, Limits, OwnedReply, encode};

use super::unreachable;
use crate::exit::Failure;
use crate::systems::connect::PATIENCE;
use crate::workload::{Calls, Job, OpenJob, OpenSocket, Site};

/// Time to live of the keys that a pipeline sets.
const TIME_TO_LIVE: Duration = Duration::from_secs(60);
/// The approximate number of entries that the stream keeps.
const STREAM_ENTRIES: u64 = 1_000;

/// SET in one batch of `pipeline_set`.
const PIPELINE_BATCH: u32 = 100;

/// SET in batches: each is written at once, then its replies are read.
#[derive(Debug)]
pub(super) struct PipelineSet;

impl Job for PipelineSet {
    fn description(&self) -> &'static str {
        "in batches of 100, each written at once and then read"
    }

    fn batch(&self) -> u32 {
        PIPELINE_BATCH
    }

    fn open<'s>(&self, site: Site<'s>) -> Result<OpenJob<'s>, Failure> {
        let connection = site.client.blocking();
        Ok(OpenJob::Calls(Box::new(Pipeline {
            connection: connection.map_err(|error| unreachable("pipeline_set", &error))?,
        })))
    }
}

struct Pipeline {
    connection: blocking::Connection,
}

impl Calls for Pipeline {
    fn perform(&mut self, pairs: &[(String, Vec<u8>)]) -> Result<(), String> {
        let batch: Vec<_> = pairs
            .iter()
            .map(|(key, value)| set(key, value).expire(TIME_TO_LIVE))
            .collect();
        let replies = self.connection.run(batch);
        let done: Result<(), _> = replies.into_iter().collect();
        done.map_err(|error| format!("SET {error}"))
    }
}

/// A message from one connection until another has received it.
#[derive(Debug)]
pub(super) struct Message;

impl Job for Message {
    fn description(&self) -> &'static str {
        "from PUBLISH until another connection has the message"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["SUBSCRIBE"]
    }

    fn connections(&self) -> u32 {
        2
    }

    fn open<'s>(&self, site: Site<'s>) -> Result<OpenJob<'s>, Failure> {
        let failed = |error: Error| unreachable("pubsub", &error);
        let mut pubsub = PubSub {
            publisher: site.client.blocking().map_err(failed)?,
            client: site.client,
            subscriber: None,
            channel: format!("{}channel", site.prefix),
        };
        pubsub.subscribe().map_err(failed)?;
        Ok(OpenJob::Calls(Box::new(pubsub)))
    }
}

struct PubSub {
    client: Client,
    publisher: blocking::Connection,
    subscriber: Option<blocking::PubSub>,
    channel: String,
}

impl PubSub {
    fn subscribe(&mut self) -> Result<(), Error> {
        let mut subscriber = self.client.blocking_pubsub()?;
        subscriber.subscribe(&self.channel)?;
        self.subscriber = Some(subscriber);
        Ok(())
    }

    fn deliver(&mut self, message: &[u8]) -> Result<(), String> {
        let subscriber = self.subscriber.as_mut().ok_or("SUBSCRIBE failed")?;
        let sent = self.publisher.run(publish(&self.channel, message));
        if sent.map_err(|error| format!("PUBLISH {error}"))? == 0 {
            return Err("UNHEARD".into());
        }
        match subscriber.next(PATIENCE) {
            Some(Event::Message(received)) if received.payload == message => Ok(()),
            Some(_) => Err("MISMATCH".into()),
            None => Err("LOST".into()),
        }
    }
}

impl Calls for PubSub {
    fn arm(&mut self) {
        if self.subscriber.is_none() {
            // If it fails, the delivery reports it.
            let _ = self.subscribe();
        }
    }

    fn perform(&mut self, pairs: &[(String, Vec<u8>)]) -> Result<(), String> {
        let delivered = self.deliver(&pairs[0].1);
        if delivered.is_err() {
            self.subscriber = None;
        }
        delivered
    }
}

/// A connection whose request is sent long before its reply is read.
struct Reader {
    socket: Socket,
    received: Vec<u8>,
}

impl Reader {
    fn open(socket: &OpenSocket) -> Result<Self, Error> {
        Ok(Self {
            socket: socket()?,
            received: Vec::new(),
        })
    }

    fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut request = Vec::new();
        encode::command(&mut request, words);
        self.socket.write_all(&request)?;
        self.socket.flush()
    }

    /// Waits for the reply, at most for the time that any reply may take.
    fn receive(&mut self) -> io::Result<OwnedReply> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let deadline = Instant::now() + PATIENCE;
        let mut decoder = Decoder::new(Limits::default());
        loop {
            let decoded = decoder.decode(&self.received).map_err(invalid)?;
            if let Some((reply, used)) = decoded {
                let reply = reply.to_owned();
                self.received.drain(..used);
                return Ok(reply);
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => self.received.extend_from_slice(&buffer[..bytes]),
            }
        }
    }
}

/// An entry from one connection until another, which was waiting for it, has received it.
#[derive(Debug)]
pub(super) struct Entry;

impl Job for Entry {
    fn description(&self) -> &'static str {
        "from XADD until another connection's XREAD, which waited, has the entry"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["XREAD", "PING"]
    }

    fn connections(&self) -> u32 {
        2
    }

    fn open<'s>(&self, site: Site<'s>) -> Result<OpenJob<'s>, Failure> {
        let failed = |error: Error| unreachable("stream", &error);
        Ok(OpenJob::Calls(Box::new(Stream {
            writer: site.client.blocking().map_err(failed)?,
            reader: Some(Reader::open(&site.socket).map_err(failed)?),
            socket: site.socket,
            key: format!("{}events", site.prefix),
            last_id: "$".into(),
            waits: false,
        })))
    }
}

struct Stream {
    writer: blocking::Connection,
    socket: OpenSocket,
    reader: Option<Reader>,
    key: String,
    /// The last event that was received.
    last_id: String,
    /// Whether the reader has asked for the next event.
    waits: bool,
}

impl Stream {
    /// Lets the reader wait. The server executes what a connection sent in one turn of its loop and
    /// answers at the end of the turn, so the reply to PING says that XREAD has been seen: at least
    /// where both arrive in the order in which they were sent, as on one machine.
    fn wait(&mut self) -> Result<(), String> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(Reader::open(&self.socket).map_err(|error| error.to_string())?),
        };
        let (key, last_id) = (self.key.as_str(), self.last_id.as_str());
        reader
            .send(&["XREAD", "COUNT", "1", "BLOCK", "0", "STREAMS", key, last_id])
            .map_err(|error| error.to_string())?;
        self.writer.run(ping()).map_err(|error| error.to_string())?;
        self.waits = true;
        Ok(())
    }

    fn deliver(&mut self, event: &[u8]) -> Result<(), String> {
        let reader = self
            .reader
            .as_mut()
            .filter(|_| self.waits)
            .ok_or("XREAD failed")?;
        let added = self
            .writer
            .run(xadd_capped(&self.key, STREAM_ENTRIES, ("event", event)));
        let id = added.map_err(|error| format!("XADD {error}"))?;
        let received = reader
            .receive()
            .map_err(|error| format!("RECEIVE {error}"))?;
        self.waits = false;
        if entry(&received) != Some((id.as_bytes(), event)) {
            return Err("MISMATCH".into());
        }
        self.last_id = id;
        Ok(())
    }
}

impl Calls for Stream {
    fn arm(&mut self) {
        if !self.waits && self.wait().is_err() {
            // The delivery reports it; an entry that the reader missed must not be taken for the next one.
            (self.reader, self.last_id) = (None, "$".into());
        }
    }

    fn perform(&mut self, pairs: &[(String, Vec<u8>)]) -> Result<(), String> {
        let delivered = self.deliver(&pairs[0].1);
        if delivered.is_err() {
            (self.reader, self.waits, self.last_id) = (None, false, "$".into());
        }
        delivered
    }
}

/// The id and the only value of the only entry of the only stream in a reply to XREAD, which RESP2
/// sends as pairs and RESP3 as a map.
fn entry(reply: &OwnedReply) -> Option<(&[u8], &[u8])> {
    let entries = match reply {
        Frame::Map(streams) => &streams.first()?.1,
        streams => parts(parts(streams).first()?).get(1)?,
    };
    let [id, fields] = parts(parts(entries).first()?) else {
        return None;
    };
    let [_, value] = parts(fields) else {
        return None;
    };
    id.as_bytes().zip(value.as_bytes())
}

fn parts(reply: &OwnedReply) -> &[OwnedReply] {
    match reply {
        Frame::Array(parts) => parts,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> OwnedReply {
        Frame::Bulk(text.as_bytes().to_vec())
    }

    #[test]
    fn entry_is_read_in_both_versions_of_the_protocol() {
        let fields = Frame::Array(vec![bulk("event"), bulk("moved")]);
        let entries = Frame::Array(vec![Frame::Array(vec![bulk("5-0"), fields])]);
        let two = Frame::Array(vec![Frame::Array(vec![bulk("events"), entries.clone()])]);
        let three = Frame::Map(vec![(bulk("events"), entries)]);
        for reply in [two, three] {
            assert_eq!(entry(&reply), Some((&b"5-0"[..], &b"moved"[..])));
        }
        for other in [
            Frame::Null,
            Frame::Array(Vec::new()),
            Frame::Map(Vec::new()),
        ] {
            assert_eq!(entry(&other), None);
        }
    }
}
