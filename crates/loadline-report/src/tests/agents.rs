//! Records of several load generators, of which some were lost.

use loadline_measure::record::{Agent, AgentCase, LostAgent, Record};

use super::{PIPE, fixture};
use crate::{html, markdown, text};

/// An open loop of two agents that are there; `lost` are not.
fn record(lost: &[(u64, &str, Option<&str>)]) -> Record {
    let mut record = fixture::open_loop();
    record.cases[0].subject.target = "redis://db".to_owned();
    let agent = |rank| Agent {
        rank,
        cases: vec![AgentCase::default()],
        ..Agent::default()
    };
    record.agents = vec![agent(0), agent(1)];
    let lost = lost.iter().map(|(rank, reason, run)| LostAgent {
        rank: *rank,
        reason: (*reason).to_owned(),
        run: run.map(str::to_owned),
    });
    record.lost_agents = lost.collect();
    record
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const SILENT: &str = "agent 2 sent nothing for 2200 ms";
const LEFT: &str = "Keys of agent 2 can be left on the target; `loadline clean redis://db --run 3k9fz0cd` removes them.";

#[test]
fn incomplete_run_has_no_result_and_names_lost_agents_and_their_keys() {
    let lost = [
        (2, SILENT, Some("3k9fz0cd")),
        (3, "agent 3 did not join", None),
    ];
    let mut record = record(&lost);
    record.run.cut_short = true;
    let text = one_line(&text(&record, &PIPE));
    let verdict = "INCOMPLETE: agent 2 sent nothing for 2200 ms; agent 3 did not join. \
                   The figures below are of a part of the run.";
    assert!(text.contains(verdict), "{text}");
    assert!(
        text.contains(LEFT) && !text.contains("agent 3 can"),
        "{text}"
    );
    assert!(!text.contains("operations per second: p50"), "{text}");
    for page in [markdown(&record), html(&record)] {
        assert!(page.contains("INCOMPLETE: agent 2"), "{page}");
        assert!(page.contains("3k9fz0cd"), "{page}");
    }
}

#[test]
fn degraded_run_says_with_its_result_which_agents_are_missing() {
    let record = record(&[(2, SILENT, Some("3k9fz0cd"))]);
    let text = one_line(&text(&record, &PIPE));
    let result =
        "(open loop), DEGRADED: from 2 agents only, because agent 2 sent nothing for 2200 ms.";
    assert!(text.contains(result), "{text}");
    assert!(text.contains(LEFT), "{text}");
    assert!(!text.contains("INCOMPLETE"), "{text}");
}

#[test]
fn keys_of_a_lost_agent_are_named_on_each_target_that_it_compared() {
    let mut record = record(&[(2, SILENT, Some("3k9fz0cd"))]);
    record.run.cut_short = true;
    let mut other = record.cases[0].clone();
    other.subject.target = "redis://other".to_owned();
    record.cases.extend([record.cases[0].clone(), other]);
    let text = one_line(&text(&record, &PIPE));
    let second = LEFT.replace("redis://db", "redis://other");
    assert_eq!(text.matches(LEFT).count(), 1, "{text}");
    assert_eq!(text.matches(&second).count(), 1, "{text}");
}

#[test]
fn complete_run_of_agents_says_how_many() {
    let text = one_line(&text(&record(&[]), &PIPE));
    assert!(text.contains("(open loop), from 2 agents."), "{text}");
    assert!(!text.contains("can be left"), "{text}");
}
