// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
)

func TestReplaceEncapsulation(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	rule := config.Encapsulation{Name: "a/b c", Interface: "eth1", Frequency: model.Frequency{K: 1, N: 1}, Mode: model.ModeEncap,
		Tunnel:  &config.Tunnel{Destination: netip.MustParseAddr("2001:db8::9")},
		Options: []config.Option{{Trace: &config.TraceOption{Namespace: 123, Type: 0x800000, Size: 4}}}}
	before := len(h.Datapath.Running().Node.Encapsulations)
	for _, n := range []uint32{1, 7} {
		rule.Frequency.N = n
		if err := failure(h.Client.ReplaceEncapsulation(ctx, rule, false)); err != nil {
			t.Fatal(err)
		}
		es := h.Datapath.Running().Node.Encapsulations
		if last := es[len(es)-1]; len(es) != before+1 || last.Name != rule.Name || last.Frequency.N != n ||
			last.TunnelSource != mustAddr("2001:db8::99") {
			t.Errorf("after frequency 1/%d: %+v", n, es)
		}
	}
}

// A change of a rule that no longer exists is refused, even if it existed when the
// caller looked.
func TestChangeEncapsulation(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, agenttest.TunnelConfig)
	h.Start()
	rule := h.agent.state.Load().Config.Encapsulations[0]
	rule.Frequency = model.Frequency{K: 1, N: 7}
	if err := failure(h.Client.ReplaceEncapsulation(ctx, rule, true)); err != nil ||
		h.Datapath.Running().Node.Encapsulations[0].Frequency.N != 7 {
		t.Errorf("%v, %+v", err, h.Datapath.Running().Node.Encapsulations[0])
	}
	if err := h.Client.RemoveEncapsulation(ctx, rule.Name); err != nil {
		t.Fatal(err)
	}
	before := h.Datapath.Applications()
	var answer *api.Error
	if err := failure(h.Client.ReplaceEncapsulation(ctx, rule, true)); !errors.As(err, &answer) || answer.Status != 404 ||
		!strings.Contains(answer.Message, `there is no encapsulation "one"; `) {
		t.Errorf("%v, %+v", err, answer)
	}
	body, err := json.Marshal(rule)
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"existing=yes", "existing=true&existing=false", "exists=true"} {
		if status, answer := h.Request("PUT", "/v1/encapsulations/one?"+query, string(body)); status != 400 ||
			!strings.Contains(answer, "existing") {
			t.Errorf("%s: %d %s", query, status, answer)
		}
	}
	if h.Datapath.Applications() != before {
		t.Error("what was refused was applied")
	}
	if status, answer := h.Request("PUT", "/v1/encapsulations/one?existing=false", string(body)); status != 200 {
		t.Errorf("existing=false: %d %s", status, answer)
	}
}
