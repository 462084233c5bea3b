//! Spans of time in which agents measured.

/// Start and end of a round in nanoseconds since 1970.
pub(super) type Span = (u64, u64);

/// The time in which agents measured, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Covered {
    /// At least one of them.
    pub(super) any_ns: u64,
    /// All of them.
    pub(super) all_ns: u64,
}

impl Covered {
    /// The time covered by `agents`, each with its rounds.
    pub(super) fn by(agents: &[Vec<Span>]) -> Self {
        let mut events: Vec<(u64, i64)> = Vec::new();
        for spans in agents {
            for (start, end) in joined(spans.clone()) {
                events.extend([(start, 1), (end, -1)]);
            }
        }
        events.sort_unstable();
        let mut covered = Self {
            any_ns: 0,
            all_ns: 0,
        };
        let (mut depth, mut since) = (0_i64, 0);
        for (at, step) in events {
            let length = at - since;
            if depth > 0 {
                covered.any_ns += length;
            }
            if depth == agents.len() as i64 {
                covered.all_ns += length;
            }
            depth += step;
            since = at;
        }
        covered
    }
}

/// The same spans, in order and without overlaps.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    for (start, end) in spans {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_any_and_of_all_agents_is_added_up() {
        for (agents, any_ns, all_ns) in [
            (vec![vec![(10, 20)]], 10, 10),
            (vec![vec![(10, 20)], vec![(10, 20)]], 10, 10),
            (vec![vec![(10, 20)], vec![(15, 25)]], 15, 5),
            (vec![vec![(10, 20)], vec![(30, 40)]], 20, 0),
            (vec![vec![(10, 20), (20, 30)], vec![(12, 28)]], 20, 16),
            (vec![vec![(10, 20), (15, 18)], vec![(10, 20)]], 10, 10),
            (vec![vec![(10, 40)], vec![(10, 20), (30, 40)]], 30, 20),
            (vec![vec![(10, 20)], vec![]], 10, 0),
        ] {
            let covered = Covered::by(&agents);
            assert_eq!(covered, Covered { any_ns, all_ns }, "{agents:?}");
        }
    }
}
