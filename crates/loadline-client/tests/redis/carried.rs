//! The state of a connection after that is made again.

use loadline_client::commands::{get, set, watch};
use loadline_client::{Client, Password, atomic, cmd};

use crate::server::{Redis, runtime};

const USER: [&str; 6] = ["--user", "me", "on", ">secret", "~*", "+@all"];

/// Ends all connections but the one that says so, and returns once they are gone.
fn kill(redis: &Redis) {
    redis.ask("CLIENT KILL TYPE normal SKIPME yes");
    while redis.ask("CLIENT LIST").matches("id=").count() > 1 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// These properties in the reply to `CLIENT INFO`.
fn properties(info: &str) -> Vec<&str> {
    let wanted = ["name=", "db=", "user=", "flags="];
    let words = info.split_ascii_whitespace();
    words
        .filter(|word| wanted.iter().any(|name| word.starts_with(name)))
        .collect()
}

fn start() -> (Redis, Client) {
    let redis = Redis::start_with(&USER);
    let client = redis.client();
    (redis, client)
}

#[test]
fn blocking_connection_has_its_state_again() {
    let (redis, client) = start();
    let mut connection = client.blocking().unwrap();
    connection.run(cmd::<()>("SELECT").arg(3)).unwrap();
    connection
        .run(cmd::<()>("AUTH").arg(("me", "secret")))
        .unwrap();
    let pair = (
        cmd::<()>("CLIENT").arg(("SETNAME", "shop")),
        cmd::<()>("CLIENT").arg(("TRACKING", "ON")),
    );
    let (named, tracked) = connection.run(pair);
    named.and(tracked).unwrap();
    connection.run(set("k", "in 3")).unwrap();
    let info = cmd::<String>("CLIENT").arg("INFO");
    let before = connection.run(&info).unwrap();
    for _ in 0..2 {
        kill(&redis);
        assert_eq!(connection.run(get::<String>("k")).unwrap(), "in 3");
        let after = connection.run(&info).unwrap();
        assert_eq!(properties(&after), properties(&before));
        assert!(
            after.contains("name=shop") && after.contains("user=me"),
            "{after}"
        );
    }
}

#[test]
fn dedicated_connection_has_its_state_again() {
    let (redis, client) = start();
    runtime().block_on(async {
        let mut connection = client.dedicated().await.unwrap();
        let four = (
            cmd::<()>("SELECT").arg(3),
            cmd::<()>("AUTH").arg(("me", "secret")),
            cmd::<()>("CLIENT").arg(("SETNAME", "shop")),
            cmd::<()>("CLIENT").arg(("TRACKING", "ON")),
        );
        let (a, b, c, d) = connection.run(four).await;
        a.and(b).and(c).and(d).unwrap();
        connection.run(set("k", "in 3")).await.unwrap();
        let info = cmd::<String>("CLIENT").arg("INFO");
        let before = connection.run(&info).await.unwrap();
        kill(&redis);
        let value: String = connection.run(get("k")).await.unwrap();
        assert_eq!(value, "in 3");
        let after = connection.run(&info).await.unwrap();
        assert_eq!(properties(&after), properties(&before));
    });
}

#[test]
fn login_that_the_server_does_not_take_again_is_an_error() {
    let redis = Redis::start_with(&["--requirepass", "old"]);
    let builder = redis.builder().password(Password::new("old"));
    let mut connection = builder.build().blocking().unwrap();
    connection
        .run(cmd::<()>("CONFIG").arg(("SET", "requirepass", "new")))
        .unwrap();
    connection.run(cmd::<()>("AUTH").arg("new")).unwrap();
    // The server closes the connection before it confirms that to another one.
    let newer = redis.builder().password(Password::new("new"));
    newer
        .build()
        .blocking()
        .unwrap()
        .run(cmd::<u64>("CLIENT").arg(("KILL", "TYPE", "normal", "SKIPME", "yes")))
        .unwrap();
    // The login of the configuration is refused by now; that of the last AUTH is not.
    connection.run(set("k", 1)).unwrap();
}

#[test]
fn transaction_or_watch_that_is_lost_fails_the_next_request() {
    let redis = Redis::start();
    let mut connection = redis.client().blocking().unwrap();
    connection.run(cmd::<()>("MULTI")).unwrap();
    kill(&redis);
    let error = connection.run(set("k", 1)).unwrap_err();
    assert!(error.to_string().contains("MULTI"), "{error}");
    assert!(!error.maybe_executed());
    assert_eq!(connection.run(get::<Option<i64>>("k")).unwrap(), None);
    connection.run(watch("k")).unwrap();
    kill(&redis);
    let error = connection.run(atomic(set("k", 1))).unwrap_err();
    assert!(error.to_string().contains("WATCH"), "{error}");
    assert!(connection.run(atomic(set("k", 2))).unwrap().is_some());
    runtime().block_on(async {
        let mut own = redis.client().dedicated().await.unwrap();
        for begun in ["MULTI", "WATCH k"] {
            let words: Vec<&str> = begun.split(' ').collect();
            own.run(cmd::<()>(words[0]).arg(&words[1..])).await.unwrap();
            kill(&redis);
            // The connection is replaced at once, so its end cannot be seen by looking now and then.
            while redis.ask("CLIENT LIST").matches("id=").count() == 1 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            let error = own.run(set("k", 3)).await.unwrap_err();
            assert!(error.to_string().contains(words[0]), "{error}");
            assert!(!error.maybe_executed());
            own.run(set("k", 4)).await.unwrap();
        }
    });
}
