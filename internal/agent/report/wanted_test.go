// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
)

// TestRecordsAreAskedFor checks that the data plane's records are on only while
// something wants them.
func TestRecordsAreAskedFor(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	wanted := func(want bool) func() bool {
		return func() bool { return h.Datapath.Wanted.Load() == want }
	}
	if !wanted(false)() {
		t.Error("the data plane's records are on although none are wanted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		client := api.NewClient(h.Instance.Socket())
		ended <- client.Observe(ctx, api.RecordFilter{}, func() { close(ready) }, func([]byte) error { return nil })
	}()
	<-ready
	if !wanted(true)() {
		t.Error("an observer is there, and the data plane does not know")
	}
	cancel()
	<-ended
	agenttest.Eventually(t, "the data plane knows that the observer went", wanted(false))

	h.Datapath.SetRefusal(errors.New("no"))
	h.Write(agenttest.BaseConfig + "\nexport: [{kind: jsonl, path: " + filepath.Join(t.TempDir(), "none") + "}]\n")
	if err := h.agent.Reload(); err == nil || !wanted(false)() {
		t.Errorf("a refused configuration asks for records (%v)", err)
	}
	h.Datapath.SetRefusal(nil)

	exporting := agenttest.BaseConfig + "\nexport: [{kind: jsonl, path: " + filepath.Join(t.TempDir(), "records") + "}]\n"
	h.Write(exporting)
	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	if !wanted(true)() {
		t.Error("an exporter is there, and the data plane does not know")
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	if !wanted(true)() {
		t.Error("the next agent's exporter gets no records of the time between")
	}
}
