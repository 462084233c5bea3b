//! One reply from the replies of several nodes.

use loadline_resp::OwnedReply;

use super::replies::Outcome;
use super::route::Join;
use crate::Error;

/// Joins the replies to the parts of a command. `places` has for each part the places of its values.
///
/// If a part failed, the whole command fails with the first error, which says that the server may have executed
/// something if any part may have been executed.
pub(super) fn join(how: Join, parts: Vec<Outcome>, places: &[Vec<usize>]) -> Outcome {
    let done = |part: &Outcome| match part {
        Ok(reply) => !reply.is_error(),
        Err(error) => error.maybe_executed(),
    };
    let some_done = parts.iter().any(done);
    let mut replies = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Ok(error) if error.is_error() => return Ok(error),
            Ok(reply) => replies.push(reply.into_without_attributes()),
            Err(error) => return Err(error.with_executed(some_done)),
        }
    }
    match how {
        Join::Places => put_in_places(replies, places),
        Join::Sum => sum(&replies),
        Join::Same => replies.pop().ok_or(SHORT),
        Join::Concat => {
            let lists: Result<Vec<_>, _> = replies.into_iter().map(list).collect();
            Ok(OwnedReply::Array(lists?.into_iter().flatten().collect()))
        }
        Join::Everyone => everyone(replies),
        Join::First => Ok(replies
            .into_iter()
            .find(|reply| !reply.is_null())
            .unwrap_or(OwnedReply::Null)),
    }
}

/// A node answered with a list of another length than was asked for.
const SHORT: Error = Error::Type {
    expected: "a value for each key",
    got: "a list of another length",
};

fn put_in_places(replies: Vec<OwnedReply>, places: &[Vec<usize>]) -> Outcome {
    let mut values = vec![OwnedReply::Null; places.iter().map(Vec::len).sum()];
    for (reply, places) in replies.into_iter().zip(places) {
        let items = list(reply)?;
        if items.len() != places.len() {
            return Err(SHORT);
        }
        for (item, &place) in items.into_iter().zip(places) {
            values[place] = item;
        }
    }
    Ok(OwnedReply::Array(values))
}

fn sum(replies: &[OwnedReply]) -> Outcome {
    let mut total: i64 = 0;
    for reply in replies {
        let OwnedReply::Integer(number) = reply else {
            return Err(unfit("a number", reply));
        };
        total = total.saturating_add(*number);
    }
    Ok(OwnedReply::Integer(total))
}

fn everyone(replies: Vec<OwnedReply>) -> Outcome {
    let mut replies = replies.into_iter().map(list);
    let mut all = replies.next().ok_or(SHORT)??;
    for items in replies {
        let items = items?;
        if items.len() != all.len() {
            return Err(SHORT);
        }
        for (all, item) in all.iter_mut().zip(items) {
            if item != OwnedReply::Integer(1) {
                *all = item;
            }
        }
    }
    Ok(OwnedReply::Array(all))
}

fn list(reply: OwnedReply) -> Result<Vec<OwnedReply>, Error> {
    match reply {
        OwnedReply::Array(items) | OwnedReply::Set(items) => Ok(items),
        other => Err(unfit("a list", &other)),
    }
}

fn unfit(expected: &'static str, got: &OwnedReply) -> Error {
    Error::unfit(expected, &super::replies::lend(got))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    use loadline_resp::Frame::{Array, Integer, Null};

    fn lost(maybe_executed: bool) -> Error {
        Error::connection(io::ErrorKind::BrokenPipe.into(), maybe_executed)
    }

    fn text(text: &str) -> OwnedReply {
        OwnedReply::Bulk(text.into())
    }

    #[test]
    fn values_go_back_to_the_places_of_their_keys() {
        let parts = vec![Ok(Array(vec![text("a"), Null])), Ok(Array(vec![text("b")]))];
        let joined = join(Join::Places, parts, &[vec![2, 0], vec![1]]).unwrap();
        assert_eq!(joined, Array(vec![Null, text("b"), text("a")]));
        let short = vec![Ok(Array(vec![]))];
        assert!(join(Join::Places, short, &[vec![0]]).is_err());
    }

    #[test]
    fn numbers_lists_and_votes_are_joined() {
        let numbers = vec![Ok(Integer(2)), Ok(Integer(3))];
        assert_eq!(join(Join::Sum, numbers, &[]).unwrap(), Integer(5));
        let lists = || vec![Ok(Array(vec![text("a")])), Ok(Array(vec![text("b")]))];
        let both = Array(vec![text("a"), text("b")]);
        assert_eq!(join(Join::Concat, lists(), &[]).unwrap(), both);
        let votes = vec![
            Ok(Array(vec![Integer(1), Integer(1), Integer(0)])),
            Ok(Array(vec![Integer(1), Integer(0), Integer(1)])),
        ];
        let all = Array(vec![Integer(1), Integer(0), Integer(0)]);
        assert_eq!(join(Join::Everyone, votes, &[]).unwrap(), all);
        let keys = vec![Ok(Null), Ok(text("k"))];
        assert_eq!(join(Join::First, keys, &[]).unwrap(), text("k"));
        assert!(join(Join::Sum, vec![Ok(text("x"))], &[]).is_err());
    }

    #[test]
    fn part_that_ran_makes_the_whole_uncertain() {
        let ok = || Ok(OwnedReply::Simple(b"OK".to_vec()));
        let error = join(Join::Same, vec![ok(), Err(lost(false))], &[]).unwrap_err();
        assert!(error.maybe_executed());
        let error = join(Join::Same, vec![Err(lost(false)), Err(lost(true))], &[]).unwrap_err();
        assert!(error.maybe_executed());
        let error = join(Join::Same, vec![Err(lost(false)); 2], &[]).unwrap_err();
        assert!(!error.maybe_executed());
        let refused = OwnedReply::Error(b"OOM no".to_vec());
        assert_eq!(
            join(Join::Same, vec![ok(), Ok(refused.clone())], &[]).unwrap(),
            refused
        );
    }
}
