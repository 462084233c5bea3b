//! Histograms, intervals, comparisons and the record of a measurement, as pure functions.
