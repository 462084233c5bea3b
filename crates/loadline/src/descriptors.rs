//! The limit of open files, which is the limit of connections.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::exit::Failure;

/// Descriptors that a run needs in addition to its connections: files, pipes, one poll per thread.
const OTHERS: u64 = 64;

/// Makes room for `connections` at a time, as far as this process may do that by itself.
///
/// # Errors
/// A usage error where the hard limit of this process is lower.
pub(crate) fn make_room(connections: u64) -> Result<(), Failure> {
    let wanted = connections.saturating_add(OTHERS);
    let mut limit = getrlimit(Resource::Nofile);
    // No limit is the highest.
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if let Some(most) = limit.maximum
        && most < wanted
    {
        return Err(Failure::usage(format!(
            "{connections} connections need {wanted} open files, and this process may have {most}.\n\
             Ask for fewer connections, or raise the limit (`ulimit -Hn`)."
        )));
    }
    limit.current = Some(wanted);
    setrlimit(Resource::Nofile, limit).map_err(|error| {
        Failure::unavailable(format!(
            "The limit of open files could not be raised to {wanted}: {error}."
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_up_to_the_hard_limit() {
        let before = getrlimit(Resource::Nofile);
        make_room(1).unwrap();
        assert_eq!(getrlimit(Resource::Nofile), before);
        if let Some(most) = before.maximum {
            make_room(most - OTHERS).unwrap();
            assert_eq!(getrlimit(Resource::Nofile).current, Some(most));
            assert!(make_room(most).unwrap_err().to_string().contains("ulimit"));
        }
    }
}
