//! Steps of callers, written once for threads and for tasks: `await` as the last argument makes them asynchronous.

/// Performs what a call needs, until all its keys are answered. `$outcome` waits for the outcome of a flight.
macro_rules! perform {
    ($shared:expr, $fetch:expr, $sleep:path, $outcome:ident $(, $await:tt)?) => {{
        let core = &$shared.core;
        while let Some(work) = core.next($fetch) {
            match work {
                Work::Ask(question) => $shared.ask($fetch, question)$(.$await)?,
                Work::Lease(leasing) => {
                    let (keys, begun) = (leasing.keys($fetch), Instant::now());
                    let leased = $shared.lease(&keys, &leasing)$(.$await)?;
                    core.leased($fetch, leasing, leased, begun.elapsed());
                }
                Work::Load(loading) => $shared.load_all($fetch, loading)$(.$await)?,
                Work::Write(writes) => {
                    let begun = Instant::now();
                    let written = $shared.write(&writes.writes)$(.$await)?;
                    core.written($fetch, writes, &written, begun.elapsed());
                }
                Work::Release(Release { key, token }) => {
                    let (key, token) = (&key[..], &token[..]);
                    let release = [LeasedWrite::Release { key, token }];
                    // A lease that remains expires.
                    let _ = $shared.write_leased(&release)$(.$await)?;
                }
                Work::Pause(pause) => {
                    $sleep(pause)$(.$await)?;
                    core.poll($fetch);
                }
                Work::Wait(index, flight) => {
                    let outcome = flight.$outcome()$(.$await)?;
                    core.waited($fetch, index, outcome);
                }
            }
        }
    }};
}
pub(super) use perform;

/// Replaces or removes the value of a key. `$closed` waits for the end of a flight.
macro_rules! overwrite {
    ($cache:expr, $key:expr, $value:expr, $closed:ident $(, $await:tt)?) => {{
        let core = &$cache.shared.core;
        let value = match &core.lower {
            Some(_) => $value,
            None => match core.overwrite_alone($key, $value) {
                Ok(()) => return,
                Err(value) => value,
            },
        };
        let lead = loop {
            match core.flights.write($key) {
                Joined::Lead(lead) => break lead,
                Joined::Wait(flight) => flight.$closed()$(.$await)?,
            }
        };
        let mut fetch = core.overwrite($key, lead, value);
        $cache.shared.run(&mut fetch)$(.$await)?;
        $cache.drain_later();
    }};
}
pub(super) use overwrite;

/// Writes the backlog. If another caller is doing so, returns its writes.
macro_rules! drain {
    ($shared:expr $(, $await:tt)?) => {{
        while let Some(drain) = $shared.core.drain() {
            if let Some(other) = drain.other() {
                return Some(other);
            }
            let begun = Instant::now();
            let result = $shared.write(&drain.writes)$(.$await)?;
            if !drain.written(result, begun.elapsed()) {
                break;
            }
        }
        None
    }};
}
pub(super) use drain;

/// Reads keys from a store.
macro_rules! read {
    ($store:expr, $keys:expr $(, $await:tt)?) => {
        Ok(match $keys {
            [key] => vec![$store.get(key)$(.$await)??],
            keys => $store.get_many(keys)$(.$await)??,
        })
    };
}
pub(super) use read;

/// Writes to a store that no other process uses.
macro_rules! write_alone {
    ($store:expr, $writes:expr $(, $await:tt)?) => {{
        match $writes {
            [(key, Write::Delete)] => drop($store.delete(key)$(.$await)??),
            [(key, Write::Put { frame, ttl: Some(ttl), .. })] => {
                $store.put_for(key, frame, *ttl)$(.$await)??;
            }
            [(key, Write::Put { frame, .. })] => $store.put(key, frame)$(.$await)??,
            writes => $store.write_many(&to_batch(writes))$(.$await)??,
        }
        Ok(Vec::new())
    }};
}
pub(super) use write_alone;
