// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// plainRule is a rule to a prefix, with a name.
func plainRule(name, destination string, n uint32) config.Encapsulation {
	return config.Encapsulation{Name: name, Interface: "eth1", Mode: model.ModeInline, Frequency: model.Frequency{K: 1, N: n},
		Match: config.Match{
			Destination: prefix(destination),
		}, Options: []config.Option{{Trace: &config.TraceOption{Namespace: 123, Type: 0x800000, Size: 4}}}}
}

// Concurrent changes lose nothing: if several clients replace the same rule under
// different names, one adds it, and the others find it.
func TestClientsReplaceAtOnce(t *testing.T) {
	const clients, rounds = 8, 5
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for round := range rounds {
				own := fmt.Sprintf("2001:db8:%x::/48", 0x100+c)
				name := fmt.Sprintf("client-%d", c)
				if _, err := h.Client.ReplaceSameEncapsulation(t.Context(), plainRule(name+"-shared", "2001:db8:1::/48", uint32(1+round)),
					false); err != nil {
					t.Error(err)
				}
				if _, err := h.Client.ReplaceSameEncapsulation(t.Context(), plainRule(name, own, uint32(1+round)), false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	rules, err := h.Client.Encapsulations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) != clients+1 {
		t.Errorf("%d rules, want one of each client and one of all: %+v", len(rules), rules)
	}
	for _, r := range rules {
		if r.Frequency.N != rounds {
			t.Errorf("%s has the frequency 1/%d, want that of the last round", r.Name, r.Frequency.N)
		}
	}
}

// If several clients remove the same rule, one succeeds, and the others learn that it
// is gone; concurrent changes do not bring it back.
func TestClientsRemoveAtOnce(t *testing.T) {
	const clients = 8
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	for round := range 5 {
		rule := plainRule("rule", "2001:db8:1::/48", 1)
		if _, err := h.Client.AddEncapsulation(t.Context(), rule); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		removals := make(chan error, clients)
		for c := range clients {
			all.Go(func() {
				_, err := h.Client.RemoveSelectedEncapsulation(t.Context(), config.Selection{Match: rule.Match})
				removals <- err
			})
			all.Go(func() {
				_, err := h.Client.ReplaceSameEncapsulation(t.Context(), plainRule("x", "2001:db8:1::/48", uint32(2+c)), true)
				if answer := (*api.Error)(nil); err != nil && (!errors.As(err, &answer) || answer.Status != 404) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		close(removals)
		done := 0
		for err := range removals {
			var answer *api.Error
			switch {
			case err == nil:
				done++
			case !errors.As(err, &answer) || answer.Status != 404:
				t.Error(err)
			}
		}
		if left := h.agent.state.Load().Config.Encapsulations; done != 1 || len(left) != 0 {
			t.Errorf("round %d: %d removed it, and there are %+v", round, done, left)
		}
	}
}

// A change that several rules fit names them, and changes none.
func TestSeveralRulesFit(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	for _, name := range []string{"core", "twin"} {
		if _, err := h.Client.AddEncapsulation(t.Context(), plainRule(name, "2001:db8:1::/48", 1)); err != nil {
			t.Fatal(err)
		}
	}
	before := h.Datapath.Applications()
	_, put := h.Client.ReplaceSameEncapsulation(t.Context(), plainRule("new", "2001:db8:1::/48", 7), false)
	_, del := h.Client.RemoveSelectedEncapsulation(t.Context(), config.Selection{Interface: "eth1"})
	for _, err := range []error{put, del} {
		var answer *api.Error
		if !errors.As(err, &answer) || answer.Status != 409 ||
			answer.Message != "2 encapsulations fit, and nothing was changed; name the one you mean: core, twin" {
			t.Errorf("%v", err)
			continue
		}
		names := []string{}
		for _, e := range answer.Encapsulations {
			names = append(names, e.Name)
		}
		if !slices.Equal(names, []string{"core", "twin"}) {
			t.Errorf("the answer names %v", names)
		}
	}
	if h.Datapath.Applications() != before {
		t.Error("something was changed")
	}
	for body, want := range map[string]int{`{}`: 400, `{"match":{}}`: 400, `{"name":"none"}`: 404, `{"colour":"red"}`: 400,
		`{"name":"twin"}`: 200} {
		if status, answer := h.Request("DELETE", "/v1/encapsulations", body); status != want {
			t.Errorf("%s: %d %s, want %d", body, status, answer, want)
		}
	}
}
