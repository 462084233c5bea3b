//! GEOSEARCH, GEORADIUS and their relatives.

use std::cmp::Ordering;

use loadline_store::{SortedSet, SortedView, View};

use super::super::numbers::{integer, score};
use super::super::refusal::{Refusal, SYNTAX, WRONG_TYPE, shown};
use super::super::sorted_sets::{set_score, store};
use super::super::{Call, Words, is};
use super::hash::{Coordinates, Form, Shape};
use super::{meters, place, reply_distance, reply_place};

/// The command, by what its words mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Key, longitude, latitude, radius and unit, then options.
    Radius { may_store: bool },
    /// Key, member, radius and unit, then options.
    ByMember { may_store: bool },
    /// Key, then options.
    Search,
    /// Two keys, then options.
    SearchStore,
}

impl Kind {
    fn is_search(self) -> bool {
        matches!(self, Self::Search | Self::SearchStore)
    }

    fn may_store(self) -> bool {
        matches!(
            self,
            Self::Radius { may_store: true } | Self::ByMember { may_store: true }
        )
    }
}

/// The order of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Nearest,
    Farthest,
}

/// An option of GEOSEARCH for the center.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Member,
    Coordinates,
}

/// A search as its words describe it.
#[derive(Debug, Default)]
struct Search<'w> {
    center: Option<Coordinates>,
    /// The option that gave the center.
    from: Option<From>,
    form: Option<(Form, f64)>,
    has_distances: bool,
    has_hashes: bool,
    has_places: bool,
    order: Option<Order>,
    /// The most results; 0 for all.
    count: usize,
    /// Whether the search ends with the first `count` results that it finds.
    any: bool,
    target: Option<&'w [u8]>,
    stores_distances: bool,
}

/// A member in the searched area, with its distance in meters.
#[derive(Debug)]
struct Neighbor {
    member: Vec<u8>,
    score: f64,
    distance: f64,
}

pub(super) fn search(call: &mut Call<'_>, words: Words<'_>, kind: Kind) -> Result<(), Refusal> {
    let key = words[if kind == Kind::SearchStore { 2 } else { 1 }];
    let (search, found) = call.show(key, |value, _| {
        let set = match value {
            None => None,
            Some(View::Sorted(set)) => Some(set),
            Some(_) => return Err(Refusal::from(WRONG_TYPE)),
        };
        let search = Search::parse(words, kind, set)?;
        let found = set.map_or_else(Vec::new, |set| search.find(set));
        Ok((search, found))
    })?;
    match search.target {
        Some(target) => search.store(call, target, &found),
        None => search.reply(call, &found),
    }
    Ok(())
}

impl<'w> Search<'w> {
    fn parse(words: Words<'w>, kind: Kind, set: Option<SortedView<'_>>) -> Result<Self, Refusal> {
        let mut search = Self::default();
        let options = match kind {
            Kind::Radius { .. } => {
                search.center = Some(place(words[2], words[3])?);
                search.form = Some(circle(&words[4..6])?);
                &words[6..]
            }
            Kind::ByMember { .. } => {
                if let Some(set) = set {
                    search.center = Some(place_of(set, words[2])?);
                    search.form = Some(circle(&words[3..5])?);
                }
                &words[5..]
            }
            Kind::Search => &words[2..],
            Kind::SearchStore => {
                search.target = Some(words[1]);
                &words[3..]
            }
        };
        let mut place = 0;
        while place < options.len() {
            place += search.read(&options[place..], kind, set)?;
        }
        search.check(words[0], kind)?;
        Ok(search)
    }

