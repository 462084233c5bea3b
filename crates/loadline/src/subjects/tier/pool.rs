//! The objects that operations take turns with, and their encoded forms.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::exit::Failure;
use crate::object::{Floor, Format, Object};
use crate::plan::Source;

/// The most bytes that a command may write as its object.
const LARGEST_OUTPUT_BYTES: usize = 256 << 20;

/// Time by which a sleep ends before a given cost.
const AWAKE: Duration = Duration::from_micros(200);

/// Objects by number.
#[derive(Debug)]
pub(crate) struct Pool {
    source: Source,
    seed: u64,
    objects: Vec<Arc<Object>>,
}

impl Pool {
    /// Makes `count` objects.
    ///
    /// # Errors
    /// A bad file for one that cannot be read, and what is wrong with a command.
    pub(crate) fn make(source: &Source, count: u64, seed: u64) -> Result<Self, Failure> {
        let mut pool = Self {
            source: source.clone(),
            seed,
            objects: Vec::new(),
        };
        for number in 0..count as usize {
            let object = pool.recompute(number).map_err(|why| match source {
                Source::File { .. } => Failure::bad_file(why),
                Source::Floor { .. } | Source::Command(_) => Failure::unavailable(why),
            })?;
            pool.objects.push(Arc::new(object));
        }
        Ok(pool)
    }

    /// Makes the object with this number anew.
    ///
    /// # Errors
    /// The reason why there is none, in a sentence.
    pub(crate) fn recompute(&self, number: usize) -> Result<Object, String> {
        match &self.source {
            Source::Floor { width, height } => {
                let seed = self.seed.wrapping_add(number as u64);
                Ok(Object::Floor(Floor::generate(*width, *height, seed)))
            }
            Source::File { path, .. } => std::fs::read(path)
                .map(Object::Bytes)
                .map_err(|error| format!("--object-file {}: {error}.", path.display())),
            Source::Command(command) => output(command).map(Object::Bytes),
        }
    }

    /// Makes the object as the application does: one whose cost is given takes that long.
    ///
    /// # Errors
    /// The reason why there is none, in a sentence.
    pub(crate) fn load(&self, number: usize) -> Result<Object, String> {
        let Source::File { cost, .. } = self.source else {
            return self.recompute(number);
        };
        let end = Instant::now() + cost;
        // A sleep ends late, so the last part is spent awake.
        std::thread::sleep(cost.saturating_sub(AWAKE));
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        Ok(Object::clone(&self.objects[0]))
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn object(&self, number: usize) -> &Arc<Object> {
        &self.objects[number]
    }

    /// The mean size of an encoded object.
    ///
    /// # Errors
    /// The error of the codec.
    pub(crate) fn mean_bytes(&self, format: Format) -> Result<usize, Failure> {
        let encoded = self.encoded(format)?;
        Ok(encoded.iter().map(Vec::len).sum::<usize>() / encoded.len().max(1))
    }

    /// All objects, encoded.
    ///
    /// # Errors
    /// The error of the codec.
    pub(crate) fn encoded(&self, format: Format) -> Result<Vec<Vec<u8>>, Failure> {
        let encoded = self.objects.iter().map(|object| {
            let mut bytes = Vec::new();
            format.encode(object, &mut bytes)?;
            Ok(bytes)
        });
        encoded
            .collect::<Result<_, String>>()
            .map_err(|why| Failure::unavailable(format!("{format}: {why}.")))
    }
}

/// The standard output of a shell command.
fn output(command: &str) -> Result<Vec<u8>, String> {
    let ran = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let output = ran.map_err(|error| format!("--load-command: {error}."))?;
    if !output.status.success() {
        return Err(format!("--load-command `{command}`: {}.", output.status));
    }
    match output.stdout.len() {
        0 => Err(format!(
            "--load-command `{command}`: it wrote nothing to standard output."
        )),
        bytes if bytes > LARGEST_OUTPUT_BYTES => Err(format!(
            "--load-command `{command}`: it wrote {bytes} bytes; an object has at most 256 MiB."
        )),
        _ => Ok(output.stdout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_its_output_and_its_failure_is_said() {
        let of = |command: &str| Pool::make(&Source::Command(command.into()), 1, 0);
        let pool = of("printf abc").unwrap();
        assert_eq!(**pool.object(0), Object::Bytes(b"abc".to_vec()));
        let failed = of("exit 3").unwrap_err().to_string();
        assert!(failed.contains("exit status: 3"), "{failed}");
        let empty = of("true").unwrap_err().to_string();
        assert!(empty.contains("wrote nothing"), "{empty}");
    }
}
