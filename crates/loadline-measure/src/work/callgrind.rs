//! The output of callgrind, as its manual defines it ("Callgrind Format Specification", version 1).
//!
//! A body line is either a name (`fn=(12) dictFind`), with the name only at the first use of its number; a cost
//! line (`+3 17`: a position and one count per event); or `calls=N` followed by a cost line that holds the
//! inclusive cost of these calls. Only the sums per function are kept.

use std::collections::HashMap;

/// Functions that a profile can have at most; a server has some thousands.
const MOST_FUNCTIONS: usize = 1 << 18;

/// Functions that allocate memory, by the names of libc and of jemalloc with a prefix.
const ALLOCATORS: [&str; 6] = [
    "malloc",
    "calloc",
    "realloc",
    "je_malloc",
    "je_calloc",
    "je_realloc",
];

/// Functions whose system calls do not enter the kernel outside of valgrind: they read the clock in user space (vdso(7)).
const CLOCK_READERS: [&str; 2] = ["gettimeofday", "clock_gettime"];

/// Functions whose instructions depend on time and not on operations. None of them calls another one.
const TIMERS: [&str; 6] = [
    // The timers of redis-server with its forks, and of ours.
    "serverCron",
    "loadline_server::server::Server::on_timer",
    // The record of times in a client of a sweep: a histogram grows up to the longest time.
    "loadline_load::meter::Meter::record",
    "loadline_load::meter::Meter::quiet",
    "loadline_load::meter::Meter::finish",
    "loadline_load::outcome::Outcome::join",
];

/// The execution of a program, by function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Instructions of the whole program.
    pub instructions: u64,
    /// System calls, if callgrind ran with `--collect-systime`, without readings of the clock.
    pub system_calls: Option<u64>,
    /// Calls of functions that allocate memory.
    pub allocations: u64,
    /// Counts per function, in no particular order.
    pub functions: Vec<Function>,
    /// Counts per pair of caller and called, ordered by their places.
    pub(crate) calls: Vec<Call>,
}

/// The part of a function's execution on behalf of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The place of the caller among the functions.
    pub(crate) caller: usize,
    /// The place of the called function.
    pub(crate) called: usize,
    /// Instructions of the calls and of all that they call.
    pub(crate) inclusive: u64,
}

/// The counts of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name, or its address if the program has no symbols.
    pub name: String,
    /// The program or library that contains it; empty if unknown.
    pub(crate) object: String,
    /// Instructions of the function itself.
    pub(crate) own: u64,
    /// Instructions of the function and of all functions that it calls. Recursive calls count several times.
    pub inclusive: u64,
    /// Calls of it.
    pub calls: u64,
}

impl Profile {
    /// Instructions that depend on time, with everything that their functions called: of the timers of a known server,
    /// and of the record of times in our own client. 0 for other programs.
    #[must_use]
    pub fn background(&self) -> u64 {
        let timers = self
            .functions
            .iter()
            .filter(|function| is_timer(&function.name));
        timers
            .map(|function| function.inclusive)
            .fold(0, u64::saturating_add)
    }
}

/// Whether the instructions of a function depend on time.
pub(super) fn is_timer(name: &str) -> bool {
    TIMERS.contains(&name)
}

/// The reason why a file is not a callgrind profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The header does not say which events are counted, or instructions are not among them.
    #[error("not a callgrind profile: its events do not include instructions (Ir)")]
    NoInstructions,
    /// A line cannot be read.
    #[error("line {line} of the callgrind profile cannot be read")]
    Line {
        /// Counted from 1.
        line: usize,
    },
    /// More functions than any real program has.
    #[error("the callgrind profile has more than {MOST_FUNCTIONS} functions")]
    TooManyFunctions,
}

/// Reads a profile that callgrind wrote.
///
/// # Errors
/// If `text` is not such a profile. Nothing is allocated from a declared size.
pub fn parse(text: &str) -> Result<Profile, ProfileError> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        reader.line(line.trim_end()).map_err(|fault| match fault {
            Fault::Unreadable => ProfileError::Line { line: index + 1 },
            Fault::TooMany => ProfileError::TooManyFunctions,
        })?;
    }
    reader.finish()
}

enum Fault {
    Unreadable,
    TooMany,
}

