//! Small pictures out of block characters.

/// Eight heights, from low to full.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The same without block characters.
const ASCII: [char; 8] = ['.', ':', '-', '=', '+', '*', '#', '@'];

/// A sparkline spans at least this share of its largest value, so that noise does not look like
/// mountains.
const LEAST_SPAN: f64 = 0.1;

/// Counts as heights; what is empty stays blank and what is not is always seen. Heights follow the
/// square root of the count, so that a thin tail does not vanish next to the bulk.
pub(crate) fn spectrum(counts: &[u64]) -> String {
    let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    counts
        .iter()
        .map(|count| {
            if *count == 0 {
                ' '
            } else {
                block((*count as f64 / most).sqrt())
            }
        })
        .collect()
}

/// Values as heights between the smallest and the largest, at most `width` of them; where there are
/// more, neighbours are shown by their mean.
pub(crate) fn sparkline(values: &[f64], width: usize) -> String {
    let finite: Vec<f64> = values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .collect();
    let size = finite.len().div_ceil(width.max(1)).max(1);
    let means: Vec<f64> = finite
        .chunks(size)
        .map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64)
        .collect();
    let most = means.iter().copied().fold(f64::MIN, f64::max);
    let least = means.iter().copied().fold(f64::MAX, f64::min);
    let span = (most - least)
        .max(LEAST_SPAN * most.abs())
        .max(f64::MIN_POSITIVE);
    means
        .iter()
        .map(|mean| block(1.0 - (most - mean) / span))
        .collect()
}

/// Shares of the full height; where there is none, it stays blank.
pub(crate) fn bars(shares: &[Option<f64>], unicode: bool) -> String {
    let signs = if unicode { &BLOCKS } else { &ASCII };
    let shares = shares.iter();
    shares
        .map(|share| share.map_or(' ', |share| signs[eighth(share)]))
        .collect()
}

/// A share of the full height as a block.
fn block(share: f64) -> char {
    BLOCKS[eighth(share)]
}

fn eighth(share: f64) -> usize {
    // A float outside of the range becomes its nearest end here.
    ((share * 8.0).ceil() as usize).clamp(1, 8) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spectrum_shows_every_sample() {
        assert_eq!(spectrum(&[0, 1, 250_000, 1_000_000, 0]), " ▁▄█ ");
        assert_eq!(spectrum(&[0, 0]), "  ");
        assert_eq!(spectrum(&[]), "");
    }

    #[test]
    fn bars_are_blank_only_where_there_is_no_value() {
        let shares = [Some(0.0), None, Some(0.5), Some(1.0), Some(f64::NAN)];
        assert_eq!(bars(&shares, true), "▁ ▄█▁");
        assert_eq!(bars(&shares, false), ". =@.");
    }

    #[test]
    fn sparkline_spans_its_values_but_does_not_blow_up_noise() {
        assert_eq!(sparkline(&[50.0, 75.0, 100.0], 10), "▁▄█");
        assert_eq!(sparkline(&[98.0, 100.0], 10), "▇█");
        assert_eq!(sparkline(&[100.0; 4], 10), "████");
    }

    #[test]
    fn sparkline_has_room_for_many_rounds_and_for_none() {
        assert_eq!(sparkline(&[10.0, 10.0, 100.0, 100.0, 10.0, 10.0], 3), "▁█▁");
        assert_eq!(sparkline(&[], 10), "");
        assert_eq!(sparkline(&[f64::NAN, f64::INFINITY, 1.0], 10), "█");
        assert_eq!(sparkline(&[0.0, 0.0], 10), "██");
    }
}
