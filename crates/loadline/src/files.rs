//! Files: whole and atomic when written, of bounded size when read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use loadline_measure::gate::Baseline;
use loadline_measure::gate::classic::Classic;
use loadline_measure::record::Record;

use crate::exit::{Exit, Failure};
use crate::secret::{self, Secret};

/// The largest record that is read, in bytes. A record of a hundred cases has a few megabytes.
const LARGEST_RECORD_BYTES: u64 = 256 << 20;

/// The longest password file that is read, in bytes.
const LONGEST_PASSWORD_FILE_BYTES: u64 = 64 << 10;

/// The beginning of the names of files that are not complete yet.
const TEMPORARY: &str = ".loadline-";

/// Destination of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Output {
    /// To standard output, spelled `-`.
    Stdout,
    /// To a file, which is replaced as a whole.
    File(PathBuf),
}

impl From<PathBuf> for Output {
    fn from(path: PathBuf) -> Self {
        if path.as_os_str() == "-" {
            Self::Stdout
        } else {
            Self::File(path)
        }
    }
}

impl Output {
    /// Writes `text` there: a reader of the file sees the old text or the new, never a part.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        match self {
            Self::Stdout => print(text),
            Self::File(path) => replace(path, text.as_bytes())
                .map_err(plain)
                .map_err(|error| {
                    Failure::new(
                        Exit::BadFile,
                        format!("{} could not be written: {error}.", path.display()),
                    )
                }),
        }
    }

    /// Refuses a path that could not be written later, before any time is spent on measuring.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Self::File(path) = self else {
            return Ok(());
        };
        if path.is_dir() {
            return Err(Failure::usage(format!(
                "{} is a directory; name a file in it.",
                path.display()
            )));
        }
        let parent = parent_of(path);
        if !parent.is_dir() {
            return Err(Failure::usage(format!(
                "{} cannot be written: there is no directory {}.",
                path.display(),
                parent.display()
            )));
        }
        // A file is replaced by a new one in its directory; a pipe or a device is written itself.
        let tried = if path.exists() && !path.is_file() {
            rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(io::Error::from)
        } else {
            // Permissions do not say all: a file system can be full, or take no files at all.
            tempfile::Builder::new()
                .prefix(TEMPORARY)
                .tempfile_in(parent)
                .map(drop)
                .map_err(plain)
        };
        tried.map_err(|error| {
            Failure::usage(format!("{} cannot be written: {error}.", path.display()))
        })
    }

    /// Whether it is the file at `path`, however the two are spelled.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        matches!(self, Self::File(own) if place_of(own) == place_of(path))
    }

    /// Whether both go to the same place, however they are spelled.
    pub(crate) fn shares_place(&self, other: &Self) -> bool {
        match other {
            Self::Stdout => matches!(self, Self::Stdout),
            Self::File(path) => self.is_at(path),
        }
    }
}

/// Reports an event of a running server to its operator. A closed standard error does not matter to it.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(io::stderr(), "loadline: {text}.");
}

/// Writes `text` to standard output. A reader that has gone away is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(stdout_failed(&error)),
        _ => Ok(()),
    }
}

/// The failure to write to standard output.
pub(crate) fn stdout_failed(error: &io::Error) -> Failure {
    Failure::new(
        Exit::BadFile,
        format!("Standard output could not be written: {error}."),
    )
}

/// Writes an error message to standard error, without the passwords in it.
pub(crate) fn complain(message: &str) {
    write_error(&format!("loadline: {}", secret::redact(message)));
}

