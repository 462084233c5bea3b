//! Faults of a network path.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A fault of a path or of one connection.
///
/// [`Fault::Cut`], [`Fault::Reset`] and [`Fault::HalfOpen`] affect open connections once. The others last until they are
/// cleared, or as long as a [`Script`](crate::script::Script) says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Fault {
    /// Both ends see an orderly end of the stream in the middle of the data. Bytes in flight are lost, and
    /// later bytes are discarded.
    Cut,
    /// Both ends receive a reset. Bytes in flight are lost.
    Reset,
    /// The server's end is closed and the client is not notified: its connection looks open, accepts data and
    /// never answers.
    HalfOpen,
    /// Everything sent on the open connections vanishes, and neither end is notified. They carry nothing any more,
    /// also after the fault: as when a firewall forgets them. The local kernel still completes new
    /// connections, which receive nothing until the fault is over.
    BlackHole,
    /// Nothing passes in either direction, and neither end is notified. Data is held and passes once the fault is over, as
    /// after a retransmission or a pause of the server. The local kernel still completes new
    /// connections, which then receive nothing.
    Freeze,
    /// New connections are refused; open ones continue.
    Refuse,
    /// An orderly close is forwarded later than data.
    SlowClose {
        /// The additional delay of the close.
        #[serde(rename = "delay_ns", with = "nanoseconds")]
        delay: Duration,
    },
    /// Data arrives later in each direction.
    Delay {
        /// The additional delay in each direction.
        #[serde(rename = "delay_ns", with = "nanoseconds")]
        delay: Duration,
    },
}

impl Fault {
    /// Whether it lasts until it is cleared.
    #[must_use]
    pub fn is_lasting(self) -> bool {
        !matches!(self, Self::Cut | Self::Reset | Self::HalfOpen)
    }

    /// Whether it can affect one connection and leave the others alone.
    #[must_use]
    pub fn fits_a_connection(self) -> bool {
        !matches!(
            self,
            Self::Refuse | Self::SlowClose { .. } | Self::Delay { .. }
        )
    }
}

/// A duration as a whole number of nanoseconds, as records write it.
pub(crate) mod nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        u64::try_from(duration.as_nanos())
            .unwrap_or(u64::MAX)
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_nanos)
    }
}
