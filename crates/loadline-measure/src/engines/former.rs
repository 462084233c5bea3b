//! Records of former versions, in which only names distinguish our store and servers on Unix sockets.

use super::{Engines, Operation};
use crate::record::{Case, SubjectKind};

impl Engines {
    /// Finds the operations and kinds that a former version did not write.
    pub(crate) fn complete(&mut self, cases: &mut [Case]) {
        if self.operations.is_empty() {
            self.operations = Operation::of_cases(cases);
        }
        for subject in cases.iter_mut().map(|case| &mut case.subject) {
            let is_on_socket = ["redis-unix", "spawn-unix:"]
                .iter()
                .any(|name| subject.name.starts_with(name));
            subject.kind = match &subject.kind {
                SubjectKind::Engine if subject.name == "store" => SubjectKind::Store,
                SubjectKind::SpawnedServer if is_on_socket => SubjectKind::SpawnedOnSocket,
                _ => continue,
            };
        }
    }
}
