//! The delay, bandwidth and loss of a path.

use std::time::Duration;

use crate::Error;

/// The properties of a path in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Shape {
    /// From the client to the server.
    pub up: Lane,
    /// From the server to the client.
    pub down: Lane,
    /// The seed of the jitter and the loss: equal seeds draw equal delays.
    pub seed: u64,
}

/// The properties of a path in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Lane {
    /// The delay of every byte.
    pub delay: Duration,
    /// The variation of the delay.
    pub jitter: Jitter,
    /// The bandwidth shared by all connections, in bytes per second; `None` is unlimited.
    pub bytes_per_second: Option<u64>,
    /// The share of packets, from 0 to 1, that are lost. Only a link that handles packets supports it.
    pub loss: f64,
}

/// The variation of a lane's delay. Jitter never reorders bytes and never makes the delay negative.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Jitter {
    /// No variation.
    #[default]
    None,
    /// Uniformly distributed around the delay.
    Uniform {
        /// The largest deviation in either direction.
        within: Duration,
    },
    /// Normally distributed around the delay.
    Normal {
        /// The standard deviation.
        deviation: Duration,
    },
    /// The delay is the minimum; the excess has a Pareto tail (Lomax distribution), with a mean of `scale /
    /// (exponent - 1)` if the exponent is above 1.
    Pareto {
        /// The scale.
        scale: Duration,
        /// The exponent of the tail: smaller values make a heavier tail.
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
            // Keeps the odd nanosecond.
            down: lane(latency - up),
            seed: 0,
        }
    }

    /// The added round trip without jitter and transmission time.
    #[must_use]
    pub fn latency(&self) -> Duration {
        self.up.delay.saturating_add(self.down.delay)
    }

    /// Sets the same jitter in both directions.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.up.jitter = jitter;
        self.down.jitter = jitter;
        self
    }

    /// Sets the same bandwidth, in bytes per second, in both directions.
    #[must_use]
    pub fn with_bandwidth(mut self, bytes_per_second: u64) -> Self {
        self.up.bytes_per_second = Some(bytes_per_second);
        self.down.bytes_per_second = Some(bytes_per_second);
        self
    }

    /// Sets the same packet loss in both directions.
    #[must_use]
    pub fn with_loss(mut self, loss: f64) -> Self {
        self.up.loss = loss;
        self.down.loss = loss;
        self
    }

    /// Checks that the shape is valid.
    ///
    /// # Errors
    /// [`Error::Shape`] with the problem.
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
    /// The longest accepted delay; longer ones are assumed to be typing errors.
    pub const LONGEST_DELAY: Duration = Duration::from_secs(3_600);

    fn check(&self) -> Result<(), Error> {
        let fault = |what| Err(Error::Shape { what });
        if self.delay > Self::LONGEST_DELAY {
            return fault("a delay must be at most an hour");
        }
        if self.bytes_per_second == Some(0) {
            return fault(
                "the bandwidth must be above 0 bytes per second; inject a black hole to block all data",
            );
        }
        if !(0.0..=1.0).contains(&self.loss) {
            return fault("the loss must be a share from 0 to 1");
        }
        let spread = match self.jitter {
            Jitter::None => Duration::ZERO,
            Jitter::Uniform { within } => within,
            Jitter::Normal { deviation } => deviation,
            Jitter::Pareto { scale, exponent } => {
                if !(exponent.is_finite() && exponent > 0.0) {
                    return fault("the exponent of Pareto jitter must be above 0");
                }
                if scale.is_zero() {
                    return fault("the scale of Pareto jitter must be above 0");
                }
                scale
            }
        };
        if spread > Self::LONGEST_DELAY {
            return fault("jitter must be at most an hour");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_latency_is_split_without_loss() {
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
