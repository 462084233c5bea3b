// A driver of Go's Redis clients: see docs/driver-protocol.md. Clients: go-redis, go-redis.recommended, rueidis.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	slots = 2048 + 31*1024
	pause = 5 * time.Millisecond
)

type config struct {
	Client      string    `json:"client"`
	Host        string    `json:"host"`
	Port        int       `json:"port"`
	User        *string   `json:"user"`
	Password    *string   `json:"password"`
	Database    int       `json:"database"`
	Resp        int       `json:"resp"`
	Mode        string    `json:"mode"`
	Depth       int       `json:"depth"`
	Concurrency int       `json:"concurrency"`
	Rate        int64     `json:"rate"`
	Cluster     bool      `json:"cluster"`
	Sentinel    *sentinel `json:"sentinel"`
	Operation   string    `json:"operation"`
	KeyPrefix   string    `json:"key_prefix"`
	Keys        int       `json:"keys"`
	ValueBytes  int       `json:"value_bytes"`
}

// sentinel is a master by its name, and the sentinels that know it.
type sentinel struct {
	Master    string `json:"master"`
	Addresses []struct {
		Host string `json:"host"`
		Port int    `json:"port"`
	} `json:"addresses"`
}

func (s *sentinel) addresses() []string {
	addresses := []string{}
	for _, one := range s.Addresses {
		addresses = append(addresses, fmt.Sprintf("%s:%d", one.Host, one.Port))
	}
	return addresses
}

func (c *config) address() string { return fmt.Sprintf("%s:%d", c.Host, c.Port) }

func (c *config) isGet() bool { return c.Operation == "get" }

// isRecommended tells whether the client has the settings that its documentation recommends, and not its defaults.
func (c *config) isRecommended() bool { return strings.HasSuffix(c.Client, ".recommended") }

// options are the words after the version in the name of the row.
func (c *config) options() []string {
	if c.isRecommended() {
		return []string{"recommended"}
	}
	return []string{}
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

// errMiss is what a read of a key that does not exist returns.
var errMiss = errors.New("miss")

// client is a Redis client at work. Its calls come from several goroutines.
type client interface {
	get(ctx context.Context, key string) (string, error)
	set(ctx context.Context, key, value string) error
	pipeline(ctx context.Context, isGet bool, keys []string, value string, note func(string, error))
	increment(ctx context.Context, key string) error
	isRefusal(err error) bool
	another(ctx context.Context) error
}

// block is one block of operations. Each goroutine has a part of its own; they share when it ends.
type block struct {
	config   *config
	duration time.Duration
	most     int64
	start    time.Time
	mutex    sync.Mutex
	begun    int64
	times    *times
}

// times are the histograms of a block. All goroutines count in them, so that a block has nothing to join, and they are cleared
// before it begins: its time and its CPU time are those of the client.
type times struct {
	// service are times since calls began, and lag is how late they began (open loop).
	response, service, lag []atomic.Uint64
}

func newTimes(isOpen bool) *times {
	t := &times{response: make([]atomic.Uint64, slots)}
	if isOpen {
		t.service, t.lag = make([]atomic.Uint64, slots), make([]atomic.Uint64, slots)
	}
	return t
}

func (t *times) clear() {
	for _, counts := range [][]atomic.Uint64{t.response, t.service, t.lag} {
		for slot := range counts {
			counts[slot].Store(0)
		}
	}
}

type part struct {
	block  *block
	choice uint32
	errors map[string]uint64
	ops    uint64
	misses uint64
}

func newPart(b *block, choice uint32) *part {
	return &part{block: b, choice: choice, errors: map[string]uint64{}}
}

// goesOn tells whether another call of size operations begins and, in an open loop, when it is due.
func (b *block) goesOn(size int) (due time.Time, ok bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.most > 0 && b.begun >= b.most {
		return due, false
	}
	isTimed := b.duration > 0 && b.begun > 0
	if isTimed && time.Since(b.start) >= b.duration {
		return due, false
	}
	if b.config.Rate > 0 {
		after := time.Duration(float64(b.begun) * 1e9 / float64(b.config.Rate))
		if isTimed && after >= b.duration {
			return due, false
		}
		due = b.start.Add(after)
	}
	b.begun += int64(size)
	return due, true
}

// wait waits for the time of a call, and tells how late that ended: 0 if it did not have to wait.
func wait(due time.Time) time.Duration {
	if due.IsZero() || time.Until(due) <= 0 {
		return 0
	}
	time.Sleep(time.Until(due))
	return time.Since(due)
}

// choose is xorshift32, the same in all drivers.
func (p *part) choose() int {
	p.choice ^= p.choice << 13
	p.choice ^= p.choice >> 17
	p.choice ^= p.choice << 5
	return int(p.choice % uint32(p.block.config.Keys))
}

func (p *part) done(due, begun time.Time, lag time.Duration, size int) {
	now := time.Now()
	times := p.block.times
	if due.IsZero() {
		record(times.response, now.Sub(begun), size)
	} else {
		record(times.response, now.Sub(due), size)
		record(times.service, now.Sub(begun), size)
		record(times.lag, lag, size)
	}
	p.ops += uint64(size)
}

func record(counts []atomic.Uint64, time time.Duration, size int) {
	ns := uint64(time)
	shift := max(bits.Len64(ns)-11, 0)
	counts[min(uint64(shift)*1024+ns>>shift, slots-1)].Add(uint64(size))
}

func (p *part) note(value string, err error) {
	switch {
	case errors.Is(err, errMiss):
		p.misses++
	case err != nil:
		p.errors[kind(err)]++
	case p.block.config.isGet() && len(value) != p.block.config.ValueBytes:
		p.errors["WRONGVALUE"]++
	}
}

func kind(err error) string {
	word, _, _ := strings.Cut(err.Error(), " ")
	if word != "" && strings.ToUpper(word) == word {
		return strings.Trim(word, ":")
	}
	if errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err) {
		return "timeout"
	}
	return "connection"
}

