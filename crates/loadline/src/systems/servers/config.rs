//! The configuration file of a server that is started for a run.

use std::fmt::Write;
use std::path::Path;

use ring::digest::{Context, SHA256};

use crate::exit::Failure;
use crate::files::read_bounded;
use crate::spelling::is_left_out;

/// Largest configuration file to read, in bytes; the one that comes with Redis has about a hundred kilobytes.
const LARGEST_BYTES: u64 = 1 << 20;

/// Reads `file` without the settings that would harm a second server on the same machine. Their lines become empty, so
/// that the server reports errors with the line numbers of the file.
///
/// # Errors
/// If the file cannot be read, is too large or includes another file.
pub(super) fn read(name: &str, file: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = read_bounded(file, LARGEST_BYTES)
        .map_err(|failure| Failure::bad_file(format!("{name}: {failure}")))?;
    let mut kept = Vec::with_capacity(bytes.len());
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let setting = setting(line);
        if setting == "include" {
            return Err(Failure::bad_file(format!(
                "{name}: line {} includes another file, which is not followed.\nPut the settings into one file.",
                index + 1
            )));
        }
        if !is_left_out(&setting) {
            kept.extend_from_slice(line);
        }
        kept.push(b'\n');
    }
    Ok(kept)
}

/// The SHA-256 digest of the settings in `text`, in hexadecimal. Comments, empty lines and space around a line do not count.
pub(super) fn digest(text: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
        context.update(line);
        context.update(b"\n");
    }
    let digest = context.finish();
    digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The name of the setting in `line`, in lower case and without quotes.
fn setting(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let word = text.split_ascii_whitespace().next().unwrap_or_default();
    word.trim_matches(['"', '\'']).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn read_text(text: &str) -> Result<String, Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read("spawn:x", file.path()).map(|kept| String::from_utf8(kept).unwrap())
    }

    #[test]
    fn place_and_logins_are_dropped_and_lines_keep_their_numbers() {
        let text = "# a comment\nPort 6379\n \"requirepass\" hunter2\nuser ann on >pw\ntls-port 1\n\
                    cluster-enabled yes\nreplicaof db 6379\nappendonly yes\nmaxmemory 1gb";
        let kept = read_text(text).unwrap();
        assert_eq!(
            kept,
            "# a comment\n\n\n\n\n\n\nappendonly yes\nmaxmemory 1gb\n"
        );
    }

    #[test]
    fn digest_depends_on_settings_only() {
        let one = digest(b"# a comment\n\nmaxmemory 1gb\n appendonly yes\n");
        assert_eq!(one, digest(b"maxmemory 1gb\nappendonly yes"));
        assert_ne!(one, digest(b"maxmemory 2gb\nappendonly yes"));
        // `printf 'maxmemory 1gb\nappendonly yes\n' | sha256sum`
        assert_eq!(
            one,
            "635ea362fd76dee1bb64bcae0f39b9b6f15487553c31fa60f3d2e69d76c77b95"
        );
    }

    #[test]
    fn included_large_and_missing_files_are_refused() {
        let included = read_text("save \"\"\ninclude /etc/other.conf\n").unwrap_err();
        assert!(included.to_string().contains("line 2"), "{included}");
        let large = read_text(&"#".repeat(LARGEST_BYTES as usize + 1)).unwrap_err();
        let missing = read("spawn:x", Path::new("/no/such/file")).unwrap_err();
        for failure in [included, large, missing] {
            assert_eq!(failure.exit(), Exit::BadFile, "{failure}");
        }
    }
}
