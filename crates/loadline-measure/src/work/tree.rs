//! The work of an operation as a tree of calls, for flame graphs.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::callgrind::{Profile, is_timer};

/// Frames that a tree has at most.
const MOST_FRAMES: usize = 2_000;
/// Calls within calls at most.
const DEEPEST: usize = 80;
/// Characters of a name in a stack at most.
const LONGEST_NAME: usize = 200;
/// A call that executes less than this share of all instructions is part of its caller.
const LEAST_SHARE: f64 = 0.001;

/// A function where it was called: one node of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// The name of the function, or its address if the program has no symbols.
    pub name: String,
    /// The place of the caller in the list, before this frame. `None` for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// Instructions per operation of the function itself, with those of calls that are too small to show.
    pub own: f64,
}

/// The tree of `profile`, a pass of `ops` operations, without the functions that timers run.
///
/// A profile has the cost of each function and of each pair of caller and called, and no stacks. The cost of a function
/// under one of its callers is taken to be spread over its own calls as it is on the whole (Graham, Kessler and
/// `McKusick`, "gprof: a call graph execution profiler", 1982). A function that is called while it runs is part of the
/// outer call.
#[must_use]
pub fn tree(profile: &Profile, ops: u64) -> Vec<Frame> {
    let graph = Graph::of(profile);
    let mut growing = Growing {
        profile,
        graph: &graph,
        least: LEAST_SHARE * profile.instructions as f64,
        frames: Vec::new(),
        functions: Vec::new(),
    };
    for function in 0..profile.functions.len() {
        // A weight that no caller accounts for: the function was entered before the pass began, or by the kernel.
        let weight = graph.whole[function] - graph.received[function];
        growing.grow(function, weight, None);
    }
    let ops = ops.max(1) as f64;
    for frame in &mut growing.frames {
        frame.own /= ops;
    }
    growing.frames
}

/// The execution of a function for timers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Share {
    /// Itself.
    pub(super) own: f64,
    /// With all that it calls.
    pub(super) whole: f64,
}

/// The execution of each function of `profile` for timers, divided among callers as in a [`tree`].
pub(super) fn under_timers(profile: &Profile) -> Vec<Share> {
    let graph = Graph::of(profile);
    let mut growing = Growing {
        profile,
        graph: &graph,
        least: 1.0,
        frames: Vec::new(),
        functions: Vec::new(),
    };
    for (place, function) in profile.functions.iter().enumerate() {
        if is_timer(&function.name) {
            growing.grow(place, graph.whole[place], None);
        }
    }
    let mut shares = vec![Share::default(); profile.functions.len()];
    // Children come after their parents, so each is complete when it is added to its parent.
    let mut whole: Vec<f64> = growing.frames.iter().map(|frame| frame.own).collect();
    for place in (0..growing.frames.len()).rev() {
        let frame = &growing.frames[place];
        if let Some(parent) = frame.parent {
            whole[parent as usize] += whole[place];
        }
        let share = &mut shares[growing.functions[place]];
        share.own += frame.own;
        share.whole += whole[place];
    }
    shares
}

/// Instructions of each stack of `frames`, by the names of its functions from the root on, joined by `;`.
#[must_use]
pub fn stacks(frames: &[Frame]) -> HashMap<String, f64> {
    // With the number of callers above each. A record is read from a file, so all of this is bounded.
    let mut paths: Vec<(String, usize)> = Vec::new();
    let mut found = HashMap::new();
    for frame in frames.iter().take(MOST_FRAMES) {
        let name: String = frame
            .name
            .chars()
            .take(LONGEST_NAME)
            // A name can contain the separator, such as that of a function over arrays.
            .map(|c| if c == ';' || c.is_control() { ':' } else { c })
            .collect();
        // A parent that does not come before its child is none.
        let parent = frame.parent.and_then(|parent| paths.get(parent as usize));
        let (path, depth) = match parent {
            Some((parent, depth)) if *depth < DEEPEST => (format!("{parent};{name}"), depth + 1),
            _ => (name, 0),
        };
        *found.entry(path.clone()).or_insert(0.0) += frame.own;
        paths.push((path, depth));
    }
    found
}

/// The calls of a profile by caller, without those of timers and without recursion.
struct Graph {
    calls: Vec<Vec<(usize, f64)>>,
    /// Instructions of each function with its calls.
    whole: Vec<f64>,
    /// Those of them that its callers account for.
    received: Vec<f64>,
}

impl Graph {
    fn of(profile: &Profile) -> Self {
        let functions = &profile.functions;
        let mut graph = Self {
            calls: vec![Vec::new(); functions.len()],
            whole: functions.iter().map(|of| of.own as f64).collect(),
            received: vec![0.0; functions.len()],
        };
        for call in &profile.calls {
            let instructions = call.inclusive as f64;
            if call.caller == call.called {
                continue;
            }
            graph.received[call.called] += instructions;
            if is_timer(&functions[call.called].name) {
                continue;
            }
            graph.whole[call.caller] += instructions;
            graph.calls[call.caller].push((call.called, instructions));
        }
        graph
    }
}

