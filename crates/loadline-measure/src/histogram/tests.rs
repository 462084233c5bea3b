use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

fn of(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    values.iter().for_each(|value| histogram.record(*value));
    histogram
}

#[test]
fn percentile_needs_a_hundred_samples_beyond_it() {
    type Percentile = fn(&LatencySummary) -> Option<u64>;
    let needs: [(u64, Percentile); 5] = [
        (200, |summary| summary.p50),
        (1_000, |summary| summary.p90),
        (2_000, |summary| summary.p95),
        (10_000, |summary| summary.p99),
        (100_000, |summary| summary.p999),
    ];
    for (needed, percentile) in needs {
        let mut histogram = Histogram::new();
        histogram.record_n(1_000, needed - 1);
        assert_eq!(percentile(&histogram.summary()), None, "{needed} less one");
        histogram.record(1_000);
        assert_eq!(percentile(&histogram.summary()), Some(1_000), "{needed}");
    }
}

#[test]
fn empty_histogram_has_no_figures() {
    let empty = Histogram::new();
    assert_eq!(empty.summary(), LatencySummary::default());
    assert_eq!(
        (empty.count(), empty.quantile(0.5), empty.value_at(0.5)),
        (0, None, None)
    );
    assert!(empty.spectrum().is_empty());
    assert_eq!(Histogram::decode(&empty.encode()).unwrap(), empty);
}

#[test]
fn summary_is_that_of_the_values_to_three_digits() {
    let values: Vec<u64> = (1..=100_000).map(|i| i * 1_000).collect();
    let summary = of(&values).summary();
    let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.001;
    assert_eq!(summary.count, 100_000);
    for (found, expected) in [
        (summary.min, 1e3),
        (summary.p50, 50e6),
        (summary.p90, 90e6),
        (summary.p95, 95e6),
        (summary.p99, 99e6),
        (summary.p999, 99.9e6),
        (summary.max, 100e6),
    ] {
        assert!(
            close(found.unwrap() as f64, expected),
            "{found:?} {expected}"
        );
    }
    assert!(close(summary.mean.unwrap(), 50_000_500.0));
    assert!(close(summary.stddev.unwrap(), 28_867_513.0));
}

#[test]
fn times_beyond_the_range_count_as_its_end() {
    let histogram = of(&[0, MAX_NS, MAX_NS + 1, u64::MAX]);
    let summary = histogram.summary();
    assert_eq!(
        (summary.count, summary.min, summary.max),
        (4, Some(0), Some(MAX_NS))
    );
    assert_eq!(Histogram::decode(&histogram.encode()).unwrap(), histogram);
}

#[test]
fn histogram_distinguishes_an_hour_from_fifty_minutes() {
    let (hour, less) = (3_600_000_000_000, 3_000_000_000_000);
    let found = of(&[less, hour]).value_at(0.5).unwrap();
    assert!((found as f64 / less as f64 - 1.0).abs() < 0.001, "{found}");
}

#[test]
fn histogram_takes_memory_up_to_its_longest_time() {
    assert_eq!(Histogram::new().counts.bytes(), 0);
    for (longest_ns, most_kib) in [(0, 8), (10_000_000, 60), (u64::MAX, 132)] {
        let histogram = of(&[longest_ns]);
        let bytes = histogram.counts.bytes();
        assert!(bytes <= most_kib * 1_024, "{longest_ns} ns: {bytes} bytes");
    }
}

#[test]
fn histograms_that_grew_differently_are_equal() {
    let mut grown = of(&[MAX_NS]);
    grown.reset();
    assert_eq!(grown, Histogram::new());
    grown.record(7);
    assert_eq!((&grown, &of(&[7])), (&of(&[7]), &grown));
    assert_ne!(grown, of(&[8]));
}

