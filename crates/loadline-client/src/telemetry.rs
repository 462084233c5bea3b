//! Spans and durations of requests, by the semantic conventions of OpenTelemetry for Redis.
//!
//! A span is made when its request has ended, with the times of its start and end: nothing is made within it, and a
//! request carries no more than its start.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use loadline_resp::Frame;
use opentelemetry::global::{self, BoxedTracer, ObjectSafeTracerProvider};
use opentelemetry::metrics::{Histogram, MeterProvider};
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status};
use opentelemetry::{InstrumentationScope, KeyValue};

use crate::args::Words;
use crate::flags::Keys;
use crate::request::Requests;
use crate::{Address, Error, ServerError};

/// The bounds in seconds that the conventions ask for.
const BOUNDS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];
/// The most bytes of the text of a request.
const TEXT_BYTES: usize = 1024;
/// The most bytes of a name.
const NAME_BYTES: usize = 64;
/// The name of commands that are not known.
const OTHER: &str = "other";

/// Writes a request again. It is a trait object, so that the code here is not compiled for each type of request.
pub(crate) type Encode<'r> = &'r dyn Fn(&mut Requests<'_>);

/// Reports every request as a span and a duration, by the [semantic conventions for
/// Redis](https://opentelemetry.io/docs/specs/semconv/db/redis/). Only the API of OpenTelemetry is used: the SDK and the
/// exporter are those of the application. A clone reports to the same providers.
///
/// The span of a request is of kind `CLIENT`, is named as in `GET localhost:6379`, and is a child of the span of the
/// context in which the request ends: the current one of the thread, or of the task that awaits it. The histogram is
/// `db.client.operation.duration`, in seconds. Both have these attributes, unless stated otherwise:
///
/// | attribute | value |
/// | --- | --- |
/// | `db.system.name` | `redis` |
/// | `db.operation.name` | the command, `PIPELINE` or `MULTI` |
/// | `db.namespace` | the number of the database with which connections are opened |
/// | `server.address`, `server.port` | those of the server or node, the path of the socket, or the name that sentinels know |
/// | `db.response.status_code` | the code of the first error reply, such as `WRONGTYPE` |
/// | `error.type` | the same, or `connection`, `timeout`, `queue_full`, `protocol`, `login`, `closed` or `_OTHER` |
/// | `db.operation.batch.size` | the number of commands, if there are several; spans only |
/// | `db.query.text` | see [`Telemetry::with_query_text`]; spans only |
///
/// On a cluster, each part of a request that goes to one node is a request. A request that is sent again after a
/// connection broke is still one. Subscribers, handshakes and keepalives are not reported.
///
/// ```
/// # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
/// use loadline_client::{Client, Telemetry};
///
/// // After the application has set its providers.
/// let client = Client::builder().url(url)?.telemetry(Telemetry::global()).build();
/// # drop(client.blocking()?);
/// # Ok::<(), loadline_client::Error>(())
/// ```
pub struct Telemetry {
    instruments: Arc<Instruments>,
    query_text: bool,
    /// The server of the configuration that this belongs to.
    server: OnceLock<Server>,
}

struct Instruments {
    tracer: BoxedTracer,
    duration: Histogram<f64>,
}

/// The attributes of all requests to one server.
struct Server {
    attributes: Vec<KeyValue>,
    /// The end of the names of spans.
    target: String,
}

impl Telemetry {
    /// Reports to the global providers as they are now.
    #[must_use]
    pub fn global() -> Self {
        Self::new(&global::tracer_provider(), &*global::meter_provider())
    }

    /// Reports to these providers. The first is any `TracerProvider` whose spans can be sent to another thread.
    #[must_use]
    pub fn new(tracers: &impl ObjectSafeTracerProvider, meters: &dyn MeterProvider) -> Self {
        let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        let duration = meters
            .meter_with_scope(scope.clone())
            .f64_histogram("db.client.operation.duration")
            .with_unit("s")
            .with_description("Duration of database client operations.")
            .with_boundaries(BOUNDS.to_vec())
            .build();
        Self {
            instruments: Arc::new(Instruments {
                tracer: BoxedTracer::new(tracers.boxed_tracer(scope)),
                duration,
            }),
            query_text: false,
            server: OnceLock::new(),
        }
    }

    /// The same with `db.query.text` in sampled spans: the commands with their keys, and `?` for every other argument, as in
    /// `SET user:1 ?`. At most 1,024 bytes; not on a cluster.
    #[must_use]
    pub fn with_query_text(self) -> Self {
        Self {
            query_text: true,
            ..self
        }
    }

    /// Reports a request to this server and database that has just ended.
    pub(crate) fn report(
        &self,
        (address, database): (&Address, u32),
        call: Call,
        failure: Option<&Failure>,
        request: Encode<'_>,
    ) {
        let operation = call.operation(request);
        let server = self.server.get_or_init(|| Server::new(address, database));
        let mut attributes = Vec::with_capacity(server.attributes.len() + 5);
        attributes.extend_from_slice(&server.attributes);
        attributes.push(KeyValue::new("db.operation.name", operation.clone()));
        if let Some(Failure { kind, is_reply }) = failure {
            attributes.push(KeyValue::new("error.type", kind.clone()));
            if *is_reply {
                attributes.push(KeyValue::new("db.response.status_code", kind.clone()));
            }
        }
        let Instruments { tracer, duration } = &*self.instruments;
        duration.record(call.took.as_secs_f64(), &attributes);
        if let Some(commands) = call.batch() {
            attributes.push(KeyValue::new("db.operation.batch.size", commands));
        }
        let name = [&operation, " ", &server.target].concat();
        let end = SystemTime::now();
        let mut span = SpanBuilder::from_name(name)
            .with_kind(SpanKind::Client)
            .with_start_time(end.checked_sub(call.took).unwrap_or(end))
            .with_attributes(attributes)
            .start(tracer);
        if span.is_recording() {
            if let Some(Failure { kind, .. }) = failure {
                // The text of an error reply can quote arguments.
                span.set_status(Status::error(kind.clone()));
            }
            if let Some(text) = self.query_text.then(|| query_text(request)).flatten() {
                span.set_attribute(KeyValue::new("db.query.text", text));
            }
        }
        span.end_with_timestamp(end);
    }
}

/// The clone can get into the configuration of another server.
impl Clone for Telemetry {
    fn clone(&self) -> Self {
        Self {
            instruments: Arc::clone(&self.instruments),
            query_text: self.query_text,
            server: OnceLock::new(),
        }
    }
}

impl Server {
    fn new(address: &Address, database: u32) -> Self {
        let (host, port) = match address {
            Address::Tcp { host, port } | Address::Tls { host, port } => (host.into(), Some(*port)),
            Address::Unix(path) => (path.to_string_lossy(), None),
            Address::Sentinel(sentinel) => (sentinel.name().into(), None),
        };
        let target = match port {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        // Shared strings, which are copied for each request.
        let shared = |name, value: &str| KeyValue::new(name, Arc::<str>::from(value));
        let mut attributes = vec![
            KeyValue::new("db.system.name", "redis"),
            shared("db.namespace", &database.to_string()),
            shared("server.address", &host),
        ];
        attributes.extend(port.map(|port| KeyValue::new("server.port", i64::from(port))));
        Self { attributes, target }
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry")
            .field("query_text", &self.query_text)
            .finish_non_exhaustive()
    }
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The name of its first command.
    pub(crate) name: &'static str,
    pub(crate) commands: u32,
    pub(crate) took: Duration,
}

impl Call {
    /// The name of the operation, with the name of a single command that the client does not know taken from the request.
    fn operation(&self, request: Encode<'_>) -> Cow<'static, str> {
        match (self.name, self.commands) {
            (OTHER, 1) => first_word(request).into(),
            ("MULTI", _) | (_, 1) => self.name.into(),
            _ => "PIPELINE".into(),
        }
    }

    /// The number of commands, if there are several; without those around a transaction.
    fn batch(&self) -> Option<i64> {
        let around = if self.name == "MULTI" { 2 } else { 0 };
        let commands = self.commands.saturating_sub(around);
        (commands > 1).then(|| i64::from(commands))
    }
}

/// The first error of a request.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: Cow<'static, str>,
    /// Whether it is a reply, so that its kind is a code of the server.
    is_reply: bool,
}

impl Failure {
    /// The failure that an outcome is, if it is one.
    pub(crate) fn of<B: AsRef<[u8]>>(outcome: Result<&Frame<B>, &Error>) -> Option<Self> {
        let reply = |error: &ServerError| {
            let mut code = error.code().to_owned();
            code.truncate(code.floor_char_boundary(NAME_BYTES));
            Self {
                kind: code.into(),
                is_reply: true,
            }
        };
        match outcome {
            Ok(frame) => frame
                .error_text()
                .map(|text| reply(&ServerError::new(text))),
            Err(Error::Server(error)) => Some(reply(error)),
            Err(error) => Some(Self {
                kind: kind(error).into(),
                is_reply: false,
            }),
        }
    }
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::Connection { .. } => "connection",
        Error::Timeout { .. } => "timeout",
        Error::QueueFull { .. } => "queue_full",
        Error::Protocol { .. } => "protocol",
        Error::Login { .. } => "login",
        Error::Closed { .. } => "closed",
        _ => "_OTHER",
    }
}

/// The name of the first command of a request.
fn first_word(request: Encode<'_>) -> String {
    let mut wire = Vec::new();
    request(&mut Requests::new(&mut wire, false));
    let name = if wire.is_empty() {
        None
    } else {
        Words::new(&wire).next()
    };
    let mut name = String::from_utf8_lossy(name.unwrap_or_default()).to_ascii_uppercase();
    name.truncate(name.floor_char_boundary(NAME_BYTES));
    name
}

/// The commands of a request, with `?` for every argument that is not a key.
fn query_text(request: Encode<'_>) -> Option<String> {
    let (mut wire, mut parts) = (Vec::new(), Vec::new());
    request(&mut Requests::noting(&mut wire, false, &mut parts));
    let mut text = String::new();
    let mut start = 0;
    for part in &parts {
        let words = Words::new(&wire[start..part.end]);
        start = part.end;
        let keys = match part.meta.keys {
            // Any argument could be a secret.
            Keys::Unknown => Vec::new(),
            keys => crate::cluster::routing_keys(keys, words.clone()),
        };
        let is_key = |word: &[u8]| keys.iter().any(|key| std::ptr::eq(*key, word));
        for (place, word) in words.enumerate() {
            let separator = match (place, text.is_empty()) {
                (_, true) => "",
                (0, false) => "; ",
                _ => " ",
            };
            let shown = if place == 0 || is_key(word) {
                String::from_utf8_lossy(word)
            } else {
                "?".into()
            };
            // A string takes everything.
            let _ = write!(text, "{separator}{shown}");
            if text.len() > TEXT_BYTES {
                text.truncate(text.floor_char_boundary(TEXT_BYTES));
                return Some(text);
            }
        }
    }
    (!parts.is_empty()).then_some(text)
}
