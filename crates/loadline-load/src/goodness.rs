//! Goodness-of-fit tests for random draws. Tests only.

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// The tests have fixed seeds, so a fit that is rejected at this level stays rejected; one in a thousand
/// would be rejected by chance.
pub(crate) const REJECTED_BELOW: f64 = 0.001;

/// The expected draws that a cell of Pearson's test needs for the chi-square approximation (Cochran 1954).
const LEAST_EXPECTED: f64 = 5.0;

/// The probability of counts at least as far from `shares` as these, by Pearson's chi-square test. Shares are
/// relative; cells with too few expected draws are merged.
pub(crate) fn chi_square_p(counts: &[u64], shares: &[f64]) -> f64 {
    assert_eq!(counts.len(), shares.len());
    let draws = counts.iter().sum::<u64>() as f64;
    let total: f64 = shares.iter().sum();
    let (mut statistic, mut cells) = (0.0, 0_u32);
    let (mut thin_found, mut thin_expected) = (0.0, 0.0);
    let mut add = |found: f64, expected: f64| {
        statistic += (found - expected).powi(2) / expected;
        cells += 1;
    };
    for (count, share) in counts.iter().zip(shares) {
        let (found, expected) = (*count as f64, draws * share / total);
        if expected < LEAST_EXPECTED {
            thin_found += found;
            thin_expected += expected;
        } else {
            add(found, expected);
        }
    }
    if thin_expected > 0.0 {
        add(thin_found, thin_expected);
    } else {
        assert!(thin_found == 0.0, "{thin_found} draws of what cannot be");
    }
    ChiSquared::new(f64::from(cells) - 1.0)
        .unwrap()
        .sf(statistic)
}

/// The probability of samples at least as far from the distribution function `cdf` as these, by the
/// Kolmogorov-Smirnov test with its limiting distribution.
pub(crate) fn kolmogorov_p(mut samples: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    let count = samples.len() as f64;
    let distance = samples.iter().enumerate().map(|(index, sample)| {
        let wanted = cdf(*sample);
        let (below, up_to) = (index as f64 / count, (index + 1) as f64 / count);
        (wanted - below).abs().max((up_to - wanted).abs())
    });
    kolmogorov_tail(distance.fold(0.0, f64::max) * count.sqrt())
}

/// The probability that Kolmogorov's distribution exceeds `lambda`.
fn kolmogorov_tail(lambda: f64) -> f64 {
    // Below this it is 1 to five digits, and the series needs more and more terms.
    if lambda < 0.3 {
        return 1.0;
    }
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 1.0 } else { -1.0 };
        sign * (-2.0 * f64::from(k * k) * lambda * lambda).exp()
    };
    (2.0 * (1..=100).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

#[test]
fn tests_know_a_fair_die_from_a_loaded_one() {
    let fair = [1.0; 6];
    // The statistics are 0, 2.4 and 120 at five degrees of freedom; tables have 0.79 for the second.
    assert!(chi_square_p(&[100; 6], &fair) > 0.999);
    assert!((chi_square_p(&[90, 110, 98, 102, 104, 96], &fair) - 0.7915).abs() < 0.001);
    assert!(chi_square_p(&[200, 80, 80, 80, 80, 80], &fair) < 1e-9);
    // The critical values of the tables.
    assert!((kolmogorov_tail(1.3581) - 0.05).abs() < 1e-4);
    assert!((kolmogorov_tail(1.6276) - 0.01).abs() < 1e-4);
    let even: Vec<f64> = (0..1_000).map(|n| (f64::from(n) + 0.5) / 1_000.0).collect();
    assert!(kolmogorov_p(even.clone(), |x| x) > 0.999);
    let bent = even.iter().map(|x| x.powf(1.2)).collect();
    assert!(kolmogorov_p(bent, |x| x) < REJECTED_BELOW);
}