/// The state between two lines.
#[derive(Default)]
struct Reader {
    /// Position among the events of `Ir` and of `sysCount`.
    instructions_at: Option<usize>,
    system_calls_at: Option<usize>,
    /// Numbers at the start of a cost line that are positions.
    positions: usize,
    names: HashMap<u64, String>,
    objects: HashMap<u64, String>,
    object: String,
    /// Of the function that is called next, if it is in another object.
    called_object: Option<String>,
    current: Option<usize>,
    called: Option<usize>,
    /// Set between a `calls=` line and its cost line.
    in_call: bool,
    system_calls: u64,
    index: HashMap<(String, String), usize>,
    functions: Vec<Function>,
    calls: HashMap<(usize, usize), u64>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), Fault> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            return self.cost(line);
        }
        if let Some((key, value)) = line.split_once('=') {
            return self.assignment(key, value);
        }
        match line.split_once(':') {
            Some(("events", events)) => {
                let at = |wanted| events.split_whitespace().position(|event| event == wanted);
                self.instructions_at = at("Ir");
                self.system_calls_at = at("sysCount");
            }
            Some(("positions", positions)) => {
                self.positions = positions.split_whitespace().count();
            }
            Some(_) => {}
            None => return Err(Fault::Unreadable),
        }
        Ok(())
    }

    fn assignment(&mut self, key: &str, value: &str) -> Result<(), Fault> {
        match key {
            "ob" => self.object = named(&mut self.objects, value)?,
            "cob" => self.called_object = Some(named(&mut self.objects, value)?),
            "fn" => {
                let name = named(&mut self.names, value)?;
                self.current = Some(self.function(name, self.object.clone())?);
            }
            "cfn" => {
                let name = named(&mut self.names, value)?;
                let object = self.called_object.take();
                let object = object.unwrap_or_else(|| self.object.clone());
                self.called = Some(self.function(name, object)?);
            }
            "calls" => {
                let count = value.split_whitespace().next();
                let count: u64 = count
                    .and_then(|count| count.parse().ok())
                    .ok_or(Fault::Unreadable)?;
                let called = self.called.ok_or(Fault::Unreadable)?;
                let calls = &mut self.functions[called].calls;
                *calls = calls.saturating_add(count);
                self.in_call = true;
            }
            // Files, and jumps within a function, do not change the sums.
            _ => {}
        }
        Ok(())
    }

    fn cost(&mut self, line: &str) -> Result<(), Fault> {
        let mut words = line.split_whitespace().skip(self.positions.max(1));
        let counts: Vec<u64> = words.by_ref().map_while(|word| word.parse().ok()).collect();
        let at = |place: Option<usize>| place.and_then(|at| counts.get(at).copied());
        // Counts at the end of a line are left out where they are zero.
        let instructions = at(self.instructions_at).unwrap_or(0);
        let current = self.current.ok_or(Fault::Unreadable)?;
        let function = &mut self.functions[current];
        function.inclusive = function.inclusive.saturating_add(instructions);
        if std::mem::take(&mut self.in_call) {
            let called = self.called.ok_or(Fault::Unreadable)?;
            let between = self.calls.entry((current, called)).or_default();
            *between = between.saturating_add(instructions);
            return Ok(());
        }
        function.own = function.own.saturating_add(instructions);
        let reads_clock = |reader: &&str| function.name.contains(*reader);
        if !CLOCK_READERS.iter().any(reads_clock) {
            let system_calls = at(self.system_calls_at).unwrap_or(0);
            self.system_calls = self.system_calls.saturating_add(system_calls);
        }
        Ok(())
    }

    fn function(&mut self, name: String, object: String) -> Result<usize, Fault> {
        if let Some(&index) = self.index.get(&(name.clone(), object.clone())) {
            return Ok(index);
        }
        if self.functions.len() >= MOST_FUNCTIONS {
            return Err(Fault::TooMany);
        }
        self.functions.push(Function {
            name: name.clone(),
            object: object.clone(),
            ..Function::default()
        });
        self.index.insert((name, object), self.functions.len() - 1);
        Ok(self.functions.len() - 1)
    }

    fn finish(self) -> Result<Profile, ProfileError> {
        if self.instructions_at.is_none() {
            return Err(ProfileError::NoInstructions);
        }
        let calls = self.calls.into_iter();
        let mut calls: Vec<Call> = calls
            .map(|((caller, called), inclusive)| Call {
                caller,
                called,
                inclusive,
            })
            .collect();
        calls.sort_unstable_by_key(|call| (call.caller, call.called));
        let own = self.functions.iter().map(|function| function.own);
        let allocators = self
            .functions
            .iter()
            .filter(|function| ALLOCATORS.contains(&function.name.as_str()));
        Ok(Profile {
            instructions: own.fold(0, u64::saturating_add),
            system_calls: self.system_calls_at.map(|_| self.system_calls),
            allocations: allocators
                .map(|function| function.calls)
                .fold(0, u64::saturating_add),
            calls,
            functions: self.functions,
        })
    }
}