    /// Reads an option and returns the number of its words.
    fn read(
        &mut self,
        words: &[&'w [u8]],
        kind: Kind,
        set: Option<SortedView<'_>>,
    ) -> Result<usize, Refusal> {
        let names = |name: &str, values: usize| is(words[0], name) && words.len() > values;
        let is_search = kind.is_search();
        let is_box = matches!(self.form, Some((Form::Box { .. }, _)));
        let is_circle = matches!(self.form, Some((Form::Circle { .. }, _)));
        match () {
            () if names("WITHDIST", 0) => self.has_distances = true,
            () if names("WITHHASH", 0) => self.has_hashes = true,
            () if names("WITHCOORD", 0) => self.has_places = true,
            () if names("ANY", 0) => self.any = true,
            () if names("ASC", 0) => self.order = Some(Order::Nearest),
            () if names("DESC", 0) => self.order = Some(Order::Farthest),
            () if names("COUNT", 1) => {
                let count = usize::try_from(integer(words[1])?).unwrap_or(0);
                if count == 0 {
                    return Err("ERR COUNT must be > 0".into());
                }
                self.count = count;
                return Ok(2);
            }
            () if kind.may_store() && (names("STORE", 1) || names("STOREDIST", 1)) => {
                self.target = Some(words[1]);
                self.stores_distances = is(words[0], "STOREDIST");
                return Ok(2);
            }
            () if kind == Kind::SearchStore && names("STOREDIST", 0) => {
                self.stores_distances = true;
            }
            () if is_search && names("FROMMEMBER", 1) && self.from != Some(From::Coordinates) => {
                // Without a set, the other words are read all the same.
                if let Some(set) = set {
                    self.center = Some(place_of(set, words[1])?);
                }
                self.from = Some(From::Member);
                return Ok(2);
            }
            () if is_search && names("FROMLONLAT", 2) && self.from != Some(From::Member) => {
                self.center = Some(place(words[1], words[2])?);
                self.from = Some(From::Coordinates);
                return Ok(3);
            }
            () if is_search && names("BYRADIUS", 2) && !is_box => {
                self.form = Some(circle(&words[1..3])?);
                return Ok(3);
            }
            () if is_search && names("BYBOX", 3) && !is_circle => {
                self.form = Some(rectangle(&words[1..4])?);
                return Ok(4);
            }
            () => return Err(SYNTAX.into()),
        }
        Ok(1)
    }

    fn check(&self, name: &[u8], kind: Kind) -> Result<(), Refusal> {
        let name = shown(name, name.len());
        let has_details = self.has_distances || self.has_hashes || self.has_places;
        if self.target.is_some() && has_details {
            let command = match kind {
                Kind::SearchStore => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            return Err(format!(
                "ERR {command} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )
            .into());
        }
        if kind.is_search() && self.from.is_none() {
            let text = b"ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ";
            return Err([&text[..], name].into());
        }
        if kind.is_search() && self.form.is_none() {
            let text = b"ERR exactly one of BYRADIUS and BYBOX can be specified for ";
            return Err([&text[..], name].into());
        }
        if self.any && self.count == 0 {
            return Err("ERR the ANY argument requires COUNT argument".into());
        }
        Ok(())
    }

    /// The members in the area, in the order of the reply.
    fn find(&self, set: SortedView<'_>) -> Vec<Neighbor> {
        let Some((center, (form, unit))) = self.center.zip(self.form) else {
            return vec![];
        };
        let shape = Shape { center, form, unit };
        let mut found = Vec::new();
        let is_enough = |found: &Vec<Neighbor>| self.any && found.len() >= self.count;
        for (least, most) in shape.scores() {
            let ranks = set.between(|_, score| score < least, |_, score| score >= most);
            for (member, score) in set.range(ranks) {
                if is_enough(&found) {
                    break;
                }
                let distance = shape.distance(Coordinates::of_score(score));
                found.extend(distance.map(|distance| Neighbor {
                    member: member.to_vec(),
                    score,
                    distance: distance / unit,
                }));
            }
        }
        let is_sorted = self.count > 0 && !self.any;
        let by_distance = |one: &Neighbor, other: &Neighbor| {
            let order = one.distance.partial_cmp(&other.distance);
            order.unwrap_or(Ordering::Equal)
        };
        match self.order {
            Some(Order::Farthest) => found.sort_by(|one, other| by_distance(other, one)),
            Some(Order::Nearest) => found.sort_by(by_distance),
            None if is_sorted => found.sort_by(by_distance),
            None => {}
        }
        if self.count > 0 {
            found.truncate(self.count);
        }
        found
    }

    fn reply(&self, call: &mut Call<'_>, found: &[Neighbor]) {
        let details = [self.has_distances, self.has_hashes, self.has_places];
        let details = details.iter().filter(|is_asked| **is_asked).count();
        let mut reply = call.reply();
        reply.array(found.len());
        for one in found {
            if details > 0 {
                reply.array(details + 1);
            }
            reply.bulk(&one.member);
            if self.has_distances {
                reply_distance(one.distance, &mut reply);
            }
            if self.has_hashes {
                reply.integer(one.score as i64);
            }
            if self.has_places {
                reply_place(Coordinates::of_score(one.score), &mut reply);
            }
        }
    }

    /// Stores the members in the place of what is at `target`, with their geohashes or distances as scores.
    fn store(&self, call: &mut Call<'_>, target: &[u8], found: &[Neighbor]) {
        let mut set = SortedSet::new();
        for one in found {
            let score = match self.stores_distances {
                true => one.distance,
                false => one.score,
            };
            set_score(&mut set, &one.member, score, &call.shared.settings);
        }
        store(call, target, set);
        call.count_elements(found.len());
    }
}

/// The place of a member, which must be there.
fn place_of(set: SortedView<'_>, member: &[u8]) -> Result<Coordinates, Refusal> {
    let score = set.score(member);
    let score = score.ok_or("ERR could not decode requested zset member")?;
    Ok(Coordinates::of_score(score))
}

/// Reads a radius and its unit.
fn circle(words: &[&[u8]]) -> Result<(Form, f64), Refusal> {
    let radius = score(words[0]).ok_or("ERR need numeric radius")?;
    if radius < 0.0 {
        return Err("ERR radius cannot be negative".into());
    }
    Ok((Form::Circle { radius }, meters(words[1])?))
}

/// Reads a width, a height and their unit.
fn rectangle(words: &[&[u8]]) -> Result<(Form, f64), Refusal> {
    let width = score(words[0]).ok_or("ERR need numeric width")?;
    let height = score(words[1]).ok_or("ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err("ERR height or width cannot be negative".into());
    }
    Ok((Form::Box { width, height }, meters(words[2])?))
}