#[test]
fn counts_beyond_32_bits_are_kept() {
    let many = u64::from(u32::MAX);
    let mut histogram = of(&[5_000]);
    histogram.record_n(1_000, many);
    histogram.record_n(1_000, 3 * many);
    histogram.record(9_000);
    assert_eq!(histogram.count(), 4 * many + 2);
    let summary = histogram.summary();
    assert_eq!(
        (summary.min, summary.p999, summary.count),
        (Some(1_000), Some(1_000), 4 * many + 2)
    );
    assert_eq!(histogram.value_at(1.0), summary.max);
    let decoded = Histogram::decode(&histogram.encode()).unwrap();
    assert_eq!(decoded, histogram);
    assert_eq!(decoded.summary(), summary);
    histogram.reset();
    assert_eq!(histogram, Histogram::new());
}

#[test]
fn merging_full_histograms_loses_nothing() {
    let many = u64::from(u32::MAX);
    let mut full = Histogram::new();
    full.record_n(1_000, many);
    let mut sum = full.clone();
    sum.merge(&full);
    sum.merge(&sum.clone());
    sum.merge(&of(&[7]));
    assert_eq!(sum.count(), 4 * many + 1);
    assert_eq!(sum.summary().min, Some(7));
}

#[test]
fn spectrum_rises_and_ends_where_samples_end() {
    let mut rng = SmallRng::seed_from_u64(1);
    let values: Vec<u64> = (0..20_000)
        .map(|_| rng.random_range(1..1_000_000))
        .collect();
    let spectrum = of(&values).spectrum();
    assert!(
        spectrum
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1),
        "{spectrum:?}"
    );
    assert_eq!(
        spectrum.last().unwrap().0,
        0.995,
        "20,000 samples have 100 beyond 0.995"
    );
}

#[test]
fn logarithmic_bins_hold_every_sample_once() {
    let histogram = of(&[1, 150, 900, 1_500, 15_000, 99_000, 5_000_000]);
    // Three decades from 100 ns to 100 us; values outside are counted at the ends.
    assert_eq!(histogram.log_bins(100, 100_000, 3), [3, 1, 3]);
    assert_eq!(histogram.log_bins(100, 100, 2).iter().sum::<u64>(), 7);
    assert_eq!(histogram.log_bins(0, 0, 1), [7]);
    assert!(histogram.log_bins(1, 2, 0).is_empty());
    assert_eq!(Histogram::new().log_bins(1, 100, 2), [0, 0]);
}

/// The same samples in the histogram of the crate `hdrhistogram` with all counters.
fn hdr_of(samples: &[(u64, u64)]) -> Hdr<u64> {
    let mut hdr = Hdr::new_with_bounds(1, MAX_NS, SIGNIFICANT_DIGITS).unwrap();
    for (ns, n) in samples {
        hdr.record_n((*ns).min(MAX_NS), *n).unwrap();
    }
    hdr
}

fn of_many(samples: &[(u64, u64)]) -> Histogram {
    let mut histogram = Histogram::new();
    samples
        .iter()
        .for_each(|(ns, n)| histogram.record_n(*ns, *n));
    histogram
}

/// Times of every order of magnitude with their numbers of samples, of which some exceed 32 bits.
fn samples() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let ns = (0..44_u32).prop_flat_map(|bits| 0..=1_u64 << bits);
    let n = prop_oneof![8 => 1..1_000_u64, 1 => 1..1_u64 << 40];
    prop::collection::vec((ns, n), 1..200)
}

/// The form in which the crate writes a histogram with all counters.
fn written_by_the_crate(hdr: &Hdr<u64>) -> String {
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(hdr, &mut bytes)
        .unwrap();
    STANDARD.encode(bytes)
}

/// The figures of `histogram` are those of `hdr`, to the last bit.
fn refuse_other_figures(histogram: &Histogram, hdr: &Hdr<u64>) -> Result<(), TestCaseError> {
    prop_assert_eq!(histogram.count(), hdr.len());
    let count = histogram.count();
    let summary = histogram.summary();
    prop_assert_eq!(summary, histogram.decoded().summary());
    for q in SPECTRUM.into_iter().chain([1.0]) {
        prop_assert_eq!(histogram.value_at(q), Some(hdr.value_at_quantile(q)));
    }
    let published = |q| publishable(count, q).then(|| hdr.value_at_quantile(q));
    let expected = LatencySummary {
        count,
        min: Some(hdr.min()),
        mean: Some(hdr.mean()),
        stddev: Some(hdr.stdev()),
        p50: published(0.5),
        p90: published(0.9),
        p95: published(0.95),
        p99: published(0.99),
        p999: published(0.999),
        max: Some(hdr.max()),
    };
    prop_assert_eq!(summary, expected);
    Ok(())
}

