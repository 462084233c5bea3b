//! Lines of text that fit a width and may be coloured.

use super::TextOptions;
use crate::clean::columns;

/// Appearance of a piece of text on terminals with colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Red,
    Yellow,
    Green,
}

/// Holds words together while lines are broken, and is written as a blank.
const GLUE: &str = "\u{a0}";

/// The report as far as it is written.
pub(super) struct Page {
    text: String,
    width: usize,
    color: bool,
}

impl Page {
    pub(super) fn new(options: &TextOptions) -> Self {
        Self {
            text: String::new(),
            width: options.width.max(20),
            color: options.color,
        }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// A line as it is, but for blanks at its end.
    pub(super) fn line(&mut self, style: Style, line: &str) {
        self.piece(style, line.replace(GLUE, " ").trim_end());
        self.text.push('\n');
    }

    /// A line of pieces that look different.
    pub(super) fn styled(&mut self, pieces: &[(Style, String)]) {
        for (style, piece) in pieces {
            self.piece(*style, piece);
        }
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
    }

    /// A paragraph, broken between words; the first line starts with `first` and the others with
    /// `next`. A word longer than a line is broken where the line ends.
    pub(super) fn wrapped(&mut self, style: Style, first: &str, next: &str, paragraph: &str) {
        let mut line = first.to_owned();
        let mut empty = true;
        for word in paragraph.split(' ').filter(|word| !word.is_empty()) {
            let needed = columns(&line) + usize::from(!empty) + columns(word);
            if needed > self.width && !empty {
                self.line(style, &line);
                line = next.to_owned();
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            empty = false;
            for c in word.chars() {
                if columns(&line) >= self.width {
                    self.line(style, &line);
                    line = next.to_owned();
                }
                line.push(c);
            }
        }
        self.line(style, &line);
    }

    /// A phrase that a paragraph does not break.
    pub(super) fn unbroken(phrase: &str) -> String {
        phrase.replace(' ', GLUE)
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn piece(&mut self, style: Style, piece: &str) {
        let code = match style {
            Style::Plain => None,
            Style::Bold => Some("1"),
            Style::Dim => Some("2"),
            Style::Red => Some("31"),
            Style::Yellow => Some("33"),
            Style::Green => Some("32"),
        };
        match code.filter(|_| self.color && !piece.is_empty()) {
            Some(code) => {
                self.text.push_str(&format!("\x1b[{code}m{piece}\x1b[0m"));
            }
            None => self.text.push_str(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(width: usize, paragraph: &str) -> String {
        let mut page = Page::new(&TextOptions {
            width,
            color: false,
            unicode: false,
            verbose: true,
        });
        page.wrapped(Style::Plain, "> ", "  ", paragraph);
        page.into_text()
    }

    #[test]
    fn paragraphs_break_between_words() {
        assert_eq!(
            wrapped(20, "one two three four five six"),
            "> one two three four\n  five six\n"
        );
        assert_eq!(wrapped(20, ""), ">\n");
    }

    #[test]
    fn values_and_units_stay_on_one_line() {
        let phrase = Page::unbroken("[0.97, 1.43]");
        assert_eq!(
            wrapped(20, &format!("a ratio of {phrase}")),
            "> a ratio of\n  [0.97, 1.43]\n"
        );
    }

    #[test]
    fn word_longer_than_a_line_is_broken() {
        let text = wrapped(20, &format!("a {} b", "x".repeat(40)));
        assert!(text.lines().all(|line| line.len() <= 20), "{text}");
        assert_eq!(text.matches('x').count(), 40);
    }
}
