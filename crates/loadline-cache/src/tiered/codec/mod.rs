//! Values as bytes.

#[cfg(feature = "json")]
mod json;
#[cfg(feature = "message-pack")]
mod message_pack;
#[cfg(feature = "postcard")]
mod postcard;
#[cfg(feature = "prost")]
mod prost;
mod raw;

#[cfg(feature = "json")]
#[cfg_attr(docsrs, doc(cfg(feature = "json")))]
pub use self::json::Json;
#[cfg(feature = "message-pack")]
#[cfg_attr(docsrs, doc(cfg(feature = "message-pack")))]
pub use self::message_pack::MessagePack;
#[cfg(feature = "postcard")]
#[cfg_attr(docsrs, doc(cfg(feature = "postcard")))]
pub use self::postcard::Postcard;
#[cfg(feature = "prost")]
#[cfg_attr(docsrs, doc(cfg(feature = "prost")))]
pub use self::prost::Prost;
pub use self::raw::Raw;

/// The reason why a value could not be encoded or decoded.
pub type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// Turns values into bytes for the tiers that keep bytes.
///
/// The bytes can have been written by another version of the application, or be damaged: [`decode`](Self::decode) must
/// not panic on any bytes, nor allocate more than a multiple of their length.
pub trait Codec<V>: Send + Sync {
    /// A number that no other codec of the application has. Those of this crate are below 64.
    fn id(&self) -> u8;

    /// Appends the bytes of `value` to `bytes`.
    ///
    /// # Errors
    /// That this value has no representation. It is then kept in memory only.
    fn encode(&self, value: &V, bytes: &mut Vec<u8>) -> Result<(), CodecError>;

    /// The value of these bytes.
    ///
    /// # Errors
    /// That they are not a value. It then counts as a miss, and the value that is loaded replaces it.
    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError>;
}
