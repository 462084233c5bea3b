use super::{Codec, CodecError};

/// Values that are bytes or text already.
#[derive(Debug, Clone, Copy, Default)]
pub struct Raw;

const ID: u8 = 0;

/// The same codec for every type that is bytes.
macro_rules! bytes {
    ($($value:ty: $decode:expr;)*) => {$(
        impl Codec<$value> for Raw {
            fn id(&self) -> u8 {
                ID
            }

            fn encode(&self, value: &$value, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
                bytes.extend_from_slice(value.as_ref());
                Ok(())
            }

            fn decode(&self, bytes: &[u8]) -> Result<$value, CodecError> {
                $decode(bytes)
            }
        }
    )*};
}

bytes! {
    Vec<u8>: |bytes: &[u8]| Ok(bytes.to_vec());
    Box<[u8]>: |bytes: &[u8]| Ok(bytes.into());
    String: |bytes: &[u8]| Ok(std::str::from_utf8(bytes)?.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_and_text_is_checked() {
        let mut bytes = b"head".to_vec();
        Raw.encode(&vec![1_u8, 2], &mut bytes).unwrap();
        assert_eq!(bytes, b"head\x01\x02");
        let decoded: Vec<u8> = Raw.decode(&bytes).unwrap();
        assert_eq!(decoded, bytes);
        let text: Result<String, _> = Raw.decode(&[0xff]);
        assert!(text.is_err());
    }
}