impl Histogram {
    /// The histogram from its text.
    fn decoded(&self) -> Self {
        Self::decode(&self.encode()).unwrap()
    }
}

mod hostile {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    /// A text whose inner part is as given, in an honest envelope.
    fn enveloped(inner: &[u8]) -> String {
        let mut deflated = ZlibEncoder::new(Vec::new(), Compression::best());
        deflated.write_all(inner).unwrap();
        let deflated = deflated.finish().unwrap();
        let mut bytes = 0x1c84_9314_u32.to_be_bytes().to_vec();
        bytes.extend((deflated.len() as u32).to_be_bytes());
        bytes.extend(deflated);
        STANDARD.encode(bytes)
    }

    fn inner(declared: u32, digits: u32, highest: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = 0x1c84_9313_u32.to_be_bytes().to_vec();
        bytes.extend(declared.to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(digits.to_be_bytes());
        bytes.extend(1_u64.to_be_bytes());
        bytes.extend(highest.to_be_bytes());
        bytes.extend(1_f64.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    fn with_payload(payload: &[u8]) -> String {
        enveloped(&inner(payload.len() as u32, 3, MAX_NS, payload))
    }

    fn refusal(text: &str) -> String {
        Histogram::decode(text).unwrap_err().to_string()
    }

    #[test]
    fn envelope_of_these_tests_is_sound() {
        // Slot 0 empty, then five samples of 1 ns: zig-zag of -1 is 1, of 5 is 10.
        assert_eq!(
            Histogram::decode(&with_payload(&[1, 10])).unwrap(),
            of(&[1; 5])
        );
    }

    #[test]
    fn malformed_histogram_is_refused_with_a_reason() {
        let mut damaged = STANDARD.decode(of(&[1, 2, 3]).encode()).unwrap();
        damaged[14] ^= 0x55;
        let truncated = of(&[1, 2, 3]).encode()[..24].to_owned();
        for (text, reason) in [
            (String::new(), "in the middle of its header"),
            ("not base64!".to_owned(), "not base64"),
            (
                STANDARD.encode([1, 2, 3, 4, 5, 6, 7, 8]),
                "not in the compressed V2 format",
            ),
            (truncated, "length it declares"),
            (STANDARD.encode(damaged), "compressed part is damaged"),
            ("A".repeat(600_000), "longer than any histogram"),
            (enveloped(b""), "in the middle of its header"),
            (enveloped(&[9; 60]), "not in the V2 format"),
            (with_payload(&[0x80]), "in the middle of a number"),
        ] {
            let refused = refusal(&text);
            assert!(refused.contains(reason), "{refused} should say {reason}");
        }
    }

    #[test]
    fn declared_sizes_are_not_believed() {
        for (declared, digits, highest) in [
            (u32::MAX, 3, MAX_NS),
            (2, 5, MAX_NS),
            (2, 3, u64::MAX),
            (2, 0, 0),
        ] {
            let text = enveloped(&inner(declared, digits, highest, &[1, 10]));
            assert!(
                Histogram::decode(&text).is_err(),
                "{declared} {digits} {highest}"
            );
        }
    }

    #[test]
    fn bomb_is_not_inflated() {
        let text = enveloped(&vec![0; 64 << 20]);
        assert!(text.len() < 100_000);
        assert!(refusal(&text).contains("longer than any histogram"));
    }

    #[test]
    fn slots_and_counts_that_cannot_be_are_refused() {
        // Nine bytes of 0xff are the smallest number there is, whose negation overflows.
        assert!(refusal(&with_payload(&[0xff; 9])).contains("more slots"));
        // As many empty slots as there are, then one more that is not: zig-zag of -33,792 is 67,583.
        assert!(refusal(&with_payload(&[0xff, 0x8f, 0x04, 2])).contains("more slots"));
        let most = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(
            Histogram::decode(&with_payload(&most)).unwrap().count(),
            i64::MAX as u64
        );
        assert!(refusal(&with_payload(&[most, most].concat())).contains("more samples"));
    }

    proptest! {
        #[test]
        fn any_payload_gives_a_histogram_or_an_error(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(histogram) = Histogram::decode(&with_payload(&payload)) {
                prop_assert_eq!(Histogram::decode(&histogram.encode()).unwrap(), histogram);
            }
        }

        #[test]
        fn any_text_gives_a_histogram_or_an_error(text in "[A-Za-z0-9+/=]{0,80}") {
            let _: Result<Histogram, Error> = Histogram::decode(&text);
        }
    }

    use crate::Error;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn quantiles_are_those_of_the_sorted_values(
        mut values in prop::collection::vec(1_u64..10_000_000_000, 1..400),
        q in 0.0..1.0_f64,
    ) {
        let found = of(&values).value_at(q).unwrap();
        values.sort_unstable();
        let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
        let expected = values[rank - 1];
        prop_assert!(found >= expected && found as f64 <= expected as f64 * 1.001, "{found} {expected}");
    }

    #[test]
    fn merging_is_recording_into_one(
        a in prop::collection::vec(any::<u64>(), 0..60),
        b in prop::collection::vec(0_u64..5_000_000, 0..60),
    ) {
        let mut merged = of(&a);
        merged.merge(&of(&b));
        prop_assert_eq!(&merged, &of(&[a, b].concat()));
        prop_assert_eq!(&Histogram::decode(&merged.encode()).unwrap(), &merged);
    }

    #[test]
    fn figures_and_text_are_those_of_hdrhistogram(one in samples(), other in samples()) {
        let (mut own, mut hdr) = (of_many(&one), hdr_of(&one));
        refuse_other_figures(&own, &hdr)?;
        prop_assert_eq!(own.encode(), written_by_the_crate(&hdr));
        let (more, more_hdr) = (of_many(&other), hdr_of(&other));
        own.merge(&more);
        hdr.add(&more_hdr).unwrap();
        refuse_other_figures(&own, &hdr)?;
        let text = written_by_the_crate(&hdr);
        prop_assert_eq!(&own.encode(), &text);
        prop_assert_eq!(&Histogram::decode(&text).unwrap(), &own);
        let bytes = STANDARD.decode(own.encode()).unwrap();
        let read: Hdr<u64> = hdrhistogram::serialization::Deserializer::new()
            .deserialize(&mut &bytes[..])
            .unwrap();
        prop_assert!(read == hdr);
        own.reset();
        prop_assert_eq!(&own, &Histogram::new());
        own.merge(&more);
        prop_assert_eq!(own, more);
    }
}

/// The formula that drivers in other languages use, on values around every border.
#[test]
fn slots_of_other_programs_are_those_of_the_histogram() {
    let slot = |ns: u64| {
        let shift = (64 - ns.leading_zeros()).saturating_sub(11);
        1_024 * u64::from(shift) + (ns >> shift)
    };
    let mut own = Histogram::new();
    let mut slots = Vec::new();
    for bits in 0..42 {
        for ns in [1_u64 << bits, (1 << bits) + 1, (2 << bits) - 1] {
            own.record_n(ns.min(MAX_NS), 3);
            slots.push((slot(ns.min(MAX_NS)), 3));
        }
    }
    assert_eq!(Histogram::of_slots(&slots).unwrap().encode(), own.encode());
    assert!(Histogram::of_slots(&[(slot(MAX_NS) + 1, 1)]).is_err());
    assert!(Histogram::of_slots(&[(u64::MAX, 1)]).is_err());
    assert!(Histogram::of_slots(&[(0, u64::MAX), (1, 1)]).is_err());
}
