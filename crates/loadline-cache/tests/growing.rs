//! The same operations on a store in memory, in a directory, on two servers and on a cluster of three masters and three
//! replicas.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends with the error that it did not expect"
)]

use std::net::{Ipv4Addr, TcpStream};
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loadline_cache::{
    AsyncKeyValue, Batch, Error, KeyValue, Leased, LeasedWrite, open, open_async,
};
use loadline_client::cluster::slot_of;
use loadline_server::{Listen, Server, ServerConfig};

#[path = "../../loadline-client/tests/cluster/nodes.rs"]
#[expect(dead_code, reason = "the tests of the client use all of it")]
mod nodes;

#[path = "../examples/growing.rs"]
#[expect(dead_code, reason = "an example has a main function of its own")]
mod example;

use nodes::port::Port;

/// A redis-server that ends with its value.
struct Redis {
    process: Child,
    url: String,
    _port: Port,
    _dir: tempfile::TempDir,
}

impl Redis {
    fn start() -> Self {
        let port = Port::reserve();
        let dir = tempfile::tempdir().unwrap();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--save", "", "--dir"])
            .arg(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("this test needs redis-server; `cargo xtask test --install` installs it");
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())).is_err() {
            assert!(Instant::now() < until, "redis-server does not come up");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self {
            process,
            url: format!("redis://127.0.0.1:{port}"),
            _port: port,
            _dir: dir,
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Our own server, for the time of `work`.
fn with_our_server(work: impl FnOnce(&str)) {
    let mut server = Server::bind(ServerConfig {
        listen: vec![Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())],
        ..ServerConfig::default()
    })
    .unwrap();
    let url = format!("redis://{}", server.local_addrs()[0]);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
    work(&url);
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}

fn cluster_url(options: &str) -> String {
    let port = nodes::shared().masters()[1].port;
    format!("cluster://127.0.0.1:{port}{options}")
}

/// The engines of this build.
const ENGINES: &[&str] = &[
    #[cfg(feature = "heed")]
    "heed",
    #[cfg(feature = "redb")]
    "redb",
    #[cfg(feature = "fjall")]
    "fjall",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
];

/// Runs `test` on every kind of store.
fn on_each(test: impl Fn(&str)) {
    test("ram");
    let dir = tempfile::tempdir().unwrap();
    test(&format!("store:{}/process", dir.path().display()));
    test(&format!(
        "store:{}/always?durability=always",
        dir.path().display()
    ));
    for engine in ENGINES {
        test(&format!("{engine}:{}/{engine}", dir.path().display()));
    }
    test(&Redis::start().url);
    with_our_server(&test);
    test(&cluster_url(""));
    test(&cluster_url("?wait_replicas=1&wait_ms=10000"));
}

fn shown(store: &dyn KeyValue, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut shown = Vec::new();
    let mut show = |key: &[u8], value: &[u8]| shown.push((key.to_vec(), value.to_vec()));
    store.scan(prefix, &mut show).unwrap();
    shown.sort();
    shown.dedup();
    let mut keys = Vec::new();
    let mut show_key = |key: &[u8]| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    };
    store.scan_keys(prefix, &mut show_key).unwrap();
    keys.sort();
    keys.dedup();
    assert!(keys.iter().eq(shown.iter().map(|(key, _)| key)), "{keys:?}");
    let mut first = |_: &[u8]| {
        keys.clear();
        ControlFlow::Break(())
    };
    store.scan_keys(prefix, &mut first).unwrap();
    assert_eq!(keys, Vec::<Vec<u8>>::new());
    shown
}

const TTL: Duration = Duration::from_secs(100);

fn leased(token: &[u8], value: Option<&[u8]>) -> Leased {
    Leased {
        token: Some(token.to_vec()),
        value: value.map(<[u8]>::to_vec),
    }
}

/// Only servers have leases.
fn leases_end_with_the_next_write(store: &dyn KeyValue, is_remote: bool) {
    let pair: [&[u8]; 2] = [b"leased:1", b"leased:{2}"];
    let lease = |token: &[u8]| store.lease(&pair, token, TTL);
    assert_eq!(store.is_shared(), is_remote);
    if !is_remote {
        assert!(matches!(lease(b"a"), Err(Error::Settings(_))));
        return;
    }
    let put = |key, value, ttl, token| LeasedWrite::Put {
        key,
        value,
        ttl,
        token,
    };
    let write = |write| store.write_leased(&[write]).unwrap()[0];
    store.put(pair[1], b"old").unwrap();
    let both = |token: &[u8]| [leased(token, None), leased(token, Some(b"old"))];
    assert_eq!(lease(b"a").unwrap(), both(b"a"));
    assert_eq!(lease(b"b").unwrap(), both(b"a"));
    // Those of one token, together.
    let loaded = [
        put(pair[0], b"1", Some(TTL), Some(&b"a"[..])),
        put(pair[1], b"2", None, Some(&b"b"[..])),
    ];
    assert_eq!(store.write_leased(&loaded).unwrap(), [true, false]);
    assert_eq!(
        lease(b"c").unwrap(),
        [leased(b"c", Some(b"1")), leased(b"a", Some(b"old"))]
    );
    // The lease makes no difference.
    assert!(write(put(pair[1], b"3", None, None)));
    assert!(write(LeasedWrite::Delete { key: pair[0] }));
    assert!(!write(put(pair[0], b"1", None, Some(&b"c"[..]))));
    assert!(!write(put(pair[1], b"1", None, Some(&b"a"[..]))));
    assert_eq!(
        lease(b"d").unwrap(),
        [leased(b"d", None), leased(b"d", Some(b"3"))]
    );
    let release = |key, token| LeasedWrite::Release { key, token };
    let released = [release(pair[0], b"c"), release(pair[1], b"d")];
    assert_eq!(store.write_leased(&released).unwrap(), [false, true]);
    assert_eq!(
        lease(b"e").unwrap(),
        [leased(b"d", None), leased(b"e", Some(b"3"))]
    );
    let removed = pair.map(|key| LeasedWrite::Delete { key });
    assert_eq!(store.write_leased(&removed).unwrap(), [true, true]);
}

#[test]
fn threads_find_the_same_everywhere() {
    on_each(|url| {
        println!("{url}");
        let store = open(url).unwrap();
        let key = |name: &str| format!("threads:{{{name}}}*").into_bytes();
        let (one, two) = (key("1"), key("2"));
        assert_eq!(store.get(&one).unwrap(), None);
        store.put(&one, b"a\0b").unwrap();
        assert_eq!(store.get(&one).unwrap().as_deref(), Some(&b"a\0b"[..]));
        store
            .put_for(&two, b"short", Duration::from_secs(1_000))
            .unwrap();
        let keys: [&[u8]; 3] = [&two, b"threads:none", &one];
        let all = [Some(b"short".to_vec()), None, Some(b"a\0b".to_vec())];
        assert_eq!(store.get_many(&keys).unwrap(), all);
        let mut visited = Vec::new();
        let mut visit = |value: Option<&[u8]>| visited.push(value.map(<[u8]>::to_vec));
        store.visit_many(&keys, 0, &mut visit).unwrap();
        assert_eq!(visited, all);
        let mut into = b"before ".to_vec();
        assert!(store.get_into(&two, &mut into).unwrap());
        assert!(!store.get_into(b"threads:none", &mut into).unwrap());
        assert_eq!(into, b"before short");
        assert_eq!(store.get_many(&[]).unwrap(), Vec::<Option<Vec<u8>>>::new());

        let swap = |expected, next| store.compare_and_swap(&one, expected, next).unwrap();
        assert!(!swap(None, Some(&b"x"[..])));
        assert!(!swap(Some(&b"b"[..]), Some(&b"x"[..])));
        assert!(swap(Some(&b"a\0b"[..]), Some(&b"c"[..])));
        assert!(!swap(Some(&b"a\0b"[..]), None));
        assert!(swap(Some(&b"c"[..]), None) && swap(None, None));
        assert!(swap(None, Some(&b"d"[..])));

        let mut batch = Batch::new();
        let tagged = |field: &str| format!("threads:{{tag}}:{field}").into_bytes();
        store.put(&tagged("old"), b"").unwrap();
        batch
            .put(&tagged("a"), b"1")
            .put_for(&tagged("b"), b"2", Duration::from_secs(100));
        batch.delete(&tagged("old"));
        store.apply(&batch).unwrap();
        store.apply(&Batch::new()).unwrap();
        many_keys_are_written_and_removed(&*store);
        let pairs = [(tagged("a"), b"1".to_vec()), (tagged("b"), b"2".to_vec())];
        assert_eq!(shown(&*store, b"threads:{tag}"), pairs);
        // A prefix has no wildcards.
        assert_eq!(shown(&*store, b"threads:*"), []);
        assert_eq!(shown(&*store, &one), [(one.clone(), b"d".to_vec())]);

        store
            .put_for(&two, b"short", Duration::from_millis(100))
            .unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while store.get(&two).unwrap().is_some() {
            assert!(Instant::now() < until, "a key stays");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(store.delete(&one).unwrap());
        for name in [&tagged("a"), &tagged("b"), &one] {
            store.remove(name).unwrap();
        }
        assert!(!store.delete(&one).unwrap());
        assert_eq!(shown(&*store, b"threads:"), []);
        leases_end_with_the_next_write(&*store, url.contains("://"));
        scan_begins_at_a_key(&*store, url);
    });
}

/// Keys of several slots.
fn many_keys_are_written_and_removed(store: &dyn KeyValue) {
    let mut many = Batch::new();
    for number in 0..10 {
        many.put(format!("threads:many:{number}").as_bytes(), b"v");
    }
    store.write_many(&many).unwrap();
    store.write_many(&Batch::new()).unwrap();
    assert_eq!(shown(store, b"threads:many:").len(), 10);
    let mut none = Batch::new();
    for number in 0..10 {
        none.delete(format!("threads:many:{number}").as_bytes());
    }
    store.write_many(&none).unwrap();
}

/// Servers have no order.
fn scan_begins_at_a_key(store: &dyn KeyValue, url: &str) {
    let from = |from: &str, count| {
        let mut keys = Vec::new();
        let shown = store.scan_from(from.as_bytes(), count, &mut |key, value| {
            assert_eq!(key, value);
            keys.push(String::from_utf8(key.to_vec()).unwrap());
        })?;
        assert_eq!(shown, keys.len());
        Ok(keys)
    };
    if url.contains("://") {
        assert!(matches!(from("k2", 1), Err(Error::Settings(_))));
        return;
    }
    let mut batch = Batch::new();
    for key in 0..300 {
        let append = |out: &mut Vec<u8>| out.extend_from_slice(format!("k{key:03}").as_bytes());
        batch.put_with(None, append, append);
    }
    assert_eq!((batch.len(), batch.bytes()), (300, 2_400));
    store.apply(&batch).unwrap();
    let is_ordered = url != "ram" && !url.starts_with("store:");
    let (two, rest) = (from("k100", 2).unwrap(), from("k100", 300).unwrap());
    assert_eq!(rest[..2], two[..]);
    assert!(!is_ordered || two == ["k100", "k101"] && rest.len() == 200);
    let mut all = from("", 1_000).unwrap();
    all.sort();
    assert_eq!((all.len(), from("k1", 0).unwrap().len()), (300, 0));
    assert!(
        batch
            .iter()
            .map(|(key, _)| key)
            .eq(all.iter().map(String::as_bytes))
    );
}

async fn tasks(store: &dyn AsyncKeyValue) -> Result<(), Error> {
    let (one, two) = (&b"tasks:{t}:1"[..], &b"tasks:{t}:2"[..]);
    assert_eq!(store.get(one).await?, None);
    store.put(one, b"a").await?;
    store.put_for(two, b"b", Duration::from_secs(100)).await?;
    let both = store.get_many(&[two, one, b"tasks:none"]).await?;
    assert_eq!(both, [Some(b"b".to_vec()), Some(b"a".to_vec()), None]);
    assert_eq!(store.get_many(&[]).await?, Vec::<Option<Vec<u8>>>::new());
    assert!(!store.compare_and_swap(one, None, Some(b"x")).await?);
    assert!(store.compare_and_swap(one, Some(b"a"), Some(b"c")).await?);
    assert!(store.compare_and_swap(two, Some(b"b"), None).await?);
    let mut batch = Batch::new();
    batch.delete(one).put(two, b"d");
    store.apply(&batch).await?;
    store.apply(&Batch::new()).await?;
    let mut many = Batch::new();
    many.put(b"tasks-many:1", b"v").put(b"tasks-many:2", b"v");
    many.delete(b"tasks-many:1");
    store.write_many(&many).await?;
    store.write_many(&Batch::new()).await?;
    assert_eq!(store.get(b"tasks-many:1").await?, None);
    assert!(store.delete(b"tasks-many:2").await?);
    let mut shown = Vec::new();
    store
        .scan(b"tasks:", &mut |key, value| {
            shown.push((key.to_vec(), value.to_vec()));
        })
        .await?;
    assert_eq!(shown, [(two.to_vec(), b"d".to_vec())]);
    let mut keys = Vec::new();
    let mut show_key = |key: &[u8]| {
        keys.push(key.to_vec());
        ControlFlow::Break(())
    };
    store.scan_keys(b"tasks:", &mut show_key).await?;
    assert_eq!(keys, [two]);
    assert!(store.delete(two).await? && !store.delete(two).await?);
    Ok(())
}

#[test]
fn tasks_find_the_same_everywhere() {
    on_each(|url| {
        println!("{url}");
        nodes::runtime().block_on(async {
            let store = open_async(url).await.unwrap();
            tasks(&*store).await.unwrap();
        });
    });
}

/// Adds one to a number, unless somebody else does at the same time.
fn add_one(store: &dyn KeyValue, key: &[u8]) {
    loop {
        let old = store.get(key).unwrap();
        let number: u64 = old
            .as_deref()
            .map_or(0, |old| std::str::from_utf8(old).unwrap().parse().unwrap());
        let new = (number + 1).to_string();
        if store
            .compare_and_swap(key, old.as_deref(), Some(new.as_bytes()))
            .unwrap()
        {
            return;
        }
    }
}

fn add_from_threads(store: &dyn KeyValue, key: &[u8], meanwhile: impl FnOnce()) {
    const THREADS: usize = 4;
    const EACH: usize = 25;
    store.delete(key).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..EACH).for_each(|_| add_one(store, key)));
        }
        meanwhile();
    });
    let sum = (THREADS * EACH).to_string();
    assert_eq!(store.get(key).unwrap(), Some(sum.into_bytes()));
    assert!(store.delete(key).unwrap());
}

