// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
)

// Modes returns the transfers of one hook: both ways to trace.
func Modes(attach config.Attach) []Transfer {
	return slices.DeleteFunc(Transfers(), func(tt Transfer) bool { return tt.Attach != attach })
}

// Domain is `line`, with a trace in every packet to beta.
func Domain(t *testing.T, tt Transfer) *lab.Topology {
	t.Helper()
	top := Builtin(t, "line")
	Reconfigure(t, top, "athos", append(tt.Athos, "frequency: 1/10", "frequency: 1/1")...)
	Reconfigure(t, top, "aramis", tt.Aramis...)
	for _, node := range []string{"athos", "porthos", "aramis"} {
		Reconfigure(t, top, node, ", role:", fmt.Sprintf(", attach: %s, role:", tt.Attach))
	}
	return top
}

// SetMTU gives the links at the hosts one MTU, and those of the domain another.
func SetMTU(top *lab.Topology, edge, inner int) {
	for i := range top.Links {
		top.Links[i].MTU = inner
		for _, end := range top.Links[i].Ends {
			if end.Node == "alpha" || end.Node == "beta" {
				top.Links[i].MTU = edge
			}
		}
	}
}

// Send runs exchanges to beta; nothing may be lost, changed or duplicated.
func Send(t *testing.T, l *lab.Lab, from string, exchanges ...lab.Traffic) {
	t.Helper()
	for _, e := range exchanges {
		e.From, e.To = from, "beta"
		r, err := l.Send(t.Context(), e)
		if err != nil || r.Lost() > 0 || r.Duplicate > 0 {
			t.Errorf("%s of %d bytes from %s: %+v, %v", e.Kind, e.Size, from, r, err)
		}
	}
}

// StartTraffic sends datagrams, one per millisecond, until stop is called, which
// returns their sum. patience stretches the interval: on a slow machine the
// traffic would otherwise disturb the verifier rather than the reload.
func StartTraffic(t *testing.T, l *lab.Lab) (stop func() lab.TrafficResult) {
	t.Helper()
	const burst = 250
	enough, done := make(chan struct{}), make(chan lab.TrafficResult, 1)
	go func() {
		var sum lab.TrafficResult
		defer func() { done <- sum }()
		for {
			r, err := l.Send(
				t.Context(),
				lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: burst, Interval: patience.Of(time.Millisecond), Size: 100, Port: 9000},
			)
			if t.Context().Err() != nil { // the test has failed already
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			sum.Sent += r.Sent
			sum.Received += r.Received
			sum.Duplicate += r.Duplicate
			select {
			case <-enough:
				return
			default:
			}
		}
	}()
	stop = sync.OnceValue(func() lab.TrafficResult {
		close(enough)
		return <-done
	})
	t.Cleanup(func() { stop() })
	return stop
}

// Reconfigure changes the text of a node's configuration, which must contain each
// old text.
func Reconfigure(t *testing.T, top *lab.Topology, node string, oldnew ...string) {
	t.Helper()
	spec := top.Node(node).Agent
	text := string(spec.Config)
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(text, oldnew[i]) {
			t.Fatalf("the configuration of %s has no %q", node, oldnew[i])
		}
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	settings, err := config.Parse(node, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	spec.Config, spec.Settings = []byte(text), settings
}

// Transfer is one way to trace every packet of a TCP connection.
type Transfer struct {
	Mode    string
	Attach  config.Attach
	Size    int64
	Athos   []string // changes of its configuration
	Aramis  []string
	Added   string // outcome of athos
	Removed string // outcome of aramis
}

// Transfers returns both modes by both hooks. XDP at a veth turns the offloads of
// its peer off; with tc, packets of up to 64 KiB cross the domain.
func Transfers() []Transfer {
	large, small := int64(1<<30), int64(64<<20)
	if testing.Short() {
		large = small
	}
	encap := Transfer{
		Mode:  "encap",
		Athos: []string{"mode: auto", "mode: encap"},
		Added: "encap_tunneled", Removed: "tunnel_decapsulated",
	}
	inline := Transfer{
		Mode:   "inline",
		Athos:  []string{"mode: auto", "mode: inline", "    tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::3}\n", ""},
		Aramis: []string{"{id: 123}", "{id: 123, remove: true}"},
		Added:  "encap_inserted", Removed: "inline_removed",
	}
	var all []Transfer
	for _, t := range []Transfer{encap, inline} {
		t.Attach, t.Size = TCModes()[0], large
		all = append(all, t)
		t.Attach, t.Size = "xdp", small
		all = append(all, t)
	}
	return all
}

// CheckTransfer checks that every packet was traced.
func CheckTransfer(t *testing.T, l *lab.Lab, tt Transfer) {
	t.Helper()
	// porthos counts a packet at each of its hooks. The connection's last
	// packets may still be on their way.
	var added, filled, removed uint64
	for range 100 {
		added, filled, removed = Counter(t, l, "athos", tt.Added), Counter(t, l, "porthos", "trace_filled"), Counter(t, l, "aramis", tt.Removed)
		if added > 0 && filled == 2*added && removed == added {
			break
		}
		time.Sleep(patience.Of(20 * time.Millisecond))
	}
	if added == 0 || filled != 2*added || removed != added {
		t.Errorf("athos added %d headers, porthos filled %d, aramis removed %d", added, filled, removed)
	}
	for _, skipped := range []string{"encap_not_selected", "encap_skipped_mtu", "encap_skipped_gso", "encap_skipped_headroom",
		"encap_skipped_hbh"} {
		if n := Counter(t, l, "athos", skipped); n > 0 {
			t.Errorf("athos: %s %d, want 0: all are selected, and the inner links have room", skipped, n)
		}
	}
	for _, refused := range []string{"removal_partial", "decap_failed", "boundary_dropped"} {
		if n := Counter(t, l, "aramis", refused); n > 0 {
			t.Errorf("aramis: %s %d, want 0", refused, n)
		}
	}
}
