//! A procedural floor of a game: terrain by value noise, caves by a cellular automaton. The same seed and size give the
//! same floor on every machine.

use serde::{Deserialize, Serialize};

/// The side of the write-up's floors, in tiles.
pub(crate) const SIDE: u32 = 100;
/// The longest side: a floor of this size has about 150 MB as JSON.
pub(crate) const LONGEST_SIDE: u32 = 1_600;

/// Layers of noise. Together with the passes below, they make a floor of 100x100 tiles cost about 0.5 ms.
const OCTAVES: u32 = 3;
/// Passes of the automaton.
const PASSES: u32 = 5;
/// Share of the tiles that are walls before the first pass, in percent.
const WALLS: u64 = 45;
/// One in this many open tiles has an item.
const TILES_PER_ITEM: u64 = 64;

const WALL: u8 = 1;
const WATER: u8 = 2;

/// A tile.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Serialize,
    Deserialize,
    bitcode::Encode,
    bitcode::Decode,
    rkyv::Archive,
    rkyv::Serialize,
)]
#[rkyv(derive(Debug, PartialEq))]
pub(crate) struct Tile {
    /// Open, wall or water.
    pub(crate) kind: u8,
    pub(crate) height: f32,
    /// Bits, such as lit, explored or blocked, and the neighbouring walls.
    pub(crate) flags: u32,
    /// Item on it.
    pub(crate) item: Option<u32>,
}

/// Tiles, row by row.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Serialize,
    Deserialize,
    bitcode::Encode,
    bitcode::Decode,
    rkyv::Archive,
    rkyv::Serialize,
)]
#[rkyv(derive(Debug, PartialEq))]
pub(crate) struct Floor {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) tiles: Vec<Tile>,
}

impl Floor {
    /// Generates the floor of `seed` with `width` x `height` tiles.
    pub(crate) fn generate(width: u32, height: u32, seed: u64) -> Self {
        let walls = caves(width, height, seed);
        let mut tiles = Vec::with_capacity(walls.len());
        for y in 0..height {
            for x in 0..width {
                let index = (y * width + x) as usize;
                let random = scatter(seed ^ (index as u64) << 20 ^ 0x7f4a);
                let level = terrain(x, y, seed);
                let around = neighbours(&walls, width, height, x, y);
                let kind = match walls[index] {
                    true => WALL,
                    false if level < 0.3 => WATER,
                    false => 0,
                };
                let has_item = kind == 0 && random.is_multiple_of(TILES_PER_ITEM);
                tiles.push(Tile {
                    kind,
                    height: level * 100.0,
                    flags: (random >> 40) as u32 & 0xfff0 | around,
                    item: has_item.then_some((random >> 32) as u32 & 0xffff),
                });
            }
        }
        Self {
            width,
            height,
            tiles,
        }
    }

    /// The bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.tiles.len() * size_of::<Tile>()) as u64
    }
}

/// Walls by a cellular automaton over random ones: a tile with at least five walls around it and on it is one.
fn caves(width: u32, height: u32, seed: u64) -> Vec<bool> {
    let count = (width * height) as usize;
    let mut walls: Vec<bool> = (0..count as u64)
        .map(|tile| scatter(seed ^ tile << 16) % 100 < WALLS)
        .collect();
    let mut next = vec![false; count];
    for _ in 0..PASSES {
        for y in 0..height {
            for x in 0..width {
                let own = walls[(y * width + x) as usize];
                let around = neighbours(&walls, width, height, x, y) + u32::from(own);
                next[(y * width + x) as usize] = around >= 5;
            }
        }
        std::mem::swap(&mut walls, &mut next);
    }
    walls
}

/// Walls among the eight neighbours of a tile; outside, there are walls.
fn neighbours(walls: &[bool], width: u32, height: u32, x: u32, y: u32) -> u32 {
    let mut count = 0;
    for row in [y.wrapping_sub(1), y, y + 1] {
        for column in [x.wrapping_sub(1), x, x + 1] {
            let is_inside = row < height && column < width;
            let is_own = row == y && column == x;
            count += u32::from(!is_own && (!is_inside || walls[(row * width + column) as usize]));
        }
    }
    count
}

/// The height of the terrain at a tile, from 0 to 1: layers of noise, each twice as fine and half as high as the one
/// before.
fn terrain(x: u32, y: u32, seed: u64) -> f32 {
    let (mut sum, mut weight, mut most) = (0.0, 1.0, 0.0);
    for octave in 0..OCTAVES {
        let cell = 32 >> octave;
        sum += weight * noise(x, y, cell, seed.wrapping_add(u64::from(octave)));
        most += weight;
        weight *= 0.5;
    }
    sum / most
}

/// Random values at the corners of cells, with smooth values between them.
fn noise(x: u32, y: u32, cell: u32, seed: u64) -> f32 {
    let (column, row) = (x / cell, y / cell);
    let smooth = |at: u32| {
        let t = at as f32 / cell as f32;
        t * t * (3.0 - 2.0 * t)
    };
    let (tx, ty) = (smooth(x % cell), smooth(y % cell));
    let corner = |column: u32, row: u32| {
        let random = scatter(seed ^ u64::from(column) << 32 ^ u64::from(row));
        (random >> 40) as f32 / (1_u32 << 24) as f32
    };
    let top = mixed(corner(column, row), corner(column + 1, row), tx);
    let bottom = mixed(corner(column, row + 1), corner(column + 1, row + 1), tx);
    mixed(top, bottom, ty)
}

fn mixed(from: f32, to: f32, share: f32) -> f32 {
    from + (to - from) * share
}

/// A number that looks random, from one that does not (the finaliser of SplitMix64, Steele and others 2014).
fn scatter(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_gives_the_same_floor_and_another_seed_another_one() {
        let floor = Floor::generate(100, 100, 7);
        assert_eq!(floor, Floor::generate(100, 100, 7));
        assert_ne!(floor, Floor::generate(100, 100, 8));
        // The figures of one floor, so that a change of the generator is noticed: records compare by it.
        let walls = floor.tiles.iter().filter(|tile| tile.kind == WALL).count();
        let items = floor.tiles.iter().filter(|tile| tile.item.is_some());
        let flags: u64 = floor.tiles.iter().map(|tile| u64::from(tile.flags)).sum();
        assert_eq!((walls, items.count(), flags), (3_485, 90, 327_298_064));
    }

    #[test]
    fn floors_have_every_kind_of_tile_and_their_terrain_is_in_range() {
        let floor = Floor::generate(100, 120, 7);
        assert_eq!(floor.tiles.len(), 100 * 120);
        for kind in [0, WALL, WATER] {
            assert!(floor.tiles.iter().any(|tile| tile.kind == kind), "{kind}");
        }
        let heights = floor.tiles.iter().map(|tile| tile.height);
        assert!(
            heights
                .clone()
                .all(|height| (0.0..=100.0).contains(&height))
        );
        assert!(
            floor
                .tiles
                .iter()
                .all(|tile| tile.kind == 0 || tile.item.is_none())
        );
        assert_eq!(Floor::generate(1, 1, 3).tiles.len(), 1);
    }
}
