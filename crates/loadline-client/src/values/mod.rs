//! Values of types that have serde's traits: JSON texts, replies of any shape, and fields of hashes.

mod fault;
mod fields;
mod reading;
#[cfg(test)]
mod tests;

use serde_core::Serialize;
use serde_core::de::DeserializeOwned;

use crate::from_reply::text_of;
use crate::{Error, FromReply, Reply};

use fault::{Fault, undecodable, unencodable};
use fields::Fields;
use reading::Value;

/// A value whose reply is a JSON text. [`to_json`] writes one.
///
/// ```
/// # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
/// use loadline_client::commands::{get, set};
/// use loadline_client::{Client, Json, to_json};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct User {
///     name: String,
///     roles: Vec<String>,
/// }
///
/// let ann = User { name: "Ann".into(), roles: vec!["admin".into()] };
/// let mut connection = Client::open(url)?.blocking()?;
/// connection.run(set("user:1", to_json(&ann)?))?;
/// let Json(stored) = connection.run(get::<Json<User>>("user:1"))?;
/// assert_eq!(stored, ann);
/// // A key that does not exist is nil.
/// assert!(connection.run(get::<Option<Json<User>>>("user:2"))?.is_none());
/// # Ok::<(), loadline_client::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromReply for Json<T> {
    /// # Errors
    /// [`Error::Decode`] for a text that is not JSON of this type. It is nested at most 128 deep.
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        let text = text_of(&reply, "a JSON text")?;
        let json = text.as_bytes();
        // Only a failure is worth the time of keeping track of the path.
        serde_json::from_slice(json).map(Self).map_err(|error| {
            let mut reading = serde_json::Deserializer::from_slice(json);
            undecodable(
                &serde_path_to_error::deserialize::<_, T>(&mut reading),
                &error,
            )
        })
    }
}

/// A value that is read from a reply of any shape by its implementation of `Deserialize`, which `#[derive(Deserialize)]`
/// writes.
///
/// A structure or map is read from a map of RESP3, from an array in which keys and values alternate, and from an array of
/// pairs; a list of pairs also from an array in which their parts alternate. Numbers and booleans are read from texts
/// too, since the values of a hash are texts, and a variant of an enumeration without data from its name. Nil is read as
/// `None`. So is an empty reply, if the whole reply is read as an `Option`: `HGETALL` of a key that does not exist.
///
/// `#[serde(flatten)]`, `#[serde(untagged)]` and `#[serde(tag = "..")]` decide the type of a field by its value, and so
/// take a number of a hash for a text. Bytes need the crate `serde_bytes`, or `#[serde(deserialize_with = "..")]`.
///
/// ```
/// # let url = &include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/server.rs"));
/// use loadline_client::commands::{hgetall, hset};
/// use loadline_client::{Client, Serde, to_fields};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Reading {
///     sensor: String,
///     celsius: f64,
///     note: Option<String>,
/// }
///
/// let reading = Reading { sensor: "roof".into(), celsius: 21.5, note: None };
/// let mut connection = Client::open(url)?.blocking()?;
/// connection.run(hset("reading:1", to_fields(&reading)?))?;
/// let Serde(stored) = connection.run(hgetall::<Serde<Reading>>("reading:1"))?;
/// assert_eq!(stored, reading);
/// let Serde(missing) = connection.run(hgetall::<Serde<Option<Reading>>>("reading:2"))?;
/// assert_eq!(missing, None);
/// # Ok::<(), loadline_client::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serde<T>(pub T);

impl<T: DeserializeOwned> FromReply for Serde<T> {
    /// # Errors
    /// [`Error::Decode`] with the path of the field that does not fit, [`Error::Server`] for a reply that holds an error.
    fn from_reply(reply: Reply<'_>) -> Result<Self, Error> {
        T::deserialize(Value::whole(&reply))
            .map(Self)
            .map_err(|fault| match fault {
                Fault::Server(error) => Error::Server(error),
                Fault::Text(_) => {
                    let tracked = serde_path_to_error::deserialize::<_, T>(Value::whole(&reply));
                    undecodable(&tracked, &fault)
                }
            })
    }
}

/// Writes a value as JSON text, which is one argument. [`Json`] reads it.
///
/// # Errors
/// [`Error::Encode`] for a value that JSON cannot hold, such as a map whose keys are lists.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| {
        let mut writing = serde_json::Serializer::new(std::io::sink());
        unencodable(&serde_path_to_error::serialize(value, &mut writing), &error)
    })
}

/// Writes a structure or map as pairs of field and value, for `HSET` and `XADD`. [`Serde`] reads it back.
///
/// Each value is one text or number: `true` is `1` and `false` is `0`, a variant of an enumeration its name, and bytes
/// are what they are. A field that is `None` is left out, so `HSET` keeps an older value of it.
///
/// # Errors
/// [`Error::Encode`] with the path of a field that is a list, structure or map of its own. Such a value can be stored as
/// text, by [`to_json`].
pub fn to_fields<T: Serialize + ?Sized>(value: &T) -> Result<Vec<(String, Vec<u8>)>, Error> {
    value.serialize(Fields::default()).map_err(|error| {
        let tracked = serde_path_to_error::serialize(value, Fields::default());
        unencodable(&tracked, &error)
    })
}
