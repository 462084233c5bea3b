//! The state of a folder with drivers when it was installed, so that only a change leads to another installation.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::Context;

/// The file with the digest of what the folder held when its installation had succeeded.
const INSTALLED: &str = ".installed";
/// Directories that installations make.
const MADE: [&str; 5] = ["node_modules", "target", "vendor", "bin", "__pycache__"];

/// Notes that the folder is installed as it is.
///
/// # Errors
/// If a file of the folder cannot be read, or the note cannot be written.
pub(super) fn note(folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(INSTALLED);
    fs::write(&path, digest(folder)?).with_context(|| path.display().to_string())
}

/// Whether the folder is as it was when it was installed.
///
/// # Errors
/// If a file of the folder cannot be read.
pub(super) fn is_current(folder: &Path) -> anyhow::Result<bool> {
    let Ok(noted) = fs::read_to_string(folder.join(INSTALLED)) else {
        return Ok(false);
    };
    Ok(noted == digest(folder)?)
}

/// A digest of all files of the folder that no installation makes.
fn digest(folder: &Path) -> anyhow::Result<String> {
    let mut hasher = DefaultHasher::new();
    add(folder, &mut hasher)?;
    Ok(format!("{:016x}\n", hasher.finish()))
}

fn add(directory: &Path, hasher: &mut DefaultHasher) -> anyhow::Result<()> {
    let shown = || directory.display().to_string();
    let entries = fs::read_dir(directory).with_context(shown)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().with_context(shown)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        if name.starts_with('.') || MADE.contains(&&*name) {
            continue;
        }
        name.hash(hasher);
        if path.is_dir() {
            add(&path, hasher)?;
        } else {
            let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
            bytes.hash(hasher);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_file_makes_an_installation_outdated_and_what_it_makes_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        fs::create_dir(folder.join("src")).unwrap();
        fs::write(folder.join("src/driver.rb"), "1").unwrap();
        assert!(!is_current(folder).unwrap());
        note(folder).unwrap();
        fs::create_dir(folder.join("node_modules")).unwrap();
        fs::write(folder.join("node_modules/made"), "2").unwrap();
        assert!(is_current(folder).unwrap());
        fs::write(folder.join("src/driver.rb"), "2").unwrap();
        assert!(!is_current(folder).unwrap());
        fs::write(folder.join("src/driver.rb"), "1").unwrap();
        assert!(is_current(folder).unwrap());
        fs::write(folder.join("lock"), "").unwrap();
        assert!(!is_current(folder).unwrap());
    }
}
