//! The line of a driver's standard error that says why it ended. Runtimes print the stack before or after it.

/// The most telling line of `text`; `None` if it is empty.
pub(super) fn cause_in(text: &str) -> Option<&str> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.trim().is_empty())
        .collect();
    innermost(&lines)
        .or_else(|| panicked(&lines))
        .or_else(|| beside_stack(&lines))
        .or(lines.last().copied())
        .map(str::trim)
}

/// The innermost cause that Java and anyhow name.
fn innermost<'t>(lines: &[&'t str]) -> Option<&'t str> {
    let place = lines
        .iter()
        .rposition(|line| line.starts_with("Caused by:"))?;
    let (_, cause) = lines[place].split_once(':')?;
    if !cause.trim().is_empty() {
        return Some(cause);
    }
    let listed = lines[place + 1..]
        .iter()
        .take_while(|line| line.starts_with(' ') && !is_frame(line));
    let cause = listed.last()?.trim();
    let number = cause
        .split_once(": ")
        .filter(|(number, _)| number.parse::<u8>().is_ok());
    Some(number.map_or(cause, |(_, cause)| cause))
}

/// The message of a panic in Go or Rust.
fn panicked<'t>(lines: &[&'t str]) -> Option<&'t str> {
    let go = |line: &&&str| line.starts_with("panic: ") || line.starts_with("fatal error: ");
    if let Some(line) = lines.iter().find(go) {
        return Some(line);
    }
    let rust = lines
        .iter()
        .position(|line| line.starts_with("thread '") && line.contains("panicked at"))?;
    lines.get(rust + 1).copied()
}

/// The last line at the margin before a stack, or behind one that has none before it.
fn beside_stack<'t>(lines: &[&'t str]) -> Option<&'t str> {
    let first = lines.iter().position(|line| is_frame(line))?;
    let is_message =
        |line: &&&str| !line.starts_with([' ', '\t']) && !is_heading(line) && !is_frame(line);
    let before = lines[..first].iter().rfind(is_message);
    before
        .or_else(|| lines[first..].iter().rfind(is_message))
        .copied()
}

/// Whether a line is a frame of a stack.
fn is_frame(line: &str) -> bool {
    let frame = line.trim_start();
    let is_indented = frame.len() < line.len();
    let is_numbered = frame
        .strip_prefix('#')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let starts = ["at ", "from ", "File \""];
    is_numbered || is_indented && starts.iter().any(|start| frame.starts_with(start))
}

/// Whether a line announces a stack, or ends the output of a runtime.
fn is_heading(line: &str) -> bool {
    let starts = ["Traceback (", "Stack trace:", "Node.js v", "note: run with"];
    starts.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_is_found_beside_the_stack_of_every_runtime() {
        for (text, cause) in [
            ("", ""),
            ("warning: slow\nno memory\n\n", "no memory"),
            (
                "Exception in thread \"main\" java.lang.IllegalStateException: wrapped\n\tat Driver.main(Driver.java:12)\nCaused by: java.net.ConnectException: Connection refused\n\tat java.base/sun.nio.ch.Net.connect(Net.java:1)\n\t... 3 more\n",
                "java.net.ConnectException: Connection refused",
            ),
            (
                "Exception in thread \"main\" redis.JedisException: no pong\n\tat Driver.main(Driver.java:12)\n",
                "Exception in thread \"main\" redis.JedisException: no pong",
            ),
            (
                "harness.rb:3:in `connect': Connection refused (Redis::CannotConnectError)\n\tfrom harness.rb:9:in `open'\n\tfrom redis-rb.rb:48:in `<main>'\n",
                "harness.rb:3:in `connect': Connection refused (Redis::CannotConnectError)",
            ),
            (
                "Traceback (most recent call last):\n  File \"driver.py\", line 430, in <module>\n    main()\nModuleNotFoundError: No module named 'redis'\n",
                "ModuleNotFoundError: No module named 'redis'",
            ),
            (
                "node:internal/modules/cjs/loader:1080\n  throw err;\n  ^\n\nError: Cannot find module 'ioredis'\n    at Function._load (node:internal:1)\n    at main (driver.mjs:3)\n\nNode.js v18.19.0\n",
                "Error: Cannot find module 'ioredis'",
            ),
            (
                "panic: dial tcp: refused\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:12 +0x1\nexit status 2\n",
                "panic: dial tcp: refused",
            ),
            (
                "thread 'main' (7) panicked at src/main.rs:3:5:\nno route to the server\nstack backtrace:\n   0: std::panicking\n             at /rustc/x.rs:1\nnote: run with `RUST_BACKTRACE=full`\n",
                "no route to the server",
            ),
            (
                "Error: fred\n\nCaused by:\n    0: connect\n    1: Connection refused (os error 111)\n",
                "Connection refused (os error 111)",
            ),
            (
                "PHP Fatal error:  Uncaught RedisException: Connection refused in /d/driver.php:9\nStack trace:\n#0 /d/driver.php(9): Redis->connect()\n#1 {main}\n  thrown in /d/driver.php on line 9\n",
                "PHP Fatal error:  Uncaught RedisException: Connection refused in /d/driver.php:9",
            ),
        ] {
            assert_eq!(cause_in(text).unwrap_or_default(), cause, "{text}");
        }
    }
}
