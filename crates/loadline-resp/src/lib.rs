//! RESP2 and RESP3: an incremental decoder with limits, a reply skipper and an allocation-free encoder.
