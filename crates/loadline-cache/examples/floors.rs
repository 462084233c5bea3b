//! Floors of a game server: in memory, else in a store, else generated.
//!
//! ```sh
//! cargo run --release -p loadline-cache --features postcard --example floors -- ram
//! cargo run --release -p loadline-cache --features postcard --example floors -- redis://localhost
//! ```

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use loadline_cache::codec::Postcard;
use loadline_cache::{Cache, Error, Tier};
use serde::{Deserialize, Serialize};

const SIDE: usize = 100;
const TILES: usize = SIDE * SIDE;
const FLOORS: u32 = 50;
/// Times that each row is measured.
const REPEATS: u32 = 200;

/// The tiles of a floor, column by column: a codec that writes each tile by itself takes several times as long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Floor {
    kinds: Vec<u8>,
    heights: Vec<i16>,
    flags: Vec<u16>,
    /// The items that lie on some of the tiles.
    items: Vec<(u16, u32)>,
}

impl Floor {
    fn bytes(&self) -> u64 {
        let tiles = self.kinds.len() + 2 * self.heights.len() + 2 * self.flags.len();
        (tiles + 8 * self.items.len()) as u64
    }
}

/// The next number of a generator (xorshift).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Generates a floor: caves by a cellular automaton over noise. The same seed gives the same floor.
pub(crate) fn generate(seed: u32) -> Floor {
    let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut walls: Vec<u8> = (0..TILES)
        .map(|_| u8::from(next(&mut state) % 100 < 45))
        .collect();
    for _ in 0..5 {
        walls = (0..TILES)
            .map(|tile| u8::from(neighbours(&walls, tile) >= 5))
            .collect();
    }
    let heights = (0..TILES)
        .map(|tile| neighbours(&walls, tile) as i16 * 10 - 40)
        .collect();
    let flags = (0..TILES)
        .map(|_| (next(&mut state) & 0x7) as u16)
        .collect();
    let free = (0..TILES as u16).filter(|tile| walls[usize::from(*tile)] == 0);
    let items = free
        .filter_map(|tile| {
            (next(&mut state).is_multiple_of(50)).then_some((tile, next(&mut state) as u32))
        })
        .collect();
    Floor {
        kinds: walls,
        heights,
        flags,
        items,
    }
}

/// Walls among a tile and its eight neighbours; beyond the edge, there are walls.
fn neighbours(walls: &[u8], tile: usize) -> u8 {
    let (x, y) = (tile % SIDE, tile / SIDE);
    let mut count = 0;
    for row in [y.wrapping_sub(1), y, y + 1] {
        for column in [x.wrapping_sub(1), x, x + 1] {
            let is_inside = row < SIDE && column < SIDE;
            count += if is_inside {
                walls[row * SIDE + column]
            } else {
                1
            };
        }
    }
    count
}

/// A cache of floors with `url` below memory.
///
/// # Errors
/// Those of the settings.
pub(crate) fn floors(url: &str) -> Result<Cache<u32, Floor>, Error> {
    let tier = Tier::open(url)
        .prefix("floors:")
        .schema(1)
        .timeout(Duration::from_millis(20));
    Cache::builder_weighed(256 << 20, |_, floor: &Floor| floor.bytes())
        .expected_entry_bytes(50_000)
        .ttl(Duration::from_secs(600))
        .tier(tier, Postcard)
        // A floor that is generated faster than it is read from the store does not belong there.
        .select(|_, _, cost| cost > Duration::from_micros(100))
        .build(|seed| Ok::<_, std::convert::Infallible>(Some(generate(*seed))))
}

/// The mean time of a call.
fn mean(mut call: impl FnMut(u32)) -> Duration {
    let start = Instant::now();
    (0..REPEATS).for_each(&mut call);
    start.elapsed() / REPEATS
}

fn show(what: &str, time: Duration) {
    println!("{what:<44} {:>10.2} us", time.as_secs_f64() * 1e6);
}

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "ram".to_owned());
    let cache = floors(&url)?;
    let (floor, way) = cache.explain(&1);
    let floor = floor?.expect("every floor exists");
    println!(
        "the first call for a floor of {} bytes:\n{way}",
        floor.bytes()
    );

    let seeds: Vec<u32> = (1..=FLOORS).collect();
    cache.get_many(&seeds);
    show("generate", mean(|seed| drop(black_box(generate(seed)))));
    show(
        "memory: hit",
        mean(|seed| drop(black_box(cache.get(&(seed % FLOORS + 1))))),
    );
    show(
        "deep copy of a floor",
        mean(|_| drop(black_box(Floor::clone(&floor)))),
    );
    // Each of these has empty memory, as after a restart.
    let restarted: Vec<_> = (0..REPEATS)
        .map(|_| floors(&url))
        .collect::<Result<_, _>>()?;
    // The store of `ram` belongs to one cache.
    let below = if url == "ram" {
        "load and write below"
    } else {
        "store: hit"
    };
    show(
        below,
        mean(|number| drop(black_box(restarted[number as usize].get(&2)))),
    );
    let ten = &seeds[10..20];
    let many = mean(|number| drop(black_box(restarted[number as usize].get_many(ten))));
    show("the same for ten floors, each", many / 10);
    let stats = cache.stats();
    println!(
        "\n{} hits, {} misses, {} bytes in memory",
        stats.hits, stats.misses, stats.bytes
    );
    Ok(())
}
