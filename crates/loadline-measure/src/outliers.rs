//! Rounds far from the others, by Tukey's fences.
//!
//! The fences are 1.5 (mild) and 3 (severe) interquartile ranges outside the quartiles; quartiles are type 7
//! of Hyndman and Fan (linear interpolation, the default of R and NumPy). Tukey, "Exploratory Data Analysis"
//! (1977). Outliers are counted and never removed.

use serde::{Deserialize, Serialize};

use crate::quantile::{quantile_of_sorted, sorted};

/// The number of values outside the fences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outliers {
    /// Between 1.5 and 3 interquartile ranges outside the quartiles.
    pub(crate) mild: u64,
    /// More than 3 interquartile ranges outside the quartiles.
    pub(crate) severe: u64,
}

/// Counts the values outside Tukey's fences. With fewer than four values there are none.
#[must_use]
pub fn count(values: &[f64]) -> Outliers {
    let sorted = sorted(values);
    let quartiles = quantile_of_sorted(&sorted, 0.25).zip(quantile_of_sorted(&sorted, 0.75));
    let Some((lower, upper)) = quartiles.filter(|_| sorted.len() >= 4) else {
        return Outliers::default();
    };
    let outside = |ranges: f64| {
        let fence = ranges * (upper - lower);
        sorted
            .iter()
            .filter(|value| **value < lower - fence || **value > upper + fence)
            .count() as u64
    };
    let severe = outside(3.0);
    Outliers {
        mild: outside(1.5) - severe,
        severe,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_mild_and_severe_on_both_sides() {
        // Quartiles 3 and 7 (of the eleven values), range 4: mild beyond -3 and 13, severe beyond
        // -9 and 19.
        let values = [-10.0, -4.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0, 7.0, 14.0, 20.0];
        assert_eq!(count(&values), Outliers { mild: 2, severe: 2 });
    }

    #[test]
    fn value_on_a_fence_is_inside() {
        let values = [-3.0, 3.0, 3.0, 5.0, 7.0, 7.0, 13.0];
        assert_eq!(count(&values), Outliers::default());
    }

    #[test]
    fn equal_values_and_few_values_have_no_outliers() {
        assert_eq!(count(&[5.0; 30]), Outliers::default());
        assert_eq!(count(&[1.0, 2.0, 900.0]), Outliers::default());
        assert_eq!(count(&[]), Outliers::default());
    }
}
