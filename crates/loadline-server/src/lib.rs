//! The Loadline store served over RESP.
