//! The fault proxy between a client and its server.

use std::net::SocketAddr;
use std::time::Duration;

use loadline_client::{Client, RetryPolicy};
use loadline_link::address::Address;
use loadline_link::fault::Fault;
use loadline_link::l4::{Proxy, Route, Scripted};
use loadline_link::script::{Action, Again, Counts, Ends, Messages, Scope, Script, Step, Trigger};
use loadline_link::shape::Shape;
use loadline_resp::{Limits, ReplyKind, RequestParser, Skipper};

/// A proxy that cuts connections instead of forwarding some of the replies, so that their commands were executed.
pub(crate) struct Cutter(Proxy);

impl Cutter {
    /// Cuts the reply to every `nth` of the commands with this name.
    pub(crate) fn start(server: SocketAddr, name: &str, nth: u64) -> Self {
        let cut = Step {
            when: Trigger {
                counts: Counts::Messages(vec![name.to_owned()]),
                first: nth,
                again: Again::Every(nth),
                times: None,
            },
            action: Action::CutReply,
            scope: Scope::Connection,
            lasts: None,
        };
        let scripted = Scripted {
            script: Script {
                seed: 0,
                steps: vec![cut],
            },
            messages: Some(Box::new(|| Box::new(Resp::new()))),
            max_connections: 1_000,
        };
        let routes = [Route::from_loopback(server.into())];
        Self(Proxy::scripted(&routes, Shape::default(), scripted).unwrap())
    }

    /// Cuts connections only when it is asked to. Bytes need a millisecond in each direction, and a cut loses those.
    pub(crate) fn on_demand(server: SocketAddr) -> Self {
        let routes = [Route::from_loopback(server.into())];
        Self(Proxy::start(&routes, Shape::round_trip(Duration::from_millis(2))).unwrap())
    }

    /// Number of replies cut so far.
    pub(crate) fn cuts(&self) -> u64 {
        self.0.occurrences().len() as u64
    }

    /// Number of connections so far.
    pub(crate) fn connections(&self) -> u64 {
        self.0.stats().connections
    }

    /// Cuts all connections.
    pub(crate) fn cut_all(&self) {
        self.0.inject(Fault::Cut).unwrap();
    }

    pub(crate) fn url(&self) -> String {
        match &self.0.addresses()[0] {
            Address::Tcp(address) => format!("redis://{address}"),
            Address::Unix(_) => unreachable!("its route is from loopback"),
        }
    }

    pub(crate) fn client(&self, retry: RetryPolicy) -> Client {
        let builder = Client::builder().url(&self.url()).unwrap();
        builder.retry(retry).build()
    }
}

/// The commands of one connection and their replies.
struct Resp {
    commands: RequestParser,
    replies: Skipper,
}

impl Resp {
    fn new() -> Self {
        Self {
            commands: RequestParser::new(Limits::default()),
            replies: Skipper::new(Limits::default()),
        }
    }
}

impl Messages for Resp {
    fn message<'b>(&'b mut self, bytes: &'b [u8]) -> Result<(usize, Option<&'b [u8]>), String> {
        let (used, command) = self.commands.parse(bytes).map_err(|e| e.to_string())?;
        Ok((used, command.and_then(|command| command.get(0))))
    }

    fn reply(&mut self, bytes: &[u8]) -> Result<(usize, Ends), String> {
        let (used, reply) = self.replies.next(bytes).map_err(|e| e.to_string())?;
        let ends = match reply.map(|reply| reply.kind) {
            None => Ends::Nothing,
            Some(ReplyKind::Push) => Ends::Other,
            Some(_) => Ends::Reply,
        };
        Ok((used, ends))
    }
}