/// A tree that grows from its roots.
struct Growing<'g> {
    profile: &'g Profile,
    graph: &'g Graph,
    /// Instructions below which a call is part of its caller.
    least: f64,
    frames: Vec<Frame>,
    /// The function of each frame.
    functions: Vec<usize>,
}

impl Growing<'_> {
    /// Adds `function` with `weight` instructions under the frame `parent`, and what it calls, breadth first.
    fn grow(&mut self, function: usize, weight: f64, parent: Option<u32>) {
        let mut waiting = std::collections::VecDeque::from([(function, weight, parent, 0)]);
        while let Some((function, weight, parent, depth)) = waiting.pop_front() {
            if weight < self.least || weight <= 0.0 {
                continue;
            }
            let share = (weight / self.graph.whole[function]).min(1.0);
            let place = self.frames.len();
            let mut own = weight;
            self.frames.push(Frame {
                name: self.profile.functions[function].name.clone(),
                parent,
                own: 0.0,
            });
            self.functions.push(function);
            for &(called, instructions) in &self.graph.calls[function] {
                let instructions = share * instructions;
                let has_room = self.frames.len() + waiting.len() < MOST_FRAMES;
                let is_shown = instructions >= self.least && has_room && depth < DEEPEST;
                if is_shown && !self.is_running(called, place) {
                    own -= instructions;
                    waiting.push_back((called, instructions, Some(place as u32), depth + 1));
                }
            }
            self.frames[place].own = own.max(0.0);
        }
    }

    /// Whether `function` is at `place` or above it.
    fn is_running(&self, function: usize, place: usize) -> bool {
        let mut at = Some(place);
        while let Some(place) = at {
            if self.functions[place] == function {
                return true;
            }
            at = self.frames[place].parent.map(|parent| parent as usize);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::callgrind;
    use super::*;

    /// `main` calls `get` and `set`, both call `find`, and a timer runs.
    const CALLS: &str = "\
events: Ir
fn=(1) main
1 100
cfn=(2) get
calls=10 1
1 600
cfn=(3) set
calls=10 1
1 300
cfn=(4) serverCron
calls=1 1
1 5000
fn=(2)
1 200
cfn=(5) find
calls=10 1
1 400
fn=(3)
1 200
cfn=(5)
calls=5 1
1 100
fn=(4)
1 5000
fn=(5)
1 450
cfn=(6) find;again
calls=15 1
1 50
fn=(6)
1 40
cfn=(5)
calls=1 1
1 10
";

    #[test]
    fn costs_are_divided_among_callers_and_timers_are_left_out() {
        let profile = callgrind::parse(CALLS).unwrap();
        let found = stacks(&tree(&profile, 10));
        let of = |path: &str| (found[path] * 10.0).round() / 10.0;
        assert_eq!(of("main"), 10.0);
        assert_eq!(of("main;get"), 20.0);
        assert_eq!(of("main;set"), 20.0);
        // Four fifths of `find` belong to `get`.
        let in_get = of("main;get;find") + of("main;get;find;find:again");
        let in_set = of("main;set;find") + of("main;set;find;find:again");
        assert!((in_get - 40.0).abs() < 1.0, "{found:?}");
        assert!((in_set - 10.0).abs() < 1.0, "{found:?}");
        assert!(
            found.keys().all(|path| !path.contains("serverCron")),
            "{found:?}"
        );
        let whole: f64 = found.values().sum();
        assert!((whole - 100.0).abs() < 1.5, "{whole}");
    }

    #[test]
    fn timer_work_is_counted_apart() {
        let text = "\
events: Ir
fn=(1) main
1 100
cfn=(2) lock
calls=1 1
1 30
cfn=(3) serverCron
calls=1 1
1 120
fn=(2)
1 50
fn=(3)
1 100
cfn=(2)
calls=1 1
1 20
";
        let profile = callgrind::parse(text).unwrap();
        let place = |name: &str| {
            let mut names = profile.functions.iter().map(|function| &function.name);
            names.position(|known| known == name).unwrap()
        };
        let shares = under_timers(&profile);
        let share = |own, whole| Share { own, whole };
        assert_eq!(shares[place("main")], share(0.0, 0.0));
        assert_eq!(shares[place("lock")], share(20.0, 20.0));
        assert_eq!(shares[place("serverCron")], share(100.0, 120.0));
        let work = super::super::per_operation(&profile, 1);
        let own: Vec<(&str, f64)> = work.iter().map(|of| (of.name.as_str(), of.own)).collect();
        assert_eq!(own, [("main", 100.0), ("lock", 30.0)]);
    }

    #[test]
    fn parent_that_is_not_there_makes_a_root() {
        let frame = |name: &str, parent| Frame {
            name: name.to_owned(),
            parent,
            own: 1.0,
        };
        let frames = [
            frame("a", Some(1)),
            frame("b", Some(0)),
            frame("c", Some(99)),
        ];
        let mut paths: Vec<String> = stacks(&frames).into_keys().collect();
        paths.sort();
        assert_eq!(paths, ["a", "a;b", "c"]);
    }
}
