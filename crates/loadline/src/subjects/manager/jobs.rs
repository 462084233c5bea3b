//! What is done on connections that stay: batches of commands, messages, and events.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use loadline_client::blocking::{self, Socket};
use loadline_client::commands::{ping, publish, set_ex, xadd_capped};
use loadline_client::pubsub::Event;
use loadline_client::{Client, Error};
use loadline_resp::{Decoder, Frame, Limits, OwnedReply, encode};

use super::{Call, Job, unreachable};
use crate::exit::Failure;
use crate::targets::connect::{Endpoint, PATIENCE};

/// What a pipeline sets lives for so long.
const TIME_TO_LIVE: Duration = Duration::from_secs(60);
/// Entries that the stream holds, roughly.
const STREAM_ENTRIES: u64 = 1_000;

/// SET in batches: each is written at once, and its replies are read.
pub(super) struct Pipeline {
    connection: blocking::Connection,
}

impl Pipeline {
    pub(super) fn open(client: &Client) -> Result<Self, Failure> {
        let connection = client.blocking();
        Ok(Self {
            connection: connection.map_err(|error| unreachable("pipeline_set", &error))?,
        })
    }
}

impl Job for Pipeline {
    fn perform(&mut self, call: &Call) -> Result<(), String> {
        let batch: Vec<_> = call
            .pairs
            .iter()
            .map(|(key, value)| set_ex(key, value, TIME_TO_LIVE))
            .collect();
        let replies = self.connection.run(batch);
        let done: Result<(), _> = replies.into_iter().collect();
        done.map_err(|error| format!("SET {error}"))
    }
}

/// A message from one connection to another.
pub(super) struct PubSub {
    client: Client,
    publisher: blocking::Connection,
    subscriber: Option<blocking::PubSub>,
    channel: String,
}

impl PubSub {
    pub(super) fn open(client: Client, prefix: &str) -> Result<Self, Failure> {
        let failed = |error: Error| unreachable("pubsub", &error);
        let mut pubsub = Self {
            publisher: client.blocking().map_err(failed)?,
            client,
            subscriber: None,
            channel: format!("{prefix}channel"),
        };
        pubsub.subscribe().map_err(failed)?;
        Ok(pubsub)
    }

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

impl Job for PubSub {
    fn arm(&mut self) {
        if self.subscriber.is_none() {
            // Where it fails, the delivery says so.
            let _ = self.subscribe();
        }
    }

    fn perform(&mut self, call: &Call) -> Result<(), String> {
        let delivered = self.deliver(&call.pairs[0].1);
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
    fn open(endpoint: &Endpoint) -> Result<Self, Error> {
        Ok(Self {
            socket: endpoint.socket()?,
            received: Vec::new(),
        })
    }

    fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut request = Vec::new();
        encode::command(&mut request, words);
        self.socket.write_all(&request)?;
        self.socket.flush()
    }

    /// Waits for the reply, for as long as any reply may take.
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

/// An event from one connection to another that waits for it.
pub(super) struct Stream {
    writer: blocking::Connection,
    endpoint: Endpoint,
    reader: Option<Reader>,
    key: String,
    /// The last event that was received.
    last_id: String,
    /// Whether the reader has asked for the next event.
    waits: bool,
}

impl Stream {
    pub(super) fn open(
        client: &Client,
        endpoint: &Endpoint,
        prefix: &str,
    ) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| unreachable("stream", &error);
        Ok(Self {
            writer: client.blocking().map_err(|error| failed(&error))?,
            reader: Some(Reader::open(endpoint).map_err(|error| failed(&error))?),
            endpoint: endpoint.clone(),
            key: format!("{prefix}events"),
            last_id: "$".into(),
            waits: false,
        })
    }

    /// Lets the reader wait. The server executes what a connection sent in one turn of its loop and
    /// answers at the end of the turn, so the reply to PING says that XREAD has been seen: at least
    /// where both arrive in the order in which they were sent, as on one machine.
    fn wait(&mut self) -> Result<(), String> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(Reader::open(&self.endpoint).map_err(|error| error.to_string())?),
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

impl Job for Stream {
    fn arm(&mut self) {
        if !self.waits && self.wait().is_err() {
            // The delivery says so; what the reader has missed must not be taken for the next event.
            (self.reader, self.last_id) = (None, "$".into());
        }
    }

    fn perform(&mut self, call: &Call) -> Result<(), String> {
        let delivered = self.deliver(&call.pairs[0].1);
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
    fn an_entry_is_read_in_both_versions_of_the_protocol() {
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
