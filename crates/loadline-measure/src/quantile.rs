//! The median and other quantiles of small sets of numbers: the only implementation, so that two commands
//! never print different medians of the same runs.

/// The numbers in ascending order. NaN sorts to the end.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The median; the mean of the two middle values if their number is even. `None` for an empty slice.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile_of_sorted(&sorted(values), 0.5)
}

/// The quantile `q` (0 to 1) of `values`, by linear interpolation between neighbouring values: type 7
/// of Hyndman and Fan. `None` for an empty slice.
#[must_use]
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    quantile_of_sorted(&sorted(values), q.clamp(0.0, 1.0))
}

/// The quantile `q` of sorted values by linear interpolation between the order statistics around `q (n - 1)`: type 7
/// of Hyndman and Fan, "Sample Quantiles in Statistical Packages" (1996), and the default of R and
/// NumPy.
pub(crate) fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q * last as f64;
    let (below, share) = (place.floor() as usize, place.fract());
    let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
    Some(low + (high - low) * share)
}

/// The median distance from the median, scaled by 1.4826 so that it estimates the standard
/// deviation of a normal distribution (Rousseeuw and Croux 1993).
pub(crate) fn scaled_mad(residuals: &[f64]) -> Option<f64> {
    let centre = median(residuals)?;
    let distances: Vec<f64> = residuals.iter().map(|x| (x - centre).abs()).collect();
    median(&distances).map(|mad| 1.4826 * mad)
}

/// The sample standard deviation (with `n - 1`); `None` for fewer than two values.
#[must_use]
pub fn deviation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_r() {
        // quantile(c(1, 2, 4, 8, 16), c(.1, .25, .5, .75, .9)) in R 4.2: 1.4 2.0 4.0 8.0 12.8
        let values = [4.0, 16.0, 1.0, 8.0, 2.0];
        for (q, expected) in [
            (0.1, 1.4),
            (0.25, 2.0),
            (0.5, 4.0),
            (0.75, 8.0),
            (0.9, 12.8),
        ] {
            let found = quantile(&values, q).unwrap();
            assert!((found - expected).abs() < 1e-12, "{q}: {found}");
        }
    }

    #[test]
    fn median_of_an_even_number_is_between() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn deviation_is_that_of_r() {
        // sd(c(2, 4, 4, 4, 5, 5, 7, 9)) in R: 2.138090
        let found = deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((found - 2.138_090).abs() < 1e-6, "{found}");
        assert_eq!(deviation(&[1.0]), None);
    }

    #[test]
    fn scaled_mad_is_that_of_r() {
        // mad(c(1, 1, 2, 2, 4, 6, 9)) in R: 1.4826
        assert_eq!(
            scaled_mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]),
            Some(1.4826)
        );
    }
}
