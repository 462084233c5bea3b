//! A machine that is slower than when its baseline was saved.

use loadline_measure::gate::Baseline;
use loadline_measure::{Metric, Record};

use crate::util::Dir;
use crate::{alone, caught};

const SHORT: &str =
    "--workload get --keys 500 --ops 2k --warmup 20ms --rounds 3 --instructions off";

/// The slow machine is the real one, and the fast one that of the baseline: every time in the file is cut to a
/// hundredth, since the real one can have become much faster in between.
#[test]
fn machine_that_is_slower_than_its_baseline() {
    let _alone = alone();
    let dir = Dir::new();
    let words = [
        "baseline", "save", "b.json", "embedded", "--quiet", "--runs", "2",
    ];
    dir.run(
        &words
            .into_iter()
            .chain(SHORT.split(' '))
            .collect::<Vec<_>>(),
    )
    .succeeded();
    let mut baseline = Baseline::from_json(dir.read("b.json").as_bytes()).unwrap();
    for case in baseline
        .runs
        .iter_mut()
        .flat_map(|run| run.cases.values_mut())
    {
        *case.reference_ns_p50.as_mut().unwrap() /= 100.0;
        for metric in [Metric::ClientCpu, Metric::ServerCpu] {
            case.metrics.get_mut(&metric).unwrap().raw /= 100.0;
        }
    }
    dir.write("b.json", &baseline.to_json().unwrap());
    dir.run(&["gate", "b.json", "--quiet", "--json", "out.json"]);
    let record = Record::from_json(dir.read("out.json").as_bytes()).unwrap();
    caught("a slow machine", "LL036", &record.doctor);
}
