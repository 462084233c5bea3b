//! What a path does to bytes.

use std::time::Duration;

use crate::Error;

/// What a path does to bytes in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Shape {
    /// From the client to the server.
    pub up: Lane,
    /// From the server to the client.
    pub down: Lane,
    /// The seed of the jitter and the loss: the same one draws the same delays.
    pub seed: u64,
}

/// What a path does to bytes in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Lane {
    /// How long every byte is under way.
    pub delay: Duration,
    /// How much that varies.
    pub jitter: Jitter,
    /// How many bytes per second fit through, by all connections together; `None` is no limit.
    pub bytes_per_second: Option<u64>,
    /// The share of packets, from 0 to 1, that get lost. Only a link that handles packets can lose
    /// one.
    pub loss: f64,
}

/// How much the delay of a lane varies. A draw never makes bytes overtake those before them, and
/// never makes the delay negative.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Jitter {
    /// Not at all.
    #[default]
    None,
    /// Any delay that is at most this much smaller or larger, all equally likely.
    Uniform {
        /// Half of the width.
        within: Duration,
    },
    /// Normally distributed around the delay.
    Normal {
        /// The standard deviation.
        deviation: Duration,
    },
    /// The delay is the least; the excess over it has a Pareto tail (Lomax distribution), with a mean
    /// of `scale / (exponent - 1)` where the exponent is above 1.
    Pareto {
        /// The scale.
        scale: Duration,
        /// The tail's exponent: the smaller, the heavier the tail.
        exponent: f64,
    },
}

impl Shape {
    /// A path that adds `latency` to each round trip, split evenly between the directions.
    #[must_use]
    pub fn round_trip(latency: Duration) -> Self {
        let up = latency / 2;
        let lane = |delay| Lane {
            delay,
            ..Lane::default()
        };
        Self {
            up: lane(up),
            // The odd nanosecond is not lost.
            down: lane(latency - up),
            seed: 0,
        }
    }

    /// The added round trip without jitter and serialisation.
    #[must_use]
    pub fn latency(&self) -> Duration {
        self.up.delay.saturating_add(self.down.delay)
    }

    /// The same jitter in both directions.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.up.jitter = jitter;
        self.down.jitter = jitter;
        self
    }

    /// The same bandwidth, in bytes per second, in both directions.
    #[must_use]
    pub fn with_bandwidth(mut self, bytes_per_second: u64) -> Self {
        self.up.bytes_per_second = Some(bytes_per_second);
        self.down.bytes_per_second = Some(bytes_per_second);
        self
    }

    /// The same share of lost packets in both directions.
    #[must_use]
    pub fn with_loss(mut self, loss: f64) -> Self {
        self.up.loss = loss;
        self.down.loss = loss;
        self
    }

    /// Whether a path can have this shape.
    ///
    /// # Errors
    /// [`Error::Shape`] says what is wrong.
    pub fn check(&self) -> Result<(), Error> {
        [self.up, self.down].iter().try_for_each(Lane::check)
    }

    /// Whether packets are lost.
    #[must_use]
    pub fn loses_packets(&self) -> bool {
        self.up.loss > 0.0 || self.down.loss > 0.0
    }
}

impl Lane {
    /// The longest delay that is accepted: longer ones are slips of the pen.
    pub const LONGEST_DELAY: Duration = Duration::from_secs(3_600);

    fn check(&self) -> Result<(), Error> {
        let fault = |what| Err(Error::Shape { what });
        if self.delay > Self::LONGEST_DELAY {
            return fault("a delay is at most an hour");
        }
        if self.bytes_per_second == Some(0) {
            return fault("no byte passes at 0 bytes per second; inject a black hole instead");
        }
        if !(0.0..=1.0).contains(&self.loss) {
            return fault("the loss is a share from 0 to 1");
        }
        let spread = match self.jitter {
            Jitter::None => Duration::ZERO,
            Jitter::Uniform { within } => within,
            Jitter::Normal { deviation } => deviation,
            Jitter::Pareto { scale, exponent } => {
                if !(exponent.is_finite() && exponent > 0.0) {
                    return fault("the exponent of Pareto jitter is above 0");
                }
                if scale.is_zero() {
                    return fault("the scale of Pareto jitter is above 0");
                }
                scale
            }
        };
        if spread > Self::LONGEST_DELAY {
            return fault("jitter is at most an hour");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_latency_is_split_without_loss() {
        let latency = Duration::from_nanos(1_000_001);
        let shape = Shape::round_trip(latency);
        assert_eq!(shape.latency(), latency);
        assert_eq!(shape.up.delay, Duration::from_nanos(500_000));
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let zero = Shape::default();
        let pareto = |exponent| Jitter::Pareto {
            scale: Duration::from_millis(1),
            exponent,
        };
        for (shape, word) in [
            (Shape::round_trip(Duration::from_secs(7_202)), "hour"),
            (zero.with_bandwidth(0), "black hole"),
            (zero.with_loss(1.1), "share"),
            (zero.with_loss(f64::NAN), "share"),
            (zero.with_jitter(pareto(0.0)), "exponent"),
            (zero.with_jitter(pareto(f64::NAN)), "exponent"),
        ] {
            let refusal = shape.check().unwrap_err().to_string();
            assert!(refusal.contains(word), "{refusal}");
        }
        assert!(zero.with_jitter(pareto(1.5)).check().is_ok());
    }
}
