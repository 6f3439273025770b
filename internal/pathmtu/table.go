// SPDX-License-Identifier: Apache-2.0

package pathmtu

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
)

// Lifetime is how long a path MTU is valid after the last message that reported
// it: after that, the path may carry more again (RFC 8201 §4 recommends ten
// minutes, and forbids less than five).
const Lifetime = 10 * time.Minute

// Tunnel is the configuration of one tunnel.
type Tunnel struct {
	Source, Destination netip.Addr
	MTU                 int // of the interface where it begins, in bytes; 0 when unknown
}

// Result is what happened to a message.
type Result uint8

// The results, each with its name in metrics.
const (
	Lowered      Result = iota // the path MTU is smaller now
	Unchanged                  // already known, or not smaller than the known one
	BelowMinimum               // less than the minimum MTU: RFC 8201 §4 requires discarding it
	Implausible                // the quoted packet would have fit
	Foreign                    // about no configured tunnel
	Malformed
	numResults
)

var resultNames = [numResults]string{"lowered", "unchanged", "below_minimum", "implausible", "foreign", "malformed"}

// String is the result's name.
func (r Result) String() string {
	if r >= numResults {
		return "unknown"
	}
	return resultNames[r]
}

// Path is the known path MTU to a tunnel's destination (RFC 8201 §5.2: one value
// for each destination). The next agent gets it in this form.
type Path struct {
	Destination netip.Addr   `json:"destination"`
	MTU         int          `json:"mtu"`   // bytes of an IPv6 packet
	Until       instant.Time `json:"until"` // when it expires
}

// Table holds the path MTUs of tunnels: never more than there are tunnels. The
// zero value is empty; it is safe for concurrent use.
type Table struct {
	mu      sync.Mutex
	paths   map[netip.Addr]Path
	changed map[netip.Addr]bool
	counts  [numResults]uint64
}

// Hear processes a message, if it is about one of the tunnels.
func (t *Table) Hear(message []byte, tunnels []Tunnel, now time.Time) Result {
	big, err := ParseTooBig(message)
	t.mu.Lock()
	defer t.mu.Unlock()
	result := Malformed
	switch {
	case err == nil:
		result = t.applyTooBig(big, tunnels, now)
	case errors.Is(err, ErrNotTunnels):
		result = Foreign
	}
	t.counts[result]++
	return result
}

func (t *Table) applyTooBig(big TooBig, tunnels []Tunnel, now time.Time) Result {
	ours, largest := false, 0
	for _, tunnel := range tunnels {
		if tunnel.Destination == big.Destination {
			ours = ours || tunnel.Source == big.Source
			largest = max(largest, tunnel.MTU)
		}
	}
	known, has := t.paths[big.Destination]
	switch {
	case !ours:
		return Foreign
	case big.MTU < Minimum:
		return BelowMinimum
	case big.Length != 0 && int64(big.Length) <= int64(big.MTU):
		return Implausible
	case has && int64(big.MTU) == int64(known.MTU):
		known.Until = instant.Of(now.Add(Lifetime))
		t.paths[big.Destination] = known
		return Unchanged
	case has && int64(big.MTU) > int64(known.MTU), !has && largest != 0 && int64(big.MTU) >= int64(largest), big.MTU > maxMTU:
		return Unchanged
	}
	t.makeRoom(tunnels)
	t.set(Path{Destination: big.Destination, MTU: int(big.MTU), Until: instant.Of(now.Add(Lifetime))})
	return Lowered
}

// maxMTU is more than the length of any tunneled packet that states its length.
const maxMTU = ipv6Len + 1<<16 - 1

// makeRoom forgets the paths of removed tunnels when there are many.
func (t *Table) makeRoom(tunnels []Tunnel) {
	if len(t.paths) < len(tunnels) {
		return
	}
	maps.DeleteFunc(t.paths, func(destination netip.Addr, _ Path) bool {
		return !slices.ContainsFunc(tunnels, func(tunnel Tunnel) bool { return tunnel.Destination == destination })
	})
}

func (t *Table) set(p Path) {
	if t.paths == nil {
		t.paths = make(map[netip.Addr]Path)
	}
	t.paths[p.Destination] = p
	t.change(p.Destination)
}

func (t *Table) change(destination netip.Addr) {
	if t.changed == nil {
		t.changed = make(map[netip.Addr]bool)
	}
	t.changed[destination] = true
}

// Expire forgets the path MTUs that have expired.
func (t *Table) Expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for destination, p := range t.paths {
		if !now.Before(p.Until.Time) {
			delete(t.paths, destination)
			t.change(destination)
		}
	}
}

// TakeChanged returns the destinations whose path MTU has changed since the last
// call.
func (t *Table) TakeChanged() map[netip.Addr]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := t.changed
	t.changed = nil
	return changed
}

// Until is when the path MTU to a destination expires; zero when none is known.
func (t *Table) Until(destination netip.Addr) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paths[destination].Until.Time
}

// MTU is the path MTU to a tunnel's destination in bytes, 0 when unknown.
func (t *Table) MTU(destination netip.Addr) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paths[destination].MTU
}

// Paths lists the known path MTUs, by destination.
func (t *Table) Paths() []Path {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Values(t.paths), func(a, b Path) int { return a.Destination.Compare(b.Destination) })
}

// Restore takes over an earlier table's entries that are still valid.
func (t *Table) Restore(paths []Path, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range paths[:min(len(paths), model.MaxEncapsulations)] {
		left := p.Until.Sub(now)
		if p.Destination.Is6() && p.MTU >= Minimum && p.MTU <= maxMTU && left > 0 {
			p.Until = instant.Of(now.Add(min(left, Lifetime))) // even if the clock was changed meanwhile
			t.set(p)
		}
	}
}

// Count is how many messages had a result.
type Count struct {
	Result   Result
	Messages uint64
}

// Counts lists every result.
func (t *Table) Counts() []Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Count, 0, numResults)
	for r, n := range t.counts {
		out = append(out, Count{Result(r), n})
	}
	return out
}
