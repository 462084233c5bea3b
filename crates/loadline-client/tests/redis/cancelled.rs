//! Callers that give up, in great numbers.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use loadline_client::commands::echo;
use loadline_client::{cmd, multiplexed};

use crate::server::{Redis, Runtime, runtime};

/// Requests per task.
const EACH: u32 = 1000;
const TASKS: u32 = 50;

/// A number that looks like chance (SplitMix64), so that a failure can be repeated.
fn chance(seed: u32) -> u64 {
    let z = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

/// Gives up two of three requests, at different moments; how many replies came.
async fn give_up_often(connection: multiplexed::Connection, task: u32) -> u32 {
    let mut replies = 0;
    for n in 0..EACH {
        let message = format!("{task}:{n}");
        let mut running = pin!(connection.run(echo::<String>(&message)));
        match chance(task * EACH + n) % 3 {
            0 => {
                // Sent, and given up at once.
                let mut cx = Context::from_waker(Waker::noop());
                assert!(running.as_mut().poll(&mut cx).is_pending());
            }
            1 => {
                // Given up some time later, with or without a reply.
                let patience = Duration::from_micros(chance(n) % 300);
                if let Ok(reply) = tokio::time::timeout(patience, running).await {
                    assert_eq!(reply.unwrap(), message);
                    replies += 1;
                }
            }
            _ => {
                assert_eq!(
                    running.await.unwrap(),
                    message,
                    "a reply came to the wrong caller"
                );
                replies += 1;
            }
        }
    }
    replies
}

#[test]
fn storm_of_cancellations_shifts_no_reply() {
    let redis = Redis::start();
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    for runtime in [runtime(), Runtime(threads)] {
        runtime.block_on(async {
            let connection = redis.client().multiplexed().await.unwrap();
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| tokio::spawn(give_up_often(connection.clone(), task)))
                .collect();
            let mut replies = 0;
            for task in tasks {
                replies += task.await.unwrap();
            }
            println!(
                "{} requests, {replies} of them answered to their callers",
                TASKS * EACH
            );
            assert!(replies > TASKS * EACH / 4);
            let sum: i64 = connection.run(cmd("INCR").arg("after")).await.unwrap();
            assert!(sum >= 1);
        });
    }
}

#[test]
fn connection_ends_with_its_last_handle() {
    let redis = Redis::start();
    runtime().block_on(async {
        let connection = redis.client().multiplexed().await.unwrap();
        connection.run(echo::<String>("x")).await.unwrap();
        drop(connection.clone());
        connection.run(echo::<String>("x")).await.unwrap();
        drop(connection);
        let until = Instant::now() + Duration::from_secs(60);
        // The one that asks is the only one left.
        while redis.ask("CLIENT LIST").matches(" addr=").count() > 1 {
            assert!(
                Instant::now() < until,
                "the connection outlived its handles"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}
