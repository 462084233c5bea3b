//! Scenarios, key and value distributions, arrivals and the loops that drive a subject.