/// The name in `(12) name` or, after its first use, in `(12)`; a name without a number is taken as it is.
fn named(names: &mut HashMap<u64, String>, value: &str) -> Result<String, Fault> {
    let Some((number, name)) = value
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(')'))
    else {
        return Ok(value.to_owned());
    };
    let number: u64 = number.parse().map_err(|_| Fault::Unreadable)?;
    let name = name.trim_start();
    if name.is_empty() {
        return names.get(&number).cloned().ok_or(Fault::Unreadable);
    }
    if names.len() >= MOST_FUNCTIONS {
        return Err(Fault::TooMany);
    }
    names.insert(number, name.to_owned());
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "\
# callgrind format
version: 1
creator: callgrind-3.19.0
cmd: redis-server
positions: line
events: Ir sysCount sysTime
summary: 700 3 9000

ob=(1) /usr/bin/redis-server
fl=(1) db.c
fn=(1) lookupKey
16 400
+4 50
cob=(2) /usr/lib/libc.so.6
cfi=(2) malloc.c
cfn=(2) malloc
calls=2 30
* 120
fn=(3) processCommand
20 100 3 9000
cfn=(1)
calls=10 16
+1 570

ob=(2)
fn=(2)
30 120
jump=3 4
-2 30
";

    #[test]
    fn own_and_inclusive_counts_are_added_up_by_function() {
        let profile = parse(SMALL).unwrap();
        assert_eq!(profile.instructions, 700);
        assert_eq!(profile.system_calls, Some(3));
        assert_eq!(profile.allocations, 2);
        assert_eq!(profile.background(), 0);
        let with_clock = SMALL.replace("processCommand", "__gettimeofday_syscall");
        assert_eq!(parse(&with_clock).unwrap().system_calls, Some(0));
        let with_timer = SMALL.replace("processCommand", "serverCron");
        assert_eq!(parse(&with_timer).unwrap().background(), 670);
        let of = |name: &str| {
            let mut found = profile.functions.iter().filter(|of| of.name == name);
            let function = found.next().unwrap();
            assert_eq!(found.next(), None);
            (function.own, function.inclusive, function.calls)
        };
        assert_eq!(of("lookupKey"), (450, 570, 10));
        assert_eq!(of("processCommand"), (100, 670, 0));
        assert_eq!(of("malloc"), (150, 150, 2));
        let object = |index: usize| profile.functions[index].object.as_str();
        assert_eq!(
            [object(0), object(1)],
            ["/usr/bin/redis-server", "/usr/lib/libc.so.6"]
        );
    }

    #[test]
    fn malformed_profile_is_refused() {
        let refused = |text: &str| parse(text).unwrap_err();
        assert_eq!(refused(""), ProfileError::NoInstructions);
        assert_eq!(refused("events: Cy\n"), ProfileError::NoInstructions);
        let line = |line| ProfileError::Line { line };
        // A number that was never defined, a call of an unknown function, a cost outside of a function.
        assert_eq!(refused("events: Ir\nfn=(7)\n"), line(2));
        assert_eq!(refused("events: Ir\nfn=(1) a\ncalls=1 2\n"), line(3));
        assert_eq!(refused("events: Ir\n1 2\n"), line(2));
        assert_eq!(refused("hello\n"), line(1));
    }

    #[test]
    fn counts_saturate_and_do_not_overflow() {
        let huge = format!("events: Ir\nfn=(1) a\n1 {0}\n1 {0}\n", u64::MAX);
        assert_eq!(parse(&huge).unwrap().instructions, u64::MAX);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(events: Ir\n)?([a-z]{1,4}=\\(?[0-9]{0,3}\\)?[ -~]{0,8}\n|[+*0-9][0-9 ]{0,12}\n|[ -~]{0,20}\n){0,30}") {
            let _ = parse(&text);
        }
    }
}
