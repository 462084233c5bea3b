//! Places, kept as the scores of sorted sets.

mod hash;
mod search;

use loadline_store::{SortedView, View};

use super::numbers::{decimal_text, score};
use super::refusal::{NOT_FLOAT, Refusal, SYNTAX, WRONG_TYPE};
use super::reply::Reply;
use super::sorted_sets::zadd;
use super::{Call, Keys, Listed, ONE, TWO, Words, is, listed};
use hash::Coordinates;
use loadline_resp::Protocol;

pub(super) const TABLE: &[Listed] = &[
    listed("GEOADD", -5, ONE, geoadd),
    listed("GEODIST", -4, ONE, geodist),
    listed("GEOHASH", -2, ONE, |call, words| {
        each(call, words, |place, reply| match place {
            Some(place) => reply.bulk(place.text().as_bytes()),
            None => reply.null(),
        })
    }),
    listed("GEOPOS", -2, ONE, |call, words| {
        each(call, words, |place, reply| match place {
            Some(place) => reply_place(place, reply),
            None => reply.null_array(),
        })
    }),
    listed("GEORADIUS", -6, Keys::OneAndStored(6), |call, words| {
        search::search(call, words, search::Kind::Radius { may_store: true })
    }),
    listed("GEORADIUS_RO", -6, ONE, |call, words| {
        search::search(call, words, search::Kind::Radius { may_store: false })
    }),
    listed(
        "GEORADIUSBYMEMBER",
        -5,
        Keys::OneAndStored(5),
        |call, words| search::search(call, words, search::Kind::ByMember { may_store: true }),
    ),
    listed("GEORADIUSBYMEMBER_RO", -5, ONE, |call, words| {
        search::search(call, words, search::Kind::ByMember { may_store: false })
    }),
    listed("GEOSEARCH", -7, ONE, |call, words| {
        search::search(call, words, search::Kind::Search)
    }),
    listed("GEOSEARCHSTORE", -8, TWO, |call, words| {
        search::search(call, words, search::Kind::SearchStore)
    }),
];

fn geoadd(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let is_option = |word: &&&[u8]| ["NX", "XX", "CH"].iter().any(|option| is(word, option));
    let options = words[2..].iter().take_while(is_option).count();
    let (options, members) = words.split_at(2 + options);
    let has = |name: &str| options[2..].iter().any(|option| is(option, name));
    if !members.len().is_multiple_of(3) || has("NX") && has("XX") {
        return Err(SYNTAX.into());
    }
    let members = members.chunks_exact(3);
    let scores = members
        .clone()
        .map(|member| Ok(place(member[0], member[1])?.score().to_string()));
    let scores: Vec<String> = scores.collect::<Result<_, Refusal>>()?;
    let mut words = options.to_vec();
    for (score, member) in scores.iter().zip(members) {
        words.extend([score.as_bytes(), member[2]]);
    }
    zadd(call, &words, false)
}

fn geodist(call: &mut Call<'_>, words: Words<'_>) -> Result<(), Refusal> {
    let unit = match words[4..] {
        [] => 1.0,
        [unit] => meters(unit)?,
        _ => return Err(SYNTAX.into()),
    };
    look(call, words[1], |set, reply| {
        let place = |member| set.score(member).map(Coordinates::of_score);
        match place(words[2]).zip(place(words[3])) {
            Some((one, other)) => reply_distance(one.distance(other) / unit, reply),
            None => reply.null(),
        }
    })
}

/// Writes something about the place of each member.
fn each(
    call: &mut Call<'_>,
    words: Words<'_>,
    write: impl Fn(Option<Coordinates>, &mut Reply<'_>),
) -> Result<(), Refusal> {
    look(call, words[1], |set, reply| {
        reply.array(words.len() - 2);
        for member in &words[2..] {
            write(set.score(member).map(Coordinates::of_score), reply);
        }
    })
}

/// Passes the set at `key` to a closure; an empty one if there is no key.
fn look(
    call: &mut Call<'_>,
    key: &[u8],
    look: impl FnOnce(SortedView<'_>, &mut Reply<'_>),
) -> Result<(), Refusal> {
    call.show(key, |value, reply| {
        let set = match value {
            Some(View::Sorted(set)) => set,
            Some(_) => return Err(WRONG_TYPE.into()),
            None => SortedView::empty(),
        };
        look(set, reply);
        Ok(())
    })
}

/// Reads a longitude and a latitude.
fn place(longitude: &[u8], latitude: &[u8]) -> Result<Coordinates, Refusal> {
    let place = Coordinates {
        longitude: score(longitude).ok_or(NOT_FLOAT)?,
        latitude: score(latitude).ok_or(NOT_FLOAT)?,
    };
    if place.is_valid() {
        return Ok(place);
    }
    let Coordinates {
        longitude,
        latitude,
    } = place;
    Err(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}").into())
}

/// The meters of a unit.
fn meters(unit: &[u8]) -> Result<f64, Refusal> {
    const UNITS: [(&str, f64); 4] = [
        ("m", 1.0),
        ("km", 1_000.0),
        ("ft", 0.3048),
        ("mi", 1_609.34),
    ];
    let found = UNITS.iter().find(|(name, _)| is(unit, name));
    let found = found.map(|(_, meters)| *meters);
    Ok(found.ok_or("ERR unsupported unit provided. please use M, KM, FT, MI")?)
}

/// Writes a distance with four decimals.
fn reply_distance(distance: f64, reply: &mut Reply<'_>) {
    let units = (distance * 10_000.0).round_ties_even() as i64;
    let text = format!("{}.{:04}", units / 10_000, units % 10_000);
    reply.bulk(text.as_bytes());
}

fn reply_place(place: Coordinates, reply: &mut Reply<'_>) {
    reply.array(2);
    for degrees in [place.longitude, place.latitude] {
        let text = decimal_text(degrees);
        match reply.protocol {
            Protocol::Resp2 => reply.bulk(text.as_bytes()),
            Protocol::Resp3 => reply.encoded(format!(",{text}\r\n").as_bytes()),
        }
    }
}
