//! Requests that belong together, written once for threads and for tasks: `await` as the last argument makes them
//! asynchronous.

/// Runs a request, and waits for replicas where that is asked for.
macro_rules! run_confirmed {
    ($connection:expr, $request:expr, $wait:expr $(, $await:tt)?) => {{
        let Some(wait) = $wait else {
            return Ok($connection.run($request)$(.$await)??);
        };
        let (written, reached) = $connection.run(($request, requests::wait(wait)))$(.$await)?;
        let written = written?;
        requests::confirm(wait, reached?)?;
        Ok(written)
    }};
}
pub(crate) use run_confirmed;

/// Performs the writes of a batch one after the other.
macro_rules! write_each {
    ($store:expr, $batch:expr $(, $await:tt)?) => {{
        for write in $batch.writes() {
            match write {
                Write::Put { key, value, ttl: Some(ttl) } => {
                    $store.put_for(key, value, ttl)$(.$await)??;
                }
                Write::Put { key, value, ttl: None } => $store.put(key, value)$(.$await)??,
                Write::Delete { key } => drop($store.delete(key)$(.$await)??),
            }
        }
        Ok(())
    }};
}
pub(crate) use write_each;

/// Runs the writes of a batch as one command or as a transaction.
macro_rules! apply_on {
    ($connection:expr, $batch:expr, $wait:expr $(, $await:tt)?) => {{
        if let Some(request) = requests::as_one($batch) {
            run_confirmed($connection, request, $wait)$(.$await)??;
            return Ok(());
        }
        let request = atomic(requests::writes($batch));
        let replies = run_confirmed($connection, request, $wait)$(.$await)??;
        for reply in replies.into_iter().flatten() {
            reply?;
        }
        Ok(())
    }};
}
pub(crate) use apply_on;

/// Watches a key, compares its value, and writes if nothing has changed it since; otherwise it begins again. After an error,
/// the connection can still watch the key.
macro_rules! swap_on {
    ($connection:expr, $key:expr, $expected:expr, $next:expr, $wait:expr $(, $await:tt)?) => {
        loop {
            $connection.run(watch($key))$(.$await)??;
            let value: Option<Vec<u8>> = $connection.run(get($key))$(.$await)??;
            if value.as_deref() != $expected {
                $connection.run(unwatch())$(.$await)??;
                return Ok(false);
            }
            let mut batch = Batch::new();
            match $next {
                Some(next) => batch.put($key, next),
                None => batch.delete($key),
            };
            let request = atomic(requests::writes(&batch));
            if let Some(replies) = run_confirmed($connection, request, $wait)$(.$await)?? {
                for reply in replies {
                    reply?;
                }
                return Ok(true);
            }
        }
    };
}
pub(crate) use swap_on;

/// Watches the lease of a key, compares its token, and writes if nothing has changed it since; otherwise it begins again.
macro_rules! write_unscripted_on {
    ($connection:expr, $write:expr, $wait:expr $(, $await:tt)?) => {{
        let lease = lease_key($write.key());
        loop {
            if let Some(token) = $write.token() {
                let (watched, current) = $connection.run((watch(&lease), get(&lease)))$(.$await)?;
                watched?;
                let current: Option<Vec<u8>> = current?;
                if current.as_deref() != Some(token) {
                    $connection.run(unwatch())$(.$await)??;
                    return Ok(false);
                }
            }
            let request = atomic($write.steps());
            if let Some(replies) = run_confirmed($connection, request, $wait)$(.$await)?? {
                for reply in replies {
                    reply?;
                }
                return Ok(true);
            }
        }
    }};
}
pub(crate) use write_unscripted_on;