/// Writes a line to standard error. A reader that has gone away is no error.
pub(crate) fn write_error(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The record in `path`.
pub(crate) fn read_record(path: &Path) -> Result<Record, Failure> {
    if is_missing(path) {
        let path = path.display();
        return Err(Failure::bad_file(format!(
            "{path} could not be read: there is no such file.\nWrite a record with `loadline run TARGET --json {path}`, or check the path."
        )));
    }
    let bytes = read_bounded(path, LARGEST_RECORD_BYTES)?;
    Record::from_json(&bytes).map_err(|error| {
        let path = path.display();
        let hint = match Baseline::from_json(&bytes) {
            Ok(_) => format!(
                "\nIt is a baseline: `loadline baseline show {path}` prints it, and `loadline gate {path}` measures against it."
            ),
            Err(_) => String::new(),
        };
        Failure::bad_file(format!("{path}: {error}{hint}"))
    })
}

/// The baseline in `path`.
pub(crate) fn read_baseline(path: &Path) -> Result<Baseline, Failure> {
    let bytes = read_baseline_bytes(path)?;
    Baseline::from_json(&bytes)
        .map_err(|error| Failure::bad_file(format!("{}: {error}", path.display())))
}

/// Reference of a gate.
#[derive(Debug)]
pub(crate) enum GateReference {
    /// Runs of our own.
    Runs(Box<Baseline>),
    /// A file of numbers and thresholds.
    Numbers(Classic),
    /// A record of failovers, whose repetitions show how they vary.
    Failovers(Box<Record>),
}

/// The baseline in `path`, of either kind: ours names its schema.
pub(crate) fn read_kept(path: &Path) -> Result<GateReference, Failure> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: Option<serde::de::IgnoredAny>,
        metrics: Option<serde::de::IgnoredAny>,
        failover: Option<serde::de::IgnoredAny>,
    }
    let bytes = read_baseline_bytes(path)?;
    let wrong =
        |error: loadline_measure::Error| Failure::bad_file(format!("{}: {error}", path.display()));
    match serde_json::from_slice::<Head>(&bytes) {
        Ok(Head {
            schema: None,
            metrics: Some(_),
            ..
        }) => Classic::from_json(&bytes).map(GateReference::Numbers),
        Ok(Head {
            failover: Some(_), ..
        }) => Record::from_json(&bytes).map(|record| GateReference::Failovers(Box::new(record))),
        _ => Baseline::from_json(&bytes).map(|baseline| GateReference::Runs(Box::new(baseline))),
    }
    .map_err(wrong)
}

fn is_missing(path: &Path) -> bool {
    path.try_exists().is_ok_and(|exists| !exists)
}

/// The bytes of the baseline in `path`, with a word on where baselines come from if there is none.
fn read_baseline_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    if is_missing(path) {
        let path = path.display();
        if path.to_string().contains(':') {
            let path = crate::secret::redact_argument(&path.to_string());
            return Err(Failure::bad_file(format!(
                "{path} could not be read: there is no such file.\nName the file of a baseline; a TARGET comes after it, or is that of the baseline."
            )));
        }
        return Err(Failure::bad_file(format!(
            "{path} could not be read: there is no such file.\nSave a baseline with `loadline baseline save {path}`, or check the name."
        )));
    }
    read_bounded(path, LARGEST_RECORD_BYTES)
}

/// The password in `path`: the whole file without the line break at its end.
pub(crate) fn read_password(path: &Path) -> Result<Secret, Failure> {
    let bytes = read_bounded(path, LONGEST_PASSWORD_FILE_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::bad_file(format!(
            "{}: the password in it is not UTF-8.",
            path.display()
        ))
    })?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() {
        return Err(Failure::bad_file(format!(
            "{}: there is no password in it.",
            path.display()
        )));
    }
    Ok(Secret::new(password.to_owned()))
}

