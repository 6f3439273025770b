// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	messages "github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// road is a line with two domains: athos to aramis, milady to rochefort. The
// node of number k has the address 2001:db8:ff::k; its link to the next one is
// 2001:db8:k+1::/64, where it is ::1 and the next one ::2.
var road = []string{"alpha", "athos", "porthos", "aramis", "milady", "planchet", "rochefort", "beta"}

// treatment is one way to put traces into packets to beta; without a mode no
// agent runs.
type treatment struct{ mode, attach, forwarding string }

func (tt treatment) String() string { return tt.mode + " by " + tt.attach + ", " + tt.forwarding }

// agent is the configuration of node k.
func (tt treatment) agent(k int) string {
	inside := map[string][2]bool{"athos": {false, true}, "porthos": {true, true}, "aramis": {true, false},
		"milady": {false, true}, "planchet": {true, true}, "rochefort": {true, false}}
	sides, ok := inside[road[k]]
	if !ok || tt.mode == "" {
		return ""
	}
	text := fmt.Sprintf("    agent:\n      node: {id: %d, id-wide: %d}\n      interfaces:\n", k, k)
	for i, in := range sides {
		role := "role: [], boundary: drop"
		if in {
			role = "role: [ingress, egress]"
		}
		text += fmt.Sprintf(
			"        - {name: eth%d, id: %d, id-wide: %d, attach: %s, forwarding: %s, %s}\n",
			i,
			10*k+i+1,
			10*k+i+1,
			tt.attach,
			tt.forwarding,
			role,
		)
	}
	text += fmt.Sprintf("      namespaces: [{id: 123, remove: %v}]\n", tt.mode != "encap" && !sides[1])
	if sides[0] && !sides[1] {
		text += fmt.Sprintf("      decapsulations: [{tunnel-destination: \"2001:db8:ff::%d\"}]\n", k)
	}
	if !sides[0] && sides[1] {
		tunnel := fmt.Sprintf("tunnel: {source: \"2001:db8:ff::%d\", destination: \"2001:db8:ff::%d\"}, ", k, k+2)
		if tt.mode == "inline" {
			tunnel = ""
		}
		text += fmt.Sprintf(
			"      encapsulations: [{name: all, interface: eth1, match: {destination: \"2001:db8:7::/64\"}, mode: %s, "+
				"%soptions: [{trace: {namespace: 123, type: 0xf80000, size: 60}}]}]\n",
			tt.mode,
			tunnel,
		)
	}
	return text
}

// raiseRoad raises the line, with pairs of changes to the agents' configurations. Routers answer
// without a rate limit.
func raiseRoad(t *testing.T, tt treatment, changes ...string) *lab.Lab {
	t.Helper()
	return raiseRoadWith(t, len(road), tt, changes...)
}

// raiseFirstDomain raises the line for packets that do not reach the second domain: its nodes have no
// agents.
func raiseFirstDomain(t *testing.T, tt treatment, changes ...string) *lab.Lab {
	t.Helper()
	return raiseRoadWith(t, slices.Index(road, "milady"), tt, changes...)
}

// raiseRoadWith has agents at nodes before one.
func raiseRoadWith(t *testing.T, end int, tt treatment, changes ...string) *lab.Lab {
	t.Helper()
	text := "name: road\npermanent-neighbours: true\nnodes:\n"
	links, change := "links:\n", strings.NewReplacer(changes...)
	for k, name := range road {
		text += fmt.Sprintf("  - name: %s\n    addresses: 2001:db8:ff::%d/128\n    routes:\n", name, k)
		for other := range road {
			via := fmt.Sprintf("2001:db8:%d::2", k+1)
			if other < k {
				via = fmt.Sprintf("2001:db8:%d::1", k)
			}
			if other != k {
				text += fmt.Sprintf("      - {to: \"2001:db8:ff::%d/128\", via: \"%s\"}\n", other, via)
			}
			if other+1 < len(road) && other != k && other+1 != k {
				text += fmt.Sprintf("      - {to: \"2001:db8:%d::/64\", via: \"%s\"}\n", other+1, via)
			}
		}
		if k < end {
			text += change.Replace(tt.agent(k))
		}
		if k+1 < len(road) {
			from := "eth1"
			if k == 0 {
				from = "eth0"
			}
			links += fmt.Sprintf(
				"  - mtu: 1700\n    ends:\n      - {node: %s, interface: %s, addresses: \"2001:db8:%d::1/64\"}\n"+
					"      - {node: %s, interface: eth0, addresses: \"2001:db8:%d::2/64\"}\n",
				name,
				from,
				k+1,
				road[k+1],
				k+1,
			)
		}
	}
	l := e2e.RaiseText(t, "road", text+links)
	for _, name := range road {
		e2e.Must(t, l.Node(name), "sysctl", "-qw", "net.ipv6.icmp.ratelimit=0")
	}
	if tt.forwarding == "fast" {
		e2e.OpenEnds(t, l, "alpha", "beta")
	}
	return l
}

// ear collects the ICMPv6 errors that a node receives, and its own echo replies.
type ear struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	heard  []messages.Message
	err    error
}

const echoReply messages.Type = 129

func listen(t *testing.T, n *lab.Node) *ear {
	t.Helper()
	var l *messages.Listener
	if err := n.Do(func() (err error) {
		l, err = messages.Listen(2048, 1_000_000, messages.Unreachable, messages.TooBig, messages.TimeExceeded, messages.ParameterProblem,
			echoReply)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e := &ear{cancel: cancel}
	e.done.Go(func() {
		e.err = l.Read(ctx, func(m messages.Message) {
			m.Body = bytes.Clone(m.Body)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.heard = append(e.heard, m)
		})
	})
	return e
}

func (e *ear) soFar() []messages.Message {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

func (e *ear) stop(t *testing.T) []messages.Message {
	t.Helper()
	e.cancel()
	e.done.Wait()
	if e.err != nil {
		t.Error(e.err)
	}
	return e.heard
}

var roadsEnd = netip.MustParseAddr("2001:db8:7::2")
