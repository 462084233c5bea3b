//! Helpers of several fuzz targets.

use loadline_measure::gate::Judgement;
use loadline_report::{Asked, TextOptions, judgement_junit, judgement_markdown, judgement_text};
use loadline_resp::Limits;

/// Limits so small that short inputs run into every one of them.
pub const TIGHT: Limits = Limits {
    max_depth: 4,
    max_line_bytes: 64,
    max_bulk_bytes: 256,
    max_aggregate_len: 16,
    max_reply_bytes: 4_096,
};

/// Text for a pipe.
pub const PLAIN: TextOptions = TextOptions {
    width: 80,
    color: false,
    unicode: false,
    verbose: true,
};

/// Text for a narrow terminal that can do everything.
pub const RICH: TextOptions = TextOptions {
    width: 40,
    color: true,
    unicode: true,
    verbose: true,
};

/// Shows a judgement in every form.
///
/// # Panics
/// Where what was judged speaks to the terminal.
pub fn show(judgement: &Judgement) {
    let asked = Asked {
        command: "gate",
        strict: true,
    };
    let plain = judgement_text(judgement, &[], asked, &PLAIN);
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let forms = [
        judgement_text(judgement, &[], asked, &RICH),
        judgement_markdown(judgement, asked),
        judgement_junit(judgement, asked),
    ];
    assert!(forms.iter().all(|form| !form.is_empty()));
}
