package main

import (
	"context"
	"runtime"
	"testing"
)

// none is a client whose calls cost nothing.
type none struct{}

func (none) get(context.Context, string) (string, error)                           { return "x", nil }
func (none) set(context.Context, string, string) error                             { return nil }
func (none) pipeline(context.Context, bool, []string, string, func(string, error)) {}
func (none) increment(context.Context, string) error                               { return nil }
func (none) isRefusal(error) bool                                                  { return false }
func (none) another(context.Context) error                                         { return nil }

// A histogram for each of 64 callers was 17 MB, allocated and joined in the time of every block.
func TestBlockAllocatesNoHistogram(t *testing.T) {
	config := config{Mode: "multiplexed", Concurrency: 64, Operation: "get", Keys: 1, ValueBytes: 1}
	times := newTimes(false)
	block := func() map[string]any { return measure(none{}, &config, []string{"k"}, "x", times, 0, 640, 1) }
	block()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	result := block()
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 1<<20 {
		t.Errorf("a block of 640 operations allocated %d bytes", bytes)
	}
	if ops := result["ops"].(uint64); ops != 640 {
		t.Errorf("%d operations", ops)
	}
	counted := uint64(0)
	for _, pair := range result["histogram"].([][2]uint64) {
		counted += pair[1]
	}
	if counted != 640 {
		t.Errorf("the histogram counts %d operations", counted)
	}
}
