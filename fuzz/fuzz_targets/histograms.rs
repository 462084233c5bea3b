//! Histograms as text: the text itself, and the parts of it that base64 and zlib would hide from the fuzzer.

#![no_main]

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use libfuzzer_sys::fuzz_target;
use loadline_measure::Histogram;

/// The outer cookie, and the header of the inner part but for the length of the payload.
const OUTER: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();
const INNER: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();

fuzz_target!(|input: (u8, &[u8])| {
    let (wrapped, bytes) = input;
    match wrapped % 4 {
        0 => read(&String::from_utf8_lossy(bytes)),
        1 => read(&STANDARD.encode(bytes)),
        2 => read(&outer(bytes)),
        _ => read(&outer(&inner(bytes))),
    }
});

/// Accepted text is a histogram: it can be written, and is the same when it is read again.
fn read(text: &str) {
    let Ok(histogram) = Histogram::decode(text) else {
        return;
    };
    let again = Histogram::decode(&histogram.encode()).expect("what was written can be read");
    assert_eq!(again.count(), histogram.count());
    assert_eq!(again.encode(), histogram.encode());
}

fn outer(inner: &[u8]) -> String {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(inner).expect("a Vec takes all bytes");
    let deflated = zlib.finish().expect("a Vec takes all bytes");
    let mut bytes = OUTER.to_vec();
    bytes.extend((deflated.len() as u32).to_be_bytes());
    bytes.extend(deflated);
    STANDARD.encode(bytes)
}

fn inner(payload: &[u8]) -> Vec<u8> {
    let mut bytes = INNER.to_vec();
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(3_u32.to_be_bytes());
    bytes.extend(1_u64.to_be_bytes());
    bytes.extend(loadline_measure::histogram::MAX_NS.to_be_bytes());
    bytes.extend(1_f64.to_be_bytes());
    bytes.extend(payload);
    bytes
}
