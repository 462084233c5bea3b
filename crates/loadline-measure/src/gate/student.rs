//! Student's t distribution for small baselines.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The quantile `p` of the t distribution with `freedom` degrees of freedom.
pub(crate) fn quantile(p: f64, freedom: f64) -> f64 {
    distribution(freedom).inverse_cdf(p)
}

fn distribution(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom.max(1.0))
        .expect("a scale of one and at least one degree of freedom are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.6.7.2.
        for (p, freedom, expected) in [
            (0.99, 7.0, 2.998),
            (0.975, 7.0, 2.365),
            (0.99, 9.0, 2.821),
            (0.999, 7.0, 4.785),
            (0.99, 30.0, 2.457),
            (0.95, 1.0, 6.314),
        ] {
            let found = quantile(p, freedom);
            assert!((found - expected).abs() < 6e-4, "{p}, {freedom}: {found}");
        }
    }
}
