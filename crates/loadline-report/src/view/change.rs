//! The words of a change: of what, by how much, and how certain.

use loadline_measure::compare::Supported;
use loadline_measure::record::Comparison;
use loadline_measure::words;

/// The words for a figure that is higher, lower or as high.
pub(super) const HEIGHTS: [&str; 3] = ["higher", "lower", "high"];

/// A ratio as a change: `20 % fewer`, `than`, ` [16, 24]`; from twice on as a factor.
pub(super) struct Change {
    pub(super) amount: String,
    pub(super) than: &'static str,
    pub(super) interval: String,
}

impl Change {
    pub(super) fn of(
        ratio: f64,
        bounds: Option<(f64, f64)>,
        [more, fewer, many]: [&str; 3],
    ) -> Self {
        let (lead, ratio) = match bounds.map(|bounds| Supported::of(bounds, false)) {
            Some(Supported::Bound(bound)) => ("at least ", bound),
            _ => ("", ratio),
        };
        if ratio >= 2.0 || !ratio.is_finite() {
            let bounds = bounds.map(|(lo, hi)| [words::bound(lo), words::bound(hi)]);
            return Self {
                amount: format!("{lead}{} times as {many}", words::bound(ratio)),
                than: "as",
                interval: interval(bounds),
            };
        }
        let is_less = ratio < 1.0;
        let share = |ratio: f64| percent((if is_less { 1.0 - ratio } else { ratio - 1.0 }) * 100.0);
        let bounds = bounds.map(|(lo, hi)| if is_less { [hi, lo] } else { [lo, hi] }.map(share));
        let direction = if is_less { fewer } else { more };
        Self {
            amount: format!("{lead}{} % {direction}", share(ratio)),
            than: "than",
            interval: interval(bounds),
        }
    }
}

fn interval(bounds: Option<[String; 2]>) -> String {
    bounds.map_or_else(String::new, |[lo, hi]| format!(" [{lo}, {hi}]"))
}

/// The change of a metric with its interval: `20 % lower [16, 24]`.
pub(super) fn change(ratio: f64, bounds: Option<(f64, f64)>) -> String {
    let Change {
        amount, interval, ..
    } = Change::of(ratio, bounds, HEIGHTS);
    amount + &interval
}

/// A percentage without its sign, with one decimal below ten.
pub(super) fn percent(value: f64) -> String {
    match value {
        _ if value.abs() >= 1e6 => format!("{value:.2e}"),
        _ if value.abs() >= 9.95 => format!("{value:.0}"),
        // Minus zero is zero.
        _ => format!("{:.1}", if value.abs() < 0.05 { 0.0 } else { value }),
    }
}

/// A comparison as the change of a metric, for a list.
pub(super) fn phrase(comparison: &Comparison) -> String {
    let bounds = comparison.interval.map(|bounds| (bounds.lo, bounds.hi));
    change(comparison.ratio, bounds)
}

/// Whether a ratio is noise: A against A would not be level in the same rounds, and no bound is certain.
pub(super) fn is_noise(is_open: bool, bounds: Option<(f64, f64)>) -> bool {
    bounds.is_some_and(|bounds| Supported::of(bounds, is_open) == Supported::Nothing)
}
