//! Positions on the globe, as members of a sorted set.
//!
//! A position comes before its member in arguments: `geo_add("cities", [(13.4, 52.5, "Berlin")])`, longitude first.

use super::*;

words! {
    /// A unit of length.
    Unit {
        /// Metres.
        Meters = "m",
        /// Kilometres.
        Kilometers = "km",
        /// Feet.
        Feet = "ft",
        /// Miles.
        Miles = "mi",
    }
}

commands! {
    /// Adds members with their positions, given as longitude, latitude and member. Replies with the number of new
    /// members.
    ///
    /// Redis documentation: [`GEOADD`](https://redis.io/docs/latest/commands/geoadd/).
    geo_add(key: impl Arg, members: impl ToArgs) -> u64 = "GEOADD"(key) + GeoAddOptions[members];
    /// Gets the distance of two members. Replies with nil if one of them does not exist.
    ///
    /// Redis documentation: [`GEODIST`](https://redis.io/docs/latest/commands/geodist/).
    geo_dist(key: impl Arg, a: impl Arg, b: impl Arg, unit: Unit) -> Option<f64>
        = "GEODIST"(key, a, b, unit.word());
    /// Gets the positions of members as geohashes. Replies with nil for each value that is not a member.
    ///
    /// Redis documentation: [`GEOHASH`](https://redis.io/docs/latest/commands/geohash/).
    geo_hash(key: impl Arg, members: impl ToArgs) -> Vec<Option<String>>
        = "GEOHASH"(key, members);
    /// Gets the positions of members, longitude first. Replies with nil for each value that is not a member.
    ///
    /// Redis documentation: [`GEOPOS`](https://redis.io/docs/latest/commands/geopos/).
    geo_pos(key: impl Arg, members: impl ToArgs) -> Vec<Option<(f64, f64)>>
        = "GEOPOS"(key, members);
    /// Finds members in an area. It needs a place to search from and the size of the area, which are options.
    ///
    /// Redis documentation: [`GEOSEARCH`](https://redis.io/docs/latest/commands/geosearch/).
    geo_search<T>(key: impl Arg) -> Vec<T> = "GEOSEARCH"(key) + GeoSearchOptions;
    /// Stores the members in an area, as [`geo_search`] finds them, at a key. Replies with their number.
    ///
    /// Redis documentation: [`GEOSEARCHSTORE`](https://redis.io/docs/latest/commands/geosearchstore/).
    geo_search_store(to: impl Arg, from: impl Arg) -> u64
        = "GEOSEARCHSTORE"(to, from) + GeoSearchStoreOptions;
}

options! {
    /// The options of [`geo_add`].
    GeoAddOptions {
        /// Adds new members only.
        nx() -> R = ("NX");
        /// Changes the positions of existing members only.
        xx() -> R = ("XX");
        /// Counts the members whose position changed too.
        ch() -> R = ("CH");
    }
    /// The options of [`geo_search`]. An option that adds to each member makes it a list, such as `(String, f64)`;
    /// the additions are in the order distance, hash, position.
    GeoSearchOptions {
        /// Around a member.
        from_member(member: impl Arg) -> R = ("FROMMEMBER", member);
        /// Around a position, in degrees.
        from_position(longitude: f64, latitude: f64) -> R = ("FROMLONLAT", longitude, latitude);
        /// Within this distance.
        by_radius(radius: f64, unit: Unit) -> R = ("BYRADIUS", radius, unit.word());
        /// Within a rectangle of this size, in the middle of which is the place to search from.
        by_box(width: f64, height: f64, unit: Unit) -> R = ("BYBOX", width, height, unit.word());
        /// The closest first.
        asc() -> R = ("ASC");
        /// The farthest first.
        desc() -> R = ("DESC");
        /// Up to this number of members, the closest ones.
        count(count: u64) -> R = ("COUNT", count);
        /// Up to this number of members, the first that are found, which is faster.
        count_any(count: u64) -> R = ("COUNT", count, "ANY");
        /// Adds the distance to each member, in the unit of the size.
        with_dist<T>() -> Vec<T> = ("WITHDIST");
        /// Adds the position to each member, longitude first.
        with_position<T>() -> Vec<T> = ("WITHCOORD");
        /// Adds the position to each member as an integer of 52 bits.
        with_hash<T>() -> Vec<T> = ("WITHHASH");
    }
    /// The options of [`geo_search_store`].
    GeoSearchStoreOptions {
        /// Around a member.
        from_member(member: impl Arg) -> R = ("FROMMEMBER", member);
        /// Around a position, in degrees.
        from_position(longitude: f64, latitude: f64) -> R = ("FROMLONLAT", longitude, latitude);
        /// Within this distance.
        by_radius(radius: f64, unit: Unit) -> R = ("BYRADIUS", radius, unit.word());
        /// Within a rectangle of this size, in the middle of which is the place to search from.
        by_box(width: f64, height: f64, unit: Unit) -> R = ("BYBOX", width, height, unit.word());
        /// The closest first.
        asc() -> R = ("ASC");
        /// The farthest first.
        desc() -> R = ("DESC");
        /// Up to this number of members, the closest ones.
        count(count: u64) -> R = ("COUNT", count);
        /// Up to this number of members, the first that are found, which is faster.
        count_any(count: u64) -> R = ("COUNT", count, "ANY");
        /// Stores the distances as scores, in the unit of the size, in place of the positions.
        store_dist() -> R = ("STOREDIST");
    }
}
