//! The example of a cluster.

use loadline_client::commands::mget;

use crate::nodes::{runtime, shared};

#[path = "../../examples/cluster.rs"]
#[expect(dead_code, reason = "an example has a main function of its own")]
mod cluster;

#[test]
fn cluster_writes_its_keys() {
    let servers = shared();
    let port = servers.masters()[1].port;
    runtime()
        .block_on(cluster::run(&format!("cluster://127.0.0.1:{port}")))
        .unwrap();
    let mut cluster = servers.builder().open_blocking().unwrap();
    let keys = [
        "example:one",
        "example:two",
        "example:three",
        "example:four",
    ];
    let values: Vec<i64> = cluster.run(mget(keys)).unwrap();
    assert_eq!(values, [1, 2, 3, 4]);
    let ann = ["{example:ann}:name", "{example:ann}:visits"];
    let ann: Vec<String> = cluster.run(mget(ann)).unwrap();
    assert_eq!(ann, ["Ann", "1"]);
}
