//! The codecs of an object.

use std::fmt;

use loadline_cache::codec::{Bitcode, Codec, Flat, Json, MessagePack, Postcard, Prost, Rkyv};
use prost::Message;

use super::Object;
use super::floor::{Floor, Tile};

/// The encoding of a floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The fields of all tiles one after the other, written by hand.
    Columns,
    /// rkyv: read in place, and never decoded.
    Rkyv,
    /// bitcode.
    Bitcode,
    /// postcard, by serde.
    Postcard,
    /// Protocol Buffers with packed fields, one message for all tiles.
    Protobuf,
    /// Protocol Buffers with one message per tile, as the write-up had them.
    ProtobufTiles,
    /// MessagePack, by serde, with the names of the fields.
    MessagePack,
    /// JSON, by serde.
    Json,
    /// Bytes as they are, of objects that are bytes.
    Raw,
}

/// The error of bytes that are not a floor.
const DAMAGED: &str = "the bytes are not a floor";
/// Width, height and the number of items.
const HEADER_BYTES: usize = 12;
/// Kind, height and flags.
const TILE_BYTES: usize = 9;
/// Place and item.
const ITEM_BYTES: usize = 8;

impl Encoding {
    /// Those of floors, the fastest first.
    pub(crate) const OF_FLOORS: [Self; 8] = [
        Self::Columns,
        Self::Rkyv,
        Self::Bitcode,
        Self::Postcard,
        Self::Protobuf,
        Self::MessagePack,
        Self::ProtobufTiles,
        Self::Json,
    ];

    /// The name in the record and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Columns => "columns",
            Self::Rkyv => "rkyv",
            Self::Bitcode => "bitcode",
            Self::Postcard => "postcard",
            Self::Protobuf => "protobuf",
            Self::ProtobufTiles => "protobuf-tiles",
            Self::MessagePack => "msgpack",
            Self::Json => "json",
            Self::Raw => "raw",
        }
    }

    /// Appends the bytes of `floor`.
    ///
    /// # Errors
    /// The error of the codec.
    pub(crate) fn encode(self, floor: &Floor, bytes: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Columns | Self::Raw => {
                columns(floor, bytes);
                Ok(())
            }
            Self::Rkyv => Flat::new(floor).and_then(|flat| Rkyv.encode(&flat, bytes)),
            Self::Bitcode => Bitcode.encode(floor, bytes),
            Self::Postcard => Postcard.encode(floor, bytes),
            Self::Protobuf => Prost.encode(&FloorMessage::from(floor), bytes),
            Self::ProtobufTiles => Prost.encode(&TilesMessage::from(floor), bytes),
            Self::MessagePack => MessagePack.encode(floor, bytes),
            Self::Json => Json.encode(floor, bytes),
        }
        .map_err(|error| error.to_string())
    }

    /// The object of `bytes`.
    ///
    /// # Errors
    /// That they are none.
    pub(crate) fn decode(self, bytes: &[u8]) -> Result<Object, String> {
        let floor = match self {
            Self::Raw => return Ok(Object::Bytes(bytes.to_vec())),
            Self::Rkyv => return in_place(bytes),
            Self::Columns => from_columns(bytes).ok_or_else(|| DAMAGED.into()),
            Self::Bitcode => Bitcode.decode(bytes),
            Self::Postcard => Postcard.decode(bytes),
            Self::Protobuf => {
                let message: Result<FloorMessage, _> = Prost.decode(bytes);
                message.and_then(|message| message.floor().ok_or_else(|| DAMAGED.into()))
            }
            Self::ProtobufTiles => {
                let message: Result<TilesMessage, _> = Prost.decode(bytes);
                message.and_then(|message| message.floor().ok_or_else(|| DAMAGED.into()))
            }
            Self::MessagePack => MessagePack.decode(bytes),
            Self::Json => Json.decode(bytes),
        };
        let floor = floor.map_err(|error| error.to_string())?;
        if has_all_tiles(floor.width, floor.height, floor.tiles.len()) {
            Ok(Object::Floor(floor))
        } else {
            Err(DAMAGED.into())
        }
    }
}

/// The floor that `bytes` are, in aligned memory.
fn in_place(bytes: &[u8]) -> Result<Object, String> {
    let floor: Flat<Floor> = Rkyv.decode(bytes).map_err(|error| error.to_string())?;
    let (width, height) = (floor.width.to_native(), floor.height.to_native());
    if has_all_tiles(width, height, floor.tiles.len()) {
        Ok(Object::Flat(floor))
    } else {
        Err(DAMAGED.into())
    }
}

