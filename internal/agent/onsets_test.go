// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/patience"
)

// The service looks without a request.
func TestOnsetsLook(t *testing.T) {
	looked := make(chan bool, 100)
	o := &onsets{core: &core{}, diagnose: func() []health.Warning { looked <- true; return nil }}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	select {
	case <-looked:
	case <-time.After(patience.Of(4 * service.SamplePeriod)):
		t.Error("it does not look")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Answers have the time of the first look that found a warning, not of the request.
func TestWarningsSince(t *testing.T) {
	h := newHarness(t, "node: {id: 1}\ninterfaces: [{name: eth0, id: 1, role: [ingress]}, {name: eth9, id: 9, role: [ingress]}]\n")
	began := time.Now()
	h.Start()
	defer h.End()
	only[*onsets](h).diagnose()
	looked := time.Now()
	time.Sleep(10 * time.Millisecond)
	ws := h.agent.warnings()
	i := slices.IndexFunc(ws, func(w health.Warning) bool { return w.Code == health.InterfaceMissing })
	if i < 0 {
		t.Fatalf("%+v", ws)
	}
	if since := ws[i].Since.Time; since.Before(began) || since.After(looked) {
		t.Errorf("since %v; the agent started at %v, and had looked at %v", since, began, looked)
	}
}
