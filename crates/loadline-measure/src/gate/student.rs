//! Student's t distribution, as far as a baseline of few runs needs it.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The quantile `p` of the t distribution with `freedom` degrees of freedom.
pub(crate) fn quantile(p: f64, freedom: u64) -> f64 {
    distribution(freedom).inverse_cdf(p)
}

/// How likely a value of the t distribution with `freedom` degrees of freedom lies above `t`.
pub(crate) fn above(t: f64, freedom: u64) -> f64 {
    if t.is_nan() {
        1.0
    } else {
        distribution(freedom).sf(t)
    }
}

fn distribution(freedom: u64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom.max(1) as f64)
        .expect("a scale of one and at least one degree of freedom are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.6.7.2.
        for (p, freedom, expected) in [
            (0.99, 7, 2.998),
            (0.975, 7, 2.365),
            (0.99, 9, 2.821),
            (0.999, 7, 4.785),
            (0.99, 30, 2.457),
            (0.95, 1, 6.314),
        ] {
            let found = quantile(p, freedom);
            assert!((found - expected).abs() < 6e-4, "{p}, {freedom}: {found}");
        }
    }

    #[test]
    fn the_tail_undoes_the_quantile() {
        for freedom in [1, 7, 12, 200] {
            for p in [0.5, 0.9, 0.99, 0.9995, 0.999_999] {
                let tail = above(quantile(p, freedom), freedom);
                assert!(
                    (tail / (1.0 - p) - 1.0).abs() < 1e-5,
                    "{p}, {freedom}: {tail}"
                );
            }
        }
        assert_eq!(above(f64::NAN, 7), 1.0);
        assert_eq!(above(f64::INFINITY, 7), 0.0);
    }
}