fn has_all_tiles(width: u32, height: u32, tiles: usize) -> bool {
    u64::from(width) * u64::from(height) == tiles as u64
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Width, height and the number of items; all kinds, all heights, all flags; place and number of each item. Numbers are
/// little-endian.
fn columns(floor: &Floor, bytes: &mut Vec<u8>) {
    let tiles = &floor.tiles;
    let items = || {
        (0_u32..)
            .zip(tiles)
            .filter_map(|(place, tile)| Some((place, tile.item?)))
    };
    bytes.reserve(HEADER_BYTES + tiles.len() * TILE_BYTES + items().count() * ITEM_BYTES);
    for number in [floor.width, floor.height, items().count() as u32] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend(tiles.iter().map(|tile| tile.kind));
    tiles
        .iter()
        .for_each(|tile| bytes.extend_from_slice(&tile.height.to_le_bytes()));
    tiles
        .iter()
        .for_each(|tile| bytes.extend_from_slice(&tile.flags.to_le_bytes()));
    for (place, item) in items() {
        bytes.extend_from_slice(&place.to_le_bytes());
        bytes.extend_from_slice(&item.to_le_bytes());
    }
}

fn from_columns(bytes: &[u8]) -> Option<Floor> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let number = |at: usize| number(&header[at..at + 4]);
    let (width, height, items) = (number(0), number(4), number(8) as usize);
    let count = usize::try_from(u64::from(width) * u64::from(height)).ok()?;
    // A declared count is checked against the length before anything is allocated.
    let expected = count
        .checked_mul(TILE_BYTES)?
        .checked_add(items.checked_mul(ITEM_BYTES)?)?;
    if rest.len() != expected {
        return None;
    }
    let (kinds, rest) = rest.split_at(count);
    let (heights, rest) = rest.split_at(count * 4);
    let (flags, placed) = rest.split_at(count * 4);
    let columns = kinds
        .iter()
        .zip(heights.as_chunks::<4>().0)
        .zip(flags.as_chunks::<4>().0);
    let mut tiles: Vec<Tile> = columns
        .map(|((kind, height), flags)| Tile {
            kind: *kind,
            height: f32::from_le_bytes(*height),
            flags: u32::from_le_bytes(*flags),
            item: None,
        })
        .collect();
    for pair in placed.as_chunks::<8>().0 {
        let tile = tiles.get_mut(self::number(&pair[..4]) as usize)?;
        tile.item = Some(self::number(&pair[4..]));
    }
    Some(Floor {
        width,
        height,
        tiles,
    })
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// A floor whose fields are packed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FloorMessage {
    #[prost(uint32, tag = "1")]
    width: u32,
    #[prost(uint32, tag = "2")]
    height: u32,
    #[prost(bytes = "vec", tag = "3")]
    kinds: Vec<u8>,
    #[prost(float, repeated, tag = "4")]
    heights: Vec<f32>,
    #[prost(uint32, repeated, tag = "5")]
    flags: Vec<u32>,
    #[prost(uint32, repeated, tag = "6")]
    places: Vec<u32>,
    #[prost(uint32, repeated, tag = "7")]
    items: Vec<u32>,
}

impl From<&Floor> for FloorMessage {
    fn from(floor: &Floor) -> Self {
        let tiles = &floor.tiles;
        let items = (0_u32..)
            .zip(tiles)
            .filter_map(|(place, tile)| Some((place, tile.item?)));
        let (places, items) = items.unzip();
        Self {
            width: floor.width,
            height: floor.height,
            kinds: tiles.iter().map(|tile| tile.kind).collect(),
            heights: tiles.iter().map(|tile| tile.height).collect(),
            flags: tiles.iter().map(|tile| tile.flags).collect(),
            places,
            items,
        }
    }
}

impl FloorMessage {
    fn floor(&self) -> Option<Floor> {
        let count = usize::try_from(u64::from(self.width) * u64::from(self.height)).ok()?;
        let lengths = [self.kinds.len(), self.heights.len(), self.flags.len()];
        if lengths != [count; 3] || self.places.len() != self.items.len() {
            return None;
        }
        let fields = self.kinds.iter().zip(&self.heights).zip(&self.flags);
        let mut tiles: Vec<Tile> = fields
            .map(|((kind, height), flags)| Tile {
                kind: *kind,
                height: *height,
                flags: *flags,
                item: None,
            })
            .collect();
        for (place, item) in self.places.iter().zip(&self.items) {
            tiles.get_mut(*place as usize)?.item = Some(*item);
        }
        Some(Floor {
            width: self.width,
            height: self.height,
            tiles,
        })
    }
}

