//! Kernels and sandboxes that refuse what newer ones have.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::util::{Dir, Serving};

/// The number of `epoll_pwait2`, the same on all architectures. Linux has had it since 5.11.
const EPOLL_PWAIT2: i64 = 441;
/// "Function not implemented".
const ENOSYS: u32 = 38;

/// Runs `test` on a thread for which, and for whose children, the kernel does not know `epoll_pwait2`.
fn on_an_old_kernel(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        let refused = BTreeMap::from([(EPOLL_PWAIT2, Vec::new())]);
        let filter = SeccompFilter::new(
            refused,
            SeccompAction::Allow,
            SeccompAction::Errno(ENOSYS),
            std::env::consts::ARCH.try_into().unwrap(),
        );
        let program: BpfProgram = filter.unwrap().try_into().unwrap();
        seccompiler::apply_filter(&program).unwrap();
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn server_runs_on_an_old_kernel() {
    on_an_old_kernel(|| {
        let serving = Serving::start(&Dir::new(), &[]);
        serving.answers("PING\r\n", "+PONG\r\n");
        serving.answers("SET k v\r\nGET k\r\n", "+OK\r\n$1\r\nv\r\n");
    });
}

/// Both loops: a closed one, and an open one, which sleeps between the starts of its operations.
#[test]
fn measurement_runs_on_an_old_kernel() {
    on_an_old_kernel(|| {
        let dir = Dir::new();
        let common = [
            "run",
            "embedded",
            "--rounds",
            "1",
            "--connections",
            "4",
            "--json",
            "record.json",
        ];
        for pacing in [
            &["--ops", "2000"][..],
            &["--rate", "1000", "--duration", "1s"],
        ] {
            dir.run(&[&common, pacing].concat()).succeeded();
            assert!(dir.read("record.json").contains("\"ops\""));
        }
    });
}
