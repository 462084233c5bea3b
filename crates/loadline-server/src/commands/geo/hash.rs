//! Geohashes and distances, computed step by step as in Redis, so that every digit is the same.

/// The largest longitude and latitude; latitudes are those of the Mercator projection.
pub(super) const MOST_LONGITUDE: f64 = 180.0;
pub(super) const MOST_LATITUDE: f64 = 85.051_128_78;

/// Bits of each coordinate in a score.
const FINEST: u32 = 26;

const EARTH_RADIUS_METERS: f64 = 6_372_797.560_856;
const MERCATOR_MOST: f64 = 20_037_726.37;

/// Every second bit: those of the latitude, and those of the longitude.
const LATITUDES: u64 = 0x5555_5555_5555_5555;
const LONGITUDES: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// A longitude and a latitude in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Coordinates {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

impl Coordinates {
    pub(super) fn is_valid(self) -> bool {
        self.longitude.abs() <= MOST_LONGITUDE && self.latitude.abs() <= MOST_LATITUDE
    }

    /// The score of a member at this place.
    pub(super) fn score(self) -> u64 {
        Cell::around(self, FINEST, MOST_LATITUDE).bits
    }

    /// The place of a member with this score: the middle of its cell.
    pub(super) fn of_score(score: f64) -> Self {
        let bits = truncated(score);
        let area = Cell { bits, step: FINEST }.area();
        let middle =
            |(least, most): (f64, f64), end: f64| ((least + most) / 2.0).min(end).max(-end);
        Self {
            longitude: middle(area.longitudes, MOST_LONGITUDE),
            latitude: middle(area.latitudes, MOST_LATITUDE),
        }
    }

    /// The geohash in the usual alphabet, whose latitudes go up to the poles. The last letter is always 0.
    pub(super) fn text(self) -> String {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Cell::around(self, FINEST, 90.0).bits;
        let letter = |at: u32| match at {
            10 => '0',
            _ => char::from(ALPHABET[(bits >> (52 - (at + 1) * 5)) as usize & 0x1f]),
        };
        (0..11).map(letter).collect()
    }

    /// The distance in meters, on a sphere.
    pub(super) fn distance(self, other: Self) -> f64 {
        let (longitude, other_longitude) = (radians(self.longitude), radians(other.longitude));
        let v = ((other_longitude - longitude) / 2.0).sin();
        if v == 0.0 {
            return self.distance_in_latitude(other);
        }
        let (latitude, other_latitude) = (radians(self.latitude), radians(other.latitude));
        let u = ((other_latitude - latitude) / 2.0).sin();
        let a = u * u + latitude.cos() * other_latitude.cos() * v * v;
        2.0 * EARTH_RADIUS_METERS * a.sqrt().asin()
    }

    fn distance_in_latitude(self, other: Self) -> f64 {
        EARTH_RADIUS_METERS * (radians(other.latitude) - radians(self.latitude)).abs()
    }
}

fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

/// Converts a double as processors do: what has no place in 64 bits is 0 or the number with the first bit alone.
fn truncated(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    const NONE: u64 = 1 << 63;
    let signed = |number: f64| {
        if (-HALF..HALF).contains(&number) {
            (number as i64).cast_unsigned()
        } else {
            NONE
        }
    };
    if number >= HALF {
        signed(number - HALF) ^ NONE
    } else {
        signed(number)
    }
}

/// A cell of the grid with 2^`step` columns and rows. The bits of latitude and longitude take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    bits: u64,
    step: u32,
}

/// The borders of a cell.
#[derive(Debug, Clone, Copy)]
struct Area {
    longitudes: (f64, f64),
    latitudes: (f64, f64),
}

impl Cell {
    fn around(place: Coordinates, step: u32, most_latitude: f64) -> Self {
        let cells = (1_u64 << step) as f64;
        let offset = |value: f64, most: f64| ((value + most) / (most + most) * cells) as u32;
        let latitude = offset(place.latitude, most_latitude);
        let longitude = offset(place.longitude, MOST_LONGITUDE);
        Self {
            bits: spread(latitude) | spread(longitude) << 1,
            step,
        }
    }

    fn area(self) -> Area {
        let cells = (1_u64 << self.step) as f64;
        let borders = |at: u32, most: f64| {
            let border = |at: u32| -most + f64::from(at) / cells * (most + most);
            (border(at), border(at.wrapping_add(1)))
        };
        Area {
            longitudes: borders(gather(self.bits >> 1), MOST_LONGITUDE),
            latitudes: borders(gather(self.bits), MOST_LATITUDE),
        }
    }

    /// The cell next to it in each direction; the grid has no borders.
    fn moved(self, east: i32, north: i32) -> Self {
        let unused = 64 - self.step * 2;
        let moved = |own: u64, mine: u64, others: u64, by: i32| {
            let gaps = others >> unused;
            let sum = match by {
                0 => return own,
                1.. => own.wrapping_add(gaps + 1),
                _ => (own | gaps).wrapping_sub(gaps + 1),
            };
            sum & (mine >> unused)
        };
        let longitude = moved(self.bits & LONGITUDES, LONGITUDES, LATITUDES, east);
        let latitude = moved(self.bits & LATITUDES, LATITUDES, LONGITUDES, north);
        Self {
            bits: longitude | latitude,
            ..self
        }
    }

    /// The scores of its members: from the first number on, up to before the second one.
    fn scores(self) -> (f64, f64) {
        let places = 52 - self.step * 2;
        let aligned = |bits: u64| (bits << places) as f64;
        (aligned(self.bits), aligned(self.bits + 1))
    }
}

