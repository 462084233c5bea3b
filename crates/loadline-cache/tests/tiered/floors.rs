//! The example of the game server, over a restart.

use loadline_cache::Found;

#[path = "../../examples/floors.rs"]
#[expect(dead_code, reason = "an example has a main function of its own")]
mod example;

#[test]
fn floors_survive_a_restart_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("store:{}", dir.path().display());
    let floor = example::generate(7);
    assert!(floor == example::generate(7) && floor != example::generate(8));
    let cache = example::floors(&url).unwrap();
    assert_eq!(*cache.get(&7).unwrap().unwrap(), floor);
    drop(cache);
    // Its thread may hold the directory a moment longer, and so may a process that another test is starting.
    let mut again = None;
    super::wait_until("the directory stays locked", || {
        again = example::floors(&url).ok();
        again.is_some()
    });
    let cache = again.unwrap();
    let (again, way) = cache.explain(&7);
    assert_eq!(*again.unwrap().unwrap(), floor);
    assert_eq!(way.steps[1].found, Found::InTier, "{way}");
}