func (p *part) run(ctx context.Context, c client, keys []string, value string) {
	isGet := p.block.config.isGet()
	depth := 1
	if p.block.config.Mode == "pipeline" {
		depth = p.block.config.Depth
	}
	chosen := make([]string, depth)
	for {
		due, ok := p.block.goesOn(depth)
		if !ok {
			return
		}
		lag := wait(due)
		for i := range chosen {
			chosen[i] = keys[p.choose()]
		}
		begun := time.Now()
		switch {
		case depth > 1:
			c.pipeline(ctx, isGet, chosen, value, p.note)
		case isGet:
			p.note(c.get(ctx, chosen[0]))
		default:
			if err := c.set(ctx, chosen[0], value); err != nil {
				p.note("", err)
			}
		}
		p.done(due, begun, lag, depth)
	}
}

// withFaults increments a key of its own, one after the other, with a line for each.
func withFaults(ctx context.Context, c client, b *block) {
	for sequence := 0; ; sequence++ {
		if _, ok := b.goesOn(1); !ok {
			return
		}
		key := fmt.Sprintf("%s%d", b.config.KeyPrefix, sequence)
		begun := time.Now()
		err := c.increment(ctx, key)
		op := map[string]any{"kind": "incr", "key": key, "sequence": sequence, "outcome": "acknowledged", "ns": time.Since(begun)}
		if err != nil {
			op["outcome"], op["error"] = "unknown", kind(err)
			if c.isRefusal(err) {
				op["outcome"] = "failed"
			}
		}
		say(map[string]any{"op": op})
		time.Sleep(pause)
	}
}

func say(line any) {
	encoded, err := json.Marshal(line)
	if err != nil {
		die(err)
	}
	fmt.Printf("%s\n", encoded)
}

func die(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

func usage() (user, system, rss int64) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		die(err)
	}
	return usage.Utime.Nano(), usage.Stime.Nano(), usage.Maxrss * 1024
}

func pauses() time.Duration {
	var stats debug.GCStats
	debug.ReadGCStats(&stats)
	return stats.PauseTotal
}

func measure(c client, config *config, keys []string, value string, times *times, duration, most int64, seed uint32) map[string]any {
	ctx := context.Background()
	times.clear()
	b := &block{config: config, duration: time.Duration(duration), most: most, times: times}
	all := newPart(b, 0)
	parts := make([]*part, config.Concurrency)
	for i := range parts {
		parts[i] = newPart(b, seed+uint32(i)*2654435761|1)
	}
	gc := pauses()
	user, system, _ := usage()
	b.start = time.Now()
	if config.Mode == "faults" {
		withFaults(ctx, c, b)
	} else {
		var wait sync.WaitGroup
		for _, p := range parts {
			wait.Add(1)
			go func() {
				defer wait.Done()
				p.run(ctx, c, keys, value)
			}()
		}
		wait.Wait()
	}
	elapsed := time.Since(b.start)
	userAfter, systemAfter, rss := usage()
	gc = pauses() - gc
	for _, p := range parts {
		all.join(p)
	}
	result := map[string]any{
		"ops": all.ops, "errors": all.errors, "misses": all.misses, "elapsed_ns": elapsed,
		"user_cpu_ns": userAfter - user, "system_cpu_ns": systemAfter - system,
		"max_rss_bytes": rss, "gc_ns": gc, "histogram": used(times.response),
	}
	if config.Rate > 0 {
		result["service_histogram"], result["lag_histogram"] = used(times.service), used(times.lag)
	}
	return result
}

// used lists the slots that are used, with their counts.
func used(counts []atomic.Uint64) [][2]uint64 {
	list := [][2]uint64{}
	for slot := range counts {
		if count := counts[slot].Load(); count > 0 {
			list = append(list, [2]uint64{uint64(slot), count})
		}
	}
	return list
}

func (p *part) join(other *part) {
	p.ops += other.ops
	p.misses += other.misses
	for kind, count := range other.errors {
		p.errors[kind] += count
	}
}

// version is that of a module in this program.
func version(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == path {
				return strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	return "unknown"
}

func open(config *config) (client, string, string) {
	switch config.Client {
	case "go-redis", "go-redis.recommended":
		return openGoRedis(config), "go-redis", version("github.com/redis/go-redis/v9")
	case "rueidis":
		return openRueidis(config), "rueidis", version("github.com/redis/rueidis")
	}
	die("unknown client " + config.Client)
	return nil, "", ""
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	var config config
	if !lines.Scan() {
		die("the configuration is missing")
	}
	if err := json.Unmarshal(lines.Bytes(), &config); err != nil {
		die(err)
	}
	c, name, version := open(&config)
	keys := make([]string, config.Keys)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%08d", config.KeyPrefix, i)
	}
	value := strings.Repeat("x", config.ValueBytes)
	times := newTimes(config.Rate > 0)
	say(map[string]any{"ready": map[string]any{
		"client": name, "version": version, "options": config.options(),
		"runtime": "Go " + strings.TrimPrefix(runtime.Version(), "go"),
	}})
	for lines.Scan() {
		var duration, most, count int64
		var seed uint32
		if _, err := fmt.Sscanf(lines.Text(), "open %d", &count); err == nil {
			for range count {
				if err := c.another(context.Background()); err != nil {
					die(err)
				}
			}
			say(map[string]any{"opened": count})
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "go %d %d %d", &duration, &most, &seed); err != nil {
			die("unknown line " + lines.Text())
		}
		say(map[string]any{"result": measure(c, &config, keys, value, times, duration, most, seed)})
	}
}
