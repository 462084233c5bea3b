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
            classes: [
                ("dimmed", "#59636e"),
                ("fg-green", "#116329"),
                ("fg-yellow", "#7d4e00"),
                ("fg-red", "#a40e26"),
            ],
        },
    ),
    (
        "docs/images/report-dark.svg",
        Scheme {
            text: (0xe6, 0xed, 0xf3),
            background: (0x0d, 0x11, 0x17),
            classes: [
                ("dimmed", "#9198a1"),
                ("fg-green", "#3fb950"),
                ("fg-yellow", "#d29922"),
                ("fg-red", "#ff7b72"),
            ],
        },
    ),
];

/// The section of a report at which the picture ends: the answer, the figures and one plot come before it.
const END: &str = "Side by side";
/// The most lines of a picture.
const MOST_LINES: usize = 15;
/// Columns of the drawn terminal.
const COLUMNS: u32 = 88;

/// Colours of a terminal, as red, green and blue.
struct Scheme {
    text: (u8, u8, u8),
    background: (u8, u8, u8),
    /// Colours of styles that would be too pale on the background.
    classes: [(&'static str, &'static str); 4],
}

/// Shows the record at `path` as `loadline report` does in a terminal, and writes the first lines as SVG, once
/// per colour scheme. The terminal is one of `script`, since plots of a line each are drawn only there.
///
/// # Errors
/// If the report fails, has too many lines before its comparison, or a picture cannot be written.
pub(crate) fn draw(path: &str) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cargo = cargo();
    let shell = format!(
        "stty cols {COLUMNS} && '{cargo}' run --quiet --release --package loadline -- report '{path}'"
    );
    let report = Command::new("script")
        .args(["--quiet", "--return", "--command", &shell, "/dev/null"])
        .env("TERM", "xterm-256color")
        .env("LC_ALL", "C.UTF-8")
        .env_remove("NO_COLOR")
        .output()
        .context("`script` of util-linux could not be started")?;
    if !report.status.success() {
        let message = String::from_utf8_lossy(&report.stdout);
        bail!("`loadline report {path}` failed: {}", message.trim_end());
    }
    let text = String::from_utf8(report.stdout).context("the report is not UTF-8")?;
    let lines = text.lines().take_while(|line| !line.contains(END));
    let lines: Vec<&str> = lines.collect();
    let text = lines.join("\n");
    let count = text.trim_end().lines().count();
    if count > MOST_LINES {
        bail!("{count} lines come before `{END}`; a picture has {MOST_LINES} at most");
    }
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
        let svg = Term::new()
            .fg_color(color(self.text))
            .bg_color(color(self.background))
            .render_svg(text.trim_end());
        let with_class = |line: &str| {
            let class = line.trim_start().split_once(" {").map(|(class, _)| class);
            let known = self.classes.iter();
            let mut known = known.filter(|(name, _)| class == Some(&format!(".{name}")));
            let line = known.next().map_or_else(
                || line.to_owned(),
                |(name, fill)| format!("    .{name} {{ fill: {fill} }}"),
            );
            line + "\n"
        };
        svg.lines().map(with_class).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_shows_the_text_in_the_colours_of_its_scheme() {
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

    /// The share of light that a colour reflects (WCAG 2).
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let value = u8::from_str_radix(&colour[at..at + 2], 16).unwrap();
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn text_of_every_colour_has_enough_contrast() {
        let text = "\u{1b}[2mdim\u{1b}[0m \u{1b}[31mred\u{1b}[0m \u{1b}[32mgreen\u{1b}[0m \u{1b}[33mwarn\u{1b}[0m\n";
        for (_, scheme) in &PICTURES {
            let svg = scheme.render(text);
            assert!(!svg.contains("opacity"), "{svg}");
            let fills: Vec<&str> = svg.split("fill: ").skip(1).map(|rest| &rest[..7]).collect();
            assert_eq!(fills.len(), 6, "{svg}");
            let (red, green, blue) = scheme.background;
            let ground = luminance(&format!("#{red:02x}{green:02x}{blue:02x}"));
            for fill in fills.into_iter().filter(|fill| luminance(fill) != ground) {
                let own = luminance(fill);
                let contrast = (own.max(ground) + 0.05) / (own.min(ground) + 0.05);
                assert!(contrast >= 4.5, "{fill}: {contrast:.2}");
            }
        }
    }
}
