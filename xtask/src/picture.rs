//! `cargo xtask picture RECORD`: the picture of the README, drawn from a record.

use std::path::Path;
use std::process::Command;

use anstyle_svg::Term;
use anyhow::{Context, bail};

use crate::{cargo, say};

/// The light and the dark picture, as the README refers to them.
const PICTURES: [(&str, Scheme); 2] = [
    (
        "docs/images/report-light.svg",
        Scheme {
            text: (0x1f, 0x23, 0x28),
            background: (0xff, 0xff, 0xff),
        },
    ),
    (
        "docs/images/report-dark.svg",
        Scheme {
            text: (0xe6, 0xed, 0xf3),
            background: (0x0d, 0x11, 0x17),
        },
    ),
];

/// The section of a report at which the picture ends: what comes before it is what a reader looks at first.
const END: &str = "Doctor: what makes these figures unreliable";

/// Columns of the drawn terminal.
const COLUMNS: &str = "88";

/// Colours of a terminal, as red, green and blue.
struct Scheme {
    text: (u8, u8, u8),
    background: (u8, u8, u8),
}

/// Shows the record at `path` as `loadline report` does, and writes what a terminal would show as SVG, once
/// per colour scheme.
///
/// # Errors
/// If the report fails or a picture cannot be written.
pub(crate) fn draw(path: &str) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let report = Command::new(cargo())
        .args(["run", "--quiet", "--release", "--package", "loadline", "--"])
        .args(["report", path, "--color", "always"])
        .env("COLUMNS", COLUMNS)
        .env_remove("NO_COLOR")
        .output()
        .context("`loadline report` could not be started")?;
    if !report.status.success() {
        let message = String::from_utf8_lossy(&report.stderr);
        bail!("`loadline report {path}` failed: {}", message.trim_end());
    }
    let text = String::from_utf8(report.stdout).context("the report is not UTF-8")?;
    let lines = text.lines().take_while(|line| !line.contains(END));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    for (file, scheme) in &PICTURES {
        let file = root.join(file);
        let directory = file.parent().context("a picture has a directory")?;
        std::fs::create_dir_all(directory)
            .and_then(|()| std::fs::write(&file, scheme.render(&text)))
            .with_context(|| format!("{} could not be written", file.display()))?;
        say(&format!("xtask: wrote {}", file.display()));
    }
    Ok(())
}

impl Scheme {
    /// `text` with its ANSI colours as an SVG document.
    fn render(&self, text: &str) -> String {
        let color = |(red, green, blue)| anstyle::RgbColor(red, green, blue).into();
        Term::new()
            .fg_color(color(self.text))
            .bg_color(color(self.background))
            .render_svg(text.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_shows_the_text_in_the_colours_of_its_scheme() {
        let [(_, light), (_, dark)] = &PICTURES;
        let text = "\u{1b}[1mget\u{1b}[0m 186.7k <ops>\n";
        let (light, dark) = (light.render(text), dark.render(text));
        assert!(light.contains("186.7k &lt;ops&gt;"), "{light}");
        assert!(
            light.contains("#FFFFFF") && !light.contains("#0D1117"),
            "{light}"
        );
        assert!(
            dark.contains("#0D1117") && !dark.contains("#FFFFFF"),
            "{dark}"
        );
        assert!(!light.contains('\u{1b}'));
    }
}
