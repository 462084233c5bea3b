//! Pipelines, transactions and scripts, on every kind of connection.

use loadline_client::commands::*;
use loadline_client::{Error, atomic, cmd};

use crate::commands::everywhere;
use crate::server::Redis;

#[test]
fn pipelines_have_an_error_for_each_command() {
    everywhere(|c| {
        let (set_done, wrong, n, nil) = c.run((
            set("k", "text"),
            incr("k"),
            incr("n"),
            get::<Option<String>>("none"),
        ));
        set_done.unwrap();
        assert!(matches!(wrong, Err(Error::Server(_))));
        assert_eq!((n.unwrap(), nil.unwrap()), (1, None));
        let many: Vec<_> = (0..1000).map(|n| set(format!("k{n}"), n)).collect();
        assert!(c.run(&many).into_iter().all(|done| done.is_ok()));
        let many: Vec<_> = (0..1000).map(|n| get::<i64>(format!("k{n}"))).collect();
        for (n, value) in c.run(many).into_iter().enumerate() {
            assert_eq!(value.unwrap(), n as i64);
        }
        assert!(c.run(Vec::<loadline_client::Cmd<()>>::new()).is_empty());
    });
}

#[test]
fn transactions_are_all_or_nothing() {
    everywhere(|c| {
        let done = c.run(atomic((set("a", 1), incr("a"), get::<i64>("a"))));
        let (set_done, n, value) = done.unwrap().unwrap();
        set_done.unwrap();
        assert_eq!((n.unwrap(), value.unwrap()), (2, 2));
        let (_, wrong) = c.run(atomic((set("a", "x"), incr("a")))).unwrap().unwrap();
        assert!(matches!(wrong, Err(Error::Server(_))));
        let refused = c
            .run(atomic((set("b", 1), cmd::<()>("NOSUCH"))))
            .unwrap_err();
        assert!(refused.to_string().contains("unknown command"), "{refused}");
        assert_eq!(c.run(exists("b")).unwrap(), 0);
        // The connection is as good as before.
        c.run(ping()).unwrap();
    });
}

#[test]
fn scripts_are_sent_whole_where_they_are_not_known() {
    everywhere(|c| {
        let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
        c.run(script_flush()).unwrap();
        assert_eq!(c.run(script_exists(script.digest())).unwrap(), [false]);
        assert_eq!(c.run(script.call::<i64>("n", 5)).unwrap(), 5);
        assert_eq!(c.run(script_exists(script.digest())).unwrap(), [true]);
        assert_eq!(c.run(script.call::<i64>("n", 5)).unwrap(), 10);
        let reads = Script::new("return redis.call('GET', KEYS[1])").read_only();
        assert_eq!(c.run(reads.call::<i64>("n", ())).unwrap(), 10);
        assert_eq!(
            c.run(eval::<String>("return ARGV[1]", (), "x")).unwrap(),
            "x"
        );
        let digest = c.run(script_load("return 1")).unwrap();
        assert_eq!(digest, Script::new("return 1").digest());
    });
}

#[test]
fn script_that_is_sent_whole_needs_no_second_try() {
    everywhere(|c| {
        let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
        c.run(script_flush()).unwrap();
        let call = || script.call::<i64>("n", 5);
        let (unknown, counted) = c.run((call(), incr("n")));
        assert!(unknown.unwrap_err().is_server_code("NOSCRIPT"));
        assert_eq!(counted.unwrap(), 1, "the other commands ran exactly once");
        let (flushed, whole, known) = c.run((script_flush(), call().whole(), call()));
        flushed.unwrap();
        assert_eq!((whole.unwrap(), known.unwrap()), (6, 11));
        c.run(script_flush()).unwrap();
        let (whole, known) = c.run(atomic((call().whole(), call()))).unwrap().unwrap();
        assert_eq!((whole.unwrap(), known.unwrap()), (16, 21));
    });
}

#[test]
fn watched_key_that_changes_stops_the_transaction() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    let mut other = redis.client().blocking().unwrap();
    connection.run(set("balance", 1)).unwrap();
    let mut rounds = 0;
    let (done,) = connection
        .transaction("balance", 10, |connection| {
            rounds += 1;
            let balance: i64 = connection.run(get("balance"))?;
            if rounds == 1 {
                other.run(incr_by("balance", 99))?;
            }
            Ok((set("balance", 2 * balance),))
        })
        .unwrap();
    done.unwrap();
    assert_eq!(rounds, 2);
    assert_eq!(other.run(get::<i64>("balance")).unwrap(), 200);
}

#[test]
fn watch_that_was_lost_with_its_connection_stops_the_transaction() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    connection.run(watch("k")).unwrap();
    redis.ask("CLIENT KILL TYPE normal SKIPME yes");
    std::thread::sleep(std::time::Duration::from_millis(20));
    // The new connection watches nothing.
    let error = connection.run(atomic(set("k", 1))).unwrap_err();
    assert!(error.to_string().contains("WATCH"), "{error}");
    assert_eq!(connection.run(exists("k")).unwrap(), 0);
    assert!(connection.run(atomic(set("k", 1))).unwrap().is_some());
}
