//! Typed values, and the codecs that turn them into bytes and back.
//!
//! An application seldom keeps a string of bytes under a key. To show what its encoding costs
//! in addition to the call, [`Player`] is encoded before it is written and decoded after it is read, by code
//! that is derived as an application's would be.

use std::fmt;

use prost::Message;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde::{Deserialize, Serialize};

/// The smallest object, in bytes of JSON: one without items.
pub(crate) const SMALLEST_BYTES: u64 = 192;
/// Objects that are made ahead, so that making one is no part of an operation ...
const MOST_OBJECTS: u64 = 256;
/// ... and bytes that they may take together.
const OBJECTS_BYTES: u64 = 16 << 20;
/// An item is added as long as it surely fits: no item takes more bytes of JSON.
const ITEM_BYTES: usize = 96;

/// Encoding of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// JSON, by serde_json.
    Json,
    /// MessagePack, by rmp-serde, structs as arrays.
    Msgpack,
    /// Protocol Buffers, by prost.
    Protobuf,
}

impl Codec {
    /// The name in the record and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Msgpack => "msgpack",
            Self::Protobuf => "protobuf",
        }
    }

    /// The object as bytes.
    pub(crate) fn encode(self, player: &Player) -> Vec<u8> {
        match self {
            Self::Json => serde_json::to_vec(player).expect("a player has nothing JSON lacks"),
            Self::Msgpack => {
                rmp_serde::to_vec(player).expect("a player has nothing MessagePack lacks")
            }
            Self::Protobuf => player.encode_to_vec(),
        }
    }

    /// The object that these bytes are.
    ///
    /// # Errors
    /// The error in the bytes, in the codec's words.
    pub(crate) fn decode(self, bytes: &[u8]) -> Result<Player, String> {
        match self {
            Self::Json => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
            Self::Msgpack => rmp_serde::from_slice(bytes).map_err(|error| error.to_string()),
            Self::Protobuf => Player::decode(bytes).map_err(|error| error.to_string()),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The object that is encoded: a player of a game.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(crate) struct Player {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint32, tag = "3")]
    level: u32,
    #[prost(bool, tag = "4")]
    online: bool,
    #[prost(message, optional, tag = "5")]
    position: Option<Position>,
    #[prost(message, repeated, tag = "6")]
    items: Vec<Item>,
    #[prost(string, tag = "7")]
    note: String,
}

/// Position of a player.
#[derive(Clone, Copy, PartialEq, Message, Serialize, Deserialize)]
struct Position {
    #[prost(float, tag = "1")]
    x: f32,
    #[prost(float, tag = "2")]
    y: f32,
    #[prost(float, tag = "3")]
    z: f32,
}

/// An item that a player carries.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
struct Item {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint32, tag = "3")]
    count: u32,
    #[prost(float, tag = "4")]
    wear: f32,
}

impl Player {
    /// The player number `id`, who takes `bytes` as JSON, which are at least [`SMALLEST_BYTES`].
    fn new(id: u64, bytes: usize, seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(id ^ seed);
        let mut coordinate = || rng.random_range(-4096.0_f32..4096.0);
        let position = Position {
            x: coordinate(),
            y: coordinate(),
            z: coordinate(),
        };
        let mut player = Self {
            id,
            name: format!("player-{id:08}"),
            level: rng.random_range(1..100),
            online: rng.random(),
            position: Some(position),
            items: Vec::new(),
            note: String::new(),
        };
        let mut left = bytes.saturating_sub(json_bytes(&player));
        while left >= ITEM_BYTES {
            let item = Item::random(&mut rng);
            // Items are separated by commas.
            left -= json_bytes(&item) + usize::from(!player.items.is_empty());
            player.items.push(item);
        }
        player.note = (0..left)
            .map(|_| char::from(rng.random_range(b'a'..=b'z')))
            .collect();
        player
    }
}

impl Item {
    fn random(rng: &mut SmallRng) -> Self {
        const NAMES: [&str; 8] = [
            "arrow", "bow", "cloak", "lantern", "potion", "rope", "shield", "sword",
        ];
        Self {
            id: rng.random(),
            name: NAMES[rng.random_range(0..NAMES.len())].into(),
            count: rng.random_range(1..=64),
            wear: rng.random_range(0.0..1.0),
        }
    }
}

fn json_bytes(value: &impl Serialize) -> usize {
    let text = serde_json::to_vec(value).expect("what is derived here has nothing JSON lacks");
    text.len()
}

/// Objects that operations take turns with.
#[derive(Debug)]
pub(crate) struct Objects(Vec<Player>);

impl Objects {
    /// Objects of `bytes` each, as JSON: as many as there are keys, or fewer.
    pub(crate) fn new(keys: u64, bytes: u64, seed: u64) -> Self {
        let most = (OBJECTS_BYTES / bytes.max(1)).clamp(1, MOST_OBJECTS);
        let players = (0..keys.clamp(1, most)).map(|id| Player::new(id, bytes as usize, seed));
        Self(players.collect())
    }

    /// The object under the key with this number.
    pub(crate) fn of_key(&self, key: u64) -> &Player {
        &self.0[(key % self.0.len() as u64) as usize]
    }

    /// The mean size of an object in bytes, encoded by `codec`.
    pub(crate) fn mean_bytes(&self, codec: Codec) -> f64 {
        let bytes: usize = self.0.iter().map(|one| codec.encode(one).len()).sum();
        bytes as f64 / self.0.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CODECS: [Codec; 3] = [Codec::Json, Codec::Msgpack, Codec::Protobuf];

    proptest! {
        #[test]
        fn encoded_player_is_decoded(id: u64, seed: u64, bytes in SMALLEST_BYTES..20_000) {
            let player = Player::new(id, bytes as usize, seed);
            prop_assert_eq!(Codec::Json.encode(&player).len() as u64, bytes);
            for codec in CODECS {
                let encoded = codec.encode(&player);
                prop_assert_eq!(codec.decode(&encoded).unwrap(), player.clone());
                // A value that was cut off is an error, and never another player.
                let cut = codec.decode(&encoded[..encoded.len() - 1]);
                prop_assert!(cut.as_ref() != Ok(&player), "{}", codec);
            }
        }

        #[test]
        fn no_bytes_make_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for codec in CODECS {
                // Decoding ends on any bytes.
                let _ = codec.decode(&bytes);
            }
        }
    }

    /// The sizes that docs/link.md and the README speak of.
    #[test]
    fn binary_codecs_are_smaller() {
        let objects = Objects::new(1_000, 512, 7);
        let [json, msgpack, protobuf] = CODECS.map(|codec| objects.mean_bytes(codec));
        println!("json {json} B, msgpack {msgpack} B, protobuf {protobuf} B");
        assert!((json - 512.0).abs() < f64::EPSILON);
        assert!(msgpack < 0.8 * json && protobuf < 0.8 * json);
    }

    #[test]
    fn large_objects_are_few() {
        assert_eq!(Objects::new(1_000_000, 1 << 20, 1).0.len(), 16);
        assert_eq!(Objects::new(10, SMALLEST_BYTES, 1).0.len(), 10);
        let objects = Objects::new(1_000, 512, 1);
        assert_eq!(objects.of_key(256).id, 0);
    }
}