#[test]
fn compare_and_write_loses_no_update() {
    on_each(|url| add_from_threads(&*open(url).unwrap(), b"sum", || {}));
}

#[test]
fn moving_slot_loses_no_update() {
    let key = b"moving:sum";
    for url in [
        cluster_url(""),
        cluster_url("?wait_replicas=1&wait_ms=10000"),
    ] {
        let store = open(&url).unwrap();
        add_from_threads(&*store, key, || nodes::shared().move_slot(slot_of(key)));
    }
}

#[test]
fn batch_on_a_cluster_has_one_slot() {
    let mut batch = Batch::new();
    batch.put(b"slots:1", b"").put(b"slots:2", b"");
    let store = open(&cluster_url("")).unwrap();
    assert!(matches!(store.apply(&batch), Err(Error::Slots)));
    assert_eq!(shown(&*store, b"slots:"), []);
    open("ram").unwrap().apply(&batch).unwrap();
    nodes::runtime().block_on(async {
        let store = open_async(&cluster_url("")).await.unwrap();
        assert!(matches!(store.apply(&batch).await, Err(Error::Slots)));
    });
}

#[test]
fn write_says_when_replicas_are_missing() {
    let url = cluster_url("?wait_replicas=2&wait_ms=50");
    let missing = |result: Result<(), Error>| match result {
        Err(Error::Unconfirmed { wanted: 2, reached }) => assert!(reached <= 1),
        other => panic!("{other:?}"),
    };
    let store = open(&url).unwrap();
    missing(store.put(b"missing", b"v"));
    // The master has it.
    assert_eq!(store.get(b"missing").unwrap().as_deref(), Some(&b"v"[..]));
    missing(store.delete(b"missing").map(|_| ()));
    nodes::runtime().block_on(async {
        let store = open_async(&url).await.unwrap();
        missing(store.put(b"missing", b"v").await);
        missing(store.delete(b"missing").await.map(|_| ()));
    });
}