/// A floor of messages.
#[derive(Clone, PartialEq, Message)]
struct TilesMessage {
    #[prost(uint32, tag = "1")]
    width: u32,
    #[prost(uint32, tag = "2")]
    height: u32,
    #[prost(message, repeated, tag = "3")]
    tiles: Vec<TileMessage>,
}

/// A tile as a message of its own.
#[derive(Clone, Copy, PartialEq, Message)]
struct TileMessage {
    #[prost(uint32, tag = "1")]
    x: u32,
    #[prost(uint32, tag = "2")]
    y: u32,
    #[prost(uint32, tag = "3")]
    kind: u32,
    #[prost(float, tag = "4")]
    height: f32,
    #[prost(uint32, tag = "5")]
    flags: u32,
    #[prost(uint32, optional, tag = "6")]
    item: Option<u32>,
}

impl From<&Floor> for TilesMessage {
    fn from(floor: &Floor) -> Self {
        let tiles = (0_u32..)
            .zip(&floor.tiles)
            .map(|(place, tile)| TileMessage {
                x: place % floor.width,
                y: place / floor.width,
                kind: u32::from(tile.kind),
                height: tile.height,
                flags: tile.flags,
                item: tile.item,
            });
        Self {
            width: floor.width,
            height: floor.height,
            tiles: tiles.collect(),
        }
    }
}

impl TilesMessage {
    fn floor(&self) -> Option<Floor> {
        let tiles = self.tiles.iter().map(|tile| {
            Some(Tile {
                kind: u8::try_from(tile.kind).ok()?,
                height: tile.height,
                flags: tile.flags,
                item: tile.item,
            })
        });
        Some(Floor {
            width: self.width,
            height: self.height,
            tiles: tiles.collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_codec_returns_the_floor_and_refuses_less_than_all_of_it() {
        let floor = Floor::generate(50, 30, 11);
        for encoding in Encoding::OF_FLOORS {
            let mut bytes = b"before".to_vec();
            encoding.encode(&floor, &mut bytes).unwrap();
            let bytes = &bytes[6..];
            let whole = match encoding {
                Encoding::Rkyv => Object::Flat(Flat::new(&floor).unwrap()),
                _ => Object::Floor(floor.clone()),
            };
            assert_eq!(encoding.decode(bytes).unwrap(), whole, "{encoding}");
            let cut = encoding.decode(&bytes[..bytes.len() - 1]);
            assert!(cut.as_ref() != Ok(&whole), "{encoding}");
        }
    }

    #[test]
    fn write_ups_codec_takes_twice_the_bytes_of_a_lean_message() {
        let floor = Floor::generate(100, 100, 1);
        let bytes = |encoding: Encoding| {
            let mut bytes = Vec::new();
            encoding.encode(&floor, &mut bytes).unwrap();
            bytes.len() as f64
        };
        let lean = bytes(Encoding::Protobuf);
        assert!(bytes(Encoding::ProtobufTiles) > 1.7 * lean);
        assert!(bytes(Encoding::Columns) < 1.3 * lean);
        assert!(bytes(Encoding::Json) > 4.0 * lean);
        // The most compact one, and the one with the layout of memory.
        assert!(bytes(Encoding::Bitcode) < 0.9 * lean);
        assert!(bytes(Encoding::Rkyv) > 1.5 * lean);
    }

    #[test]
    fn declared_length_is_not_allocated() {
        let mut bytes = Vec::new();
        for number in [u32::MAX, u32::MAX, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        assert!(Encoding::Columns.decode(&bytes).is_err());
        let message = FloorMessage {
            width: u32::MAX,
            height: u32::MAX,
            ..FloorMessage::default()
        };
        assert!(Encoding::Protobuf.decode(&message.encode_to_vec()).is_err());
        // A floor that is laid out with fewer tiles than it declares.
        let mut floor = Floor::generate(4, 4, 1);
        floor.tiles.pop();
        let mut bytes = Vec::new();
        Encoding::Rkyv.encode(&floor, &mut bytes).unwrap();
        assert!(Encoding::Rkyv.decode(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for encoding in Encoding::OF_FLOORS {
                let _ = encoding.decode(&bytes);
            }
        }
    }
}