/// Puts a zero in front of each bit.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, LATITUDES),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Takes every second bit, the lowest first.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & LATITUDES;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

/// The form of a searched area, in meters.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

/// An area around a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) center: Coordinates,
    /// In the unit of the command.
    pub(super) form: Form,
    /// Meters of the unit.
    pub(super) unit: f64,
}

impl Shape {
    /// The distance of a place in meters, if it is in the area.
    pub(super) fn distance(&self, place: Coordinates) -> Option<f64> {
        match self.form {
            Form::Circle { radius } => {
                let distance = self.center.distance(place);
                (distance <= radius * self.unit).then_some(distance)
            }
            Form::Box { width, height } => {
                let (width, height) = (width * self.unit, height * self.unit);
                let beside = Coordinates {
                    latitude: place.latitude,
                    ..self.center
                };
                let is_in = place.distance_in_latitude(self.center) <= height / 2.0
                    && place.distance(beside) <= width / 2.0;
                is_in.then(|| self.center.distance(place))
            }
        }
    }

    /// The ranges of scores that together have all members of the area, in the order of Redis.
    pub(super) fn scores(&self) -> Vec<(f64, f64)> {
        let bounds = self.bounds();
        let mut step = self.step();
        let mut cell = Cell::around(self.center, step, MOST_LATITUDE);
        let is_small = cell.moved(0, 1).area().latitudes.1 < bounds.latitudes.1
            || cell.moved(0, -1).area().latitudes.0 > bounds.latitudes.0
            || cell.moved(1, 0).area().longitudes.1 < bounds.longitudes.1
            || cell.moved(-1, 0).area().longitudes.0 > bounds.longitudes.0;
        if step > 1 && is_small {
            step -= 1;
            cell = Cell::around(self.center, step, MOST_LATITUDE);
        }
        let area = cell.area();
        let is_useless = |east: i32, north: i32| {
            step >= 2
                && (north < 0 && area.latitudes.0 < bounds.latitudes.0
                    || north > 0 && area.latitudes.1 > bounds.latitudes.1
                    || east < 0 && area.longitudes.0 < bounds.longitudes.0
                    || east > 0 && area.longitudes.1 > bounds.longitudes.1)
        };
        let mut scores = vec![cell.scores()];
        // The last cell that was taken, except for the middle.
        let mut last = None;
        for (east, north) in [
            (0, 1),
            (0, -1),
            (1, 0),
            (-1, 0),
            (1, 1),
            (-1, 1),
            (1, -1),
            (-1, -1),
        ] {
            let next = cell.moved(east, north);
            // Of a large area, neighbors can be the same cell.
            if !is_useless(east, north) && last != Some(next) {
                scores.push(next.scores());
                last = Some(next);
            }
        }
        scores
    }

    /// The borders of the area, roughly: those of longitudes are taken where they are nearer to the pole.
    fn bounds(&self) -> Area {
        let (width, height) = match self.form {
            Form::Circle { radius } => (radius, radius),
            Form::Box { width, height } => (width / 2.0, height / 2.0),
        };
        let (width, height) = (self.unit * width, self.unit * height);
        let Coordinates {
            longitude,
            latitude,
        } = self.center;
        let up = degrees(height / EARTH_RADIUS_METERS);
        let at = if latitude < 0.0 {
            latitude - up
        } else {
            latitude + up
        };
        let aside = degrees(width / EARTH_RADIUS_METERS / radians(at).cos());
        Area {
            longitudes: (longitude - aside, longitude + aside),
            latitudes: (latitude - up, latitude + up),
        }
    }

    /// The grid in which a cell and its neighbors usually cover the area.
    fn step(&self) -> u32 {
        let reach = match self.form {
            Form::Circle { radius } => radius,
            Form::Box { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
        };
        let mut reach = reach * self.unit;
        if reach == 0.0 {
            return FINEST;
        }
        let mut step = 1;
        while reach < MERCATOR_MOST {
            reach *= 2.0;
            step += 1;
        }
        step -= 2;
        let latitude = self.center.latitude.abs();
        if latitude > 66.0 {
            step -= if latitude > 80.0 { 2 } else { 1 };
        }
        step.clamp(1, FINEST as i32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_gathered_as_they_were_spread(number in any::<u32>()) {
            prop_assert_eq!(gather(spread(number)), number);
            prop_assert_eq!(gather(spread(number) << 1 >> 1), number);
        }

        /// The ranges of scores leave no member of the area out, away from the poles and the date line.
        #[test]
        fn every_place_in_an_area_has_one_of_its_scores(
            longitude in -150_f64..150.0, latitude in -60_f64..60.0, east in -3_f64..3.0, north in -3_f64..3.0,
            width in 0_f64..500.0, height in 0_f64..500.0, is_circle in any::<bool>(),
        ) {
            let center = Coordinates { longitude, latitude };
            let member = Coordinates { longitude: longitude + east, latitude: latitude + north };
            let form = if is_circle { Form::Circle { radius: width } } else { Form::Box { width, height } };
            let shape = Shape { center, form, unit: 1_000.0 };
            let score = member.score() as f64;
            if shape.distance(Coordinates::of_score(score)).is_some() {
                let has = |(least, most): &(f64, f64)| (*least..*most).contains(&score);
                prop_assert!(shape.scores().iter().any(has));
            }
        }
    }

    #[test]
    fn scores_that_are_no_geohashes_have_places() {
        for score in [
            -1.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e300,
            2e19,
            -2e19,
            1.5,
        ] {
            assert!(Coordinates::of_score(score).is_valid(), "{score}");
        }
    }
}
