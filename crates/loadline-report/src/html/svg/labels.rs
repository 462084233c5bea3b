//! Labels of plots.

use super::{LETTER, LINE, WIDTH};
use crate::clean::{columns, escaped};

/// Room between a label and a curve.
const MARGIN: f64 = 2.0;

/// Labels, none of which overlaps another one or covers a curve.
#[derive(Default)]
pub(super) struct Labels {
    taken: Vec<[f64; 4]>,
    /// Pieces of the curves: both ends.
    curves: Vec<[(f64, f64); 2]>,
    pub(super) svg: String,
}

#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Labels {
    /// Keeps labels off a curve through these places of the picture.
    pub(super) fn keep_off(&mut self, curve: &[(f64, f64)]) {
        self.curves
            .extend(curve.windows(2).map(|ends| [ends[0], ends[1]]));
        if let [only] = curve {
            self.curves.push([*only, *only]);
        }
    }

    /// Writes a label with its baseline at `y`, unless it would overlap another, cover a curve or leave the picture.
    pub(super) fn place(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) -> bool {
        let width = columns(text) as f64 * LETTER;
        let (left, anchor) = match anchor {
            Anchor::Start => (x, "start"),
            Anchor::Middle => (x - width / 2.0, "middle"),
            Anchor::End => (x - width, "end"),
        };
        let own = [left, y - LINE + 3.0, left + width, y + 3.0];
        let is_free = |other: &[f64; 4]| {
            own[2] < other[0] || other[2] < own[0] || own[3] <= other[1] || other[3] <= own[1]
        };
        let is_inside = own[0] >= 0.0 && own[2] <= WIDTH;
        let around = [
            own[0] - MARGIN,
            own[1] - MARGIN,
            own[2] + MARGIN,
            own[3] + MARGIN,
        ];
        let fits = is_inside
            && self.taken.iter().all(is_free)
            && !self.curves.iter().any(|ends| runs_through(*ends, around));
        if fits {
            self.taken.push(own);
            self.svg.push_str(&format!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
                escaped(text)
            ));
        }
        fits
    }
}

/// Whether a straight line between two places runs through a box.
fn runs_through([(x, y), (to_x, to_y)]: [(f64, f64); 2], sides: [f64; 4]) -> bool {
    // The part of the line that is between two sides and then between the others, as shares of its length.
    let (mut from, mut to) = (0.0_f64, 1.0_f64);
    for (at, length, low, high) in [
        (x, to_x - x, sides[0], sides[2]),
        (y, to_y - y, sides[1], sides[3]),
    ] {
        if length == 0.0 {
            if !(low..=high).contains(&at) {
                return false;
            }
            continue;
        }
        let (one, other) = ((low - at) / length, (high - at) / length);
        from = from.max(one.min(other));
        to = to.min(one.max(other));
    }
    from <= to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_gives_way_to_a_curve() {
        let mut labels = Labels::default();
        labels.keep_off(&[(0.0, 100.0), (200.0, 0.0)]);
        labels.keep_off(&[(300.0, 150.0)]);
        assert!(!labels.place((90.0, 60.0), Anchor::Start, "over the curve"));
        assert!(labels.place((10.0, 60.0), Anchor::Start, "left"));
        assert!(labels.place((100.0, 80.0), Anchor::Start, "right"));
        assert!(!labels.place((300.0, 155.0), Anchor::Middle, "point"));
        assert!(labels.place((300.0, 170.0), Anchor::Middle, "point"));
    }

    #[test]
    fn label_gives_way_to_one_that_is_there_already() {
        let mut labels = Labels::default();
        assert!(labels.place((100.0, 50.0), Anchor::Start, "first"));
        assert!(!labels.place((110.0, 52.0), Anchor::Middle, "second"));
        assert!(labels.place((110.0, 70.0), Anchor::Middle, "second"));
        assert!(!labels.place((WIDTH - 3.0, 100.0), Anchor::Start, "beyond"));
    }
}
