//! The format of reports on this terminal: width, colour and pictures, from the terminal, the environment and the
//! flags.

use std::io::IsTerminal;

use loadline_report::TextOptions;

use crate::args::{ColorArg, DisplayArgs};

/// Default number of columns.
const DEFAULT_WIDTH: usize = 80;
/// Fewer columns than this are not believed.
const LEAST_WIDTH: usize = 40;

/// Abilities of standard output and standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Printer {
    /// Appearance of the text report.
    pub(crate) width: usize,
    pub(crate) color: bool,
    pub(crate) unicode: bool,
    pub(crate) verbose: bool,
    /// Whether neither progress nor a table is wanted.
    pub(crate) quiet: bool,
    /// Whether standard error can show a line that changes.
    pub(crate) live: bool,
}

/// The facts that the format depends on.
#[derive(Debug, Clone, Default)]
struct Surroundings {
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    columns: Option<usize>,
    no_color: bool,
    dumb: bool,
    utf8: bool,
}

impl Printer {
    /// The same, without progress and tables.
    pub(crate) fn quietly(&self) -> Self {
        Self {
            quiet: true,
            ..self.clone()
        }
    }

    /// Examines the terminal and the environment.
    pub(crate) fn new(args: &DisplayArgs) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        // POSIX: the first of these that is set decides.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| variable(name))
            .unwrap_or_default()
            .to_ascii_lowercase();
        let from_terminal = rustix::termios::tcgetwinsize(std::io::stdout())
            .ok()
            .map(|size| usize::from(size.ws_col));
        let from_variable = || variable("COLUMNS")?.parse().ok();
        Self::decide(
            args,
            &Surroundings {
                stdout_is_terminal: std::io::stdout().is_terminal(),
                stderr_is_terminal: std::io::stderr().is_terminal(),
                columns: from_terminal
                    .filter(|columns| *columns > 0)
                    .or_else(from_variable),
                no_color: variable("NO_COLOR").is_some(),
                dumb: variable("TERM").is_none_or(|term| term == "dumb"),
                utf8: locale.contains("utf-8") || locale.contains("utf8"),
            },
        )
    }

    /// Options of the text report.
    pub(crate) fn text_options(&self) -> TextOptions {
        TextOptions {
            width: self.width,
            color: self.color,
            unicode: self.unicode,
            verbose: self.verbose,
        }
    }

    fn decide(args: &DisplayArgs, around: &Surroundings) -> Self {
        let able = around.stdout_is_terminal && !around.dumb;
        Self {
            width: around.columns.unwrap_or(DEFAULT_WIDTH).max(LEAST_WIDTH),
            color: match args.color {
                ColorArg::Always => true,
                ColorArg::Never => false,
                ColorArg::Auto => able && !around.no_color,
            },
            unicode: able && around.utf8,
            // The output of a pipe is read later, by a reader who cannot ask for more.
            verbose: args.verbose || !around.stdout_is_terminal,
            quiet: args.quiet,
            live: around.stderr_is_terminal && !around.dumb && !args.quiet,
        }
    }
}

/// Text of another program without what could steer a terminal; line breaks stay.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() && c != '\n' { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(color: ColorArg, around: &Surroundings) -> Printer {
        Printer::decide(
            &DisplayArgs {
                quiet: false,
                verbose: false,
                color,
            },
            around,
        )
    }

    #[test]
    fn terminal_gets_all_and_a_pipe_gets_plain_text() {
        let terminal = Surroundings {
            stdout_is_terminal: true,
            stderr_is_terminal: true,
            columns: Some(120),
            utf8: true,
            ..Surroundings::default()
        };
        let printer = decide(ColorArg::Auto, &terminal);
        assert_eq!(
            (printer.width, printer.color, printer.unicode, printer.live),
            (120, true, true, true)
        );
        let printer = decide(
            ColorArg::Auto,
            &Surroundings {
                utf8: true,
                ..Surroundings::default()
            },
        );
        assert_eq!(
            (printer.width, printer.color, printer.unicode, printer.live),
            (80, false, false, false)
        );
        assert!(
            !decide(
                ColorArg::Auto,
                &Surroundings {
                    no_color: true,
                    ..terminal.clone()
                }
            )
            .color
        );
        assert!(!decide(ColorArg::Never, &terminal).color);
        assert!(decide(ColorArg::Always, &Surroundings::default()).color);
        let dumb = decide(
            ColorArg::Auto,
            &Surroundings {
                dumb: true,
                ..terminal.clone()
            },
        );
        assert!(!dumb.color && !dumb.unicode && !dumb.live);
        assert!(
            !decide(
                ColorArg::Auto,
                &Surroundings {
                    utf8: false,
                    ..terminal
                }
            )
            .unicode
        );
    }

    #[test]
    fn escapes_of_other_programs_are_defused() {
        assert_eq!(printable("a\x1b[31mb\nc"), "a?[31mb\nc");
    }
}