/// The bytes of `path`, refused above `most_bytes`.
pub(crate) fn read_bounded(path: &Path, most_bytes: u64) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: io::Error| {
        let path = path.display();
        Failure::bad_file(match error.kind() {
            io::ErrorKind::NotFound => {
                format!("{path} could not be read: there is no such file; check the path.")
            }
            _ => format!("{path} could not be read: {error}."),
        })
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(most_bytes + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > most_bytes {
        return Err(Failure::bad_file(format!(
            "{} is larger than the {most_bytes} bytes it may have.",
            path.display()
        )));
    }
    Ok(bytes)
}

/// The path of `program`: itself, or the first place on PATH that has it.
pub(crate) fn find_program(program: &Path) -> Option<PathBuf> {
    let runs = |path: &Path| {
        path.metadata()
            .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    if program.components().count() > 1 {
        return runs(program).then(|| program.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|candidate| runs(candidate))
}

/// Error of the operating system, without the name of a temporary file.
fn plain(error: io::Error) -> io::Error {
    error
        .raw_os_error()
        .map_or(error, io::Error::from_raw_os_error)
}

/// Writes a neighbour of `path` and renames it over `path`. What is not a regular file, such as
/// `/dev/stderr` or a named pipe, is written to instead.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.exists() && !path.is_file() {
        return File::options().write(true).open(path)?.write_all(bytes);
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY);
    // A temporary file is private by default; a report is as readable as any other new file.
    let mut file = builder
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .tempfile_in(parent_of(path))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// The directory of `path` without links and detours, and the name in it.
fn place_of(path: &Path) -> (PathBuf, Option<&std::ffi::OsStr>) {
    let parent = parent_of(path);
    let directory = parent.canonicalize();
    (
        directory.unwrap_or_else(|_| parent.to_owned()),
        path.file_name(),
    )
}

fn parent_of(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.json");
        for text in ["a longer first text", "second"] {
            Output::from(path.clone()).write(text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn outputs_that_cannot_be_are_found_before_measuring() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Output::from(dir.path().to_owned()).check().is_err());
        assert!(
            Output::from(dir.path().join("missing/out.json"))
                .check()
                .is_err()
        );
        assert!(Output::from(dir.path().join("out.json")).check().is_ok());
        assert_eq!(Output::from(PathBuf::from("-")), Output::Stdout);
    }

    #[test]
    fn place_is_the_same_however_it_is_spelled() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| Output::from(dir.path().join(name));
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        assert!(at("out.json").shares_place(&at("sub/../out.json")));
        assert!(at("out.json").is_at(&dir.path().join("./out.json")));
        assert!(!at("out.json").shares_place(&at("sub/out.json")));
        assert!(!at("out.json").shares_place(&Output::Stdout));
        assert!(Output::Stdout.shares_place(&Output::Stdout));
    }

    #[test]
    fn large_and_missing_files_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [b'x'; 11]).unwrap();
        assert_eq!(read_bounded(file.path(), 11).unwrap().len(), 11);
        assert_eq!(
            read_bounded(file.path(), 10).unwrap_err().exit(),
            Exit::BadFile
        );
        let missing = Path::new("/no/such/file");
        let bounded = read_bounded(missing, 10).unwrap_err();
        let record = read_record(missing).unwrap_err();
        assert!(bounded.to_string().ends_with("check the path."));
        assert!(
            record
                .to_string()
                .contains("`loadline run TARGET --json /no/such/file`")
        );
        for failure in [bounded, record] {
            assert_eq!(failure.exit(), Exit::BadFile);
        }
    }

    #[test]
    fn programs_are_found_on_path_or_where_they_are() {
        let found = find_program("sh".as_ref()).unwrap();
        assert!(found.is_absolute());
        assert_eq!(find_program(&found), Some(found));
        assert_eq!(find_program("no-such-program-here".as_ref()), None);
        assert_eq!(find_program("/no/such/program".as_ref()), None);
        // A file that is no program, and a directory.
        assert_eq!(find_program("/etc/passwd".as_ref()), None);
        assert_eq!(find_program("/".as_ref()), None);
    }

    #[test]
    fn password_file_is_read_without_its_line_break() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter2 \r\n").unwrap();
        assert_eq!(read_password(file.path()).unwrap().reveal(), "hunter2 ");
        std::fs::write(file.path(), "\n").unwrap();
        assert!(read_password(file.path()).is_err());
    }
}
