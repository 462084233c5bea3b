//! A measurement of tiers as words on a command line.

use clap::Parser;

use super::*;
use crate::args::{Cli, Command};

fn plan(words: &[&str]) -> Result<TiersPlan, String> {
    let words = ["loadline", "tiers"].iter().chain(words);
    let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
    let Command::Tiers(args) = cli.command else {
        unreachable!("the command is tiers")
    };
    let around = Surroundings {
        cores: 2,
        has_redis_server: true,
        password: None,
        may_mount: false,
        memory_bytes: Some(8 << 30),
        entropy: 1,
        bundles: &[],
    };
    resolve(&args, &around).map_err(|failure| failure.to_string())
}

fn stage(plan: &TiersPlan, group: TierGroup) -> &TierStage {
    let mut stages = plan.stages.iter();
    stages.find(|stage| stage.group == group).unwrap()
}

#[test]
fn default_plan_is_a_floor_in_every_tier_of_the_build() {
    let plan = plan(&[]).unwrap();
    let names: Vec<&str> = plan
        .places
        .iter()
        .map(|place| place.name.as_str())
        .collect();
    assert_eq!(names[..3], ["redis", "redis-unix", "store"]);
    assert_eq!((plan.hit_ratio, plan.base.cases[0].keys), (0.8, 64));
    let names: Vec<&str> = plan.stages.iter().map(|stage| stage.group.name()).collect();
    assert_eq!(names, ["tiers", "codecs", "batches", "set-up"]);
    // Everything that a verdict compares is in the same rounds.
    let tiers = &stage(&plan, TierGroup::Tiers).arms;
    assert_eq!(tiers[0].step, ArmOp::Recompute);
    for place in 0..plan.places.len() {
        for op in [TierOp::Get, TierOp::Miss, TierOp::Set] {
            assert!(tiers.iter().any(|arm| arm.step == ArmOp::Tier(place, op)));
        }
    }
    let text = plan.describe().to_text();
    assert!(
        text.contains("64 objects, encoded as columns; expected hit ratio 80 %"),
        "{text}"
    );
}

#[test]
fn latency_is_a_tier_of_its_own_after_the_first_server() {
    let plan = plan(&["heed", "redis", "--latency", "0,1ms,500us,1ms"]).unwrap();
    let names: Vec<&str> = plan
        .places
        .iter()
        .map(|place| place.name.as_str())
        .collect();
    assert_eq!(names, ["redis", "redis +1ms", "redis +500us", "heed"]);
    assert_eq!(plan.base.targets.len(), 2);
}

#[test]
fn every_flaw_is_in_the_same_rounds_as_the_right_way() {
    let plan = plan(&["redis", "--reproduce"]).unwrap();
    let arms = &stage(&plan, TierGroup::Reproduce).arms;
    for flawed in Flawed::ALL {
        assert!(arms.iter().any(|arm| arm.step == ArmOp::Flawed(0, flawed)));
    }
    for op in [TierOp::Get, TierOp::Set, TierOp::RoundTrip] {
        for encoding in [Encoding::Columns, Encoding::ProtobufTiles] {
            let right =
                |arm: &Arm| arm.step == ArmOp::Tier(0, op) && arm.format == Format::plain(encoding);
            assert!(arms.iter().any(right), "{op:?} {encoding}");
        }
    }
}

#[test]
fn store_has_the_weakest_durability_that_it_knows() {
    let plan = plan(&["store", "redb"]).unwrap();
    let classes = plan.base.targets.iter().map(|target| match target {
        Target::Engine(engine) => engine.durability.to_string(),
        other => panic!("{other}"),
    });
    assert_eq!(classes.collect::<Vec<_>>(), ["process", "interval:1s"]);
}

#[test]
fn default_tiers_take_a_minute_at_most_and_have_rounds_for_an_answer() {
    let plan = plan(&[]).unwrap();
    assert!(plan.base.rounds >= 10, "{} rounds", plan.base.rounds);
    let estimate = plan.describe().estimate().unwrap();
    let (least, most) = (Duration::from_secs(30), Duration::from_secs(60));
    assert!((least..=most).contains(&estimate.most), "{estimate:?}");
}