/// Opens a store that was open before. A process that another test is starting holds the lock of its directory for a
/// moment.
fn open_again(url: &str) -> Box<dyn KeyValue> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match open(url) {
            Ok(store) => return store,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn directory_keeps_what_was_put() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("store:{}", dir.path().display());
    open(&url).unwrap().put(b"k", b"v").unwrap();
    let store = open_again(&url);
    assert_eq!(store.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

/// The example prints the same lines everywhere.
#[test]
fn example_grows() {
    on_each(|url| {
        let sold = example::sell(&*open(url).unwrap(), "shop").unwrap();
        let expected = [
            "items: 17, sold: 17, left: 0",
            "orders: 17",
            "session of half an hour: ann",
        ];
        assert_eq!(sold, expected, "{url}");
        // A store in memory is gone with its value.
        let (orders, keys) = if url == "ram" { (1, 2) } else { (18, 38) };
        let served = nodes::runtime().block_on(async {
            let until = Instant::now() + Duration::from_secs(60);
            let store = loop {
                match open_async(url).await {
                    Ok(store) => break store,
                    Err(error) => assert!(Instant::now() < until, "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            };
            example::serve(&*store, "shop").await.unwrap()
        });
        assert_eq!(
            served,
            [
                format!("orders paid: {orders}"),
                format!("keys removed: {keys}")
            ],
            "{url}"
        );
    });
}
