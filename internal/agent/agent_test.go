// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/instances"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

func TestStartAppliesTheFile(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	node := h.Datapath.Running().Node
	if node.ID != 2 || len(node.Interfaces) != 2 || node.Interfaces[1].Index != 3 || len(node.Namespaces) != 1 {
		t.Errorf("running %+v", node)
	}
	if mode := h.Datapath.Running().Attach[2]; mode != datapath.AttachAuto {
		t.Errorf("attach %q, want auto", mode)
	}
	if name := h.Status().Node.Name; name != "gamma" {
		t.Errorf("status calls the node %q", name)
	}
	if h.Datapath.LastOffset() != 37*time.Second {
		t.Errorf("TAI offset %v before the first packet, want 37 s", h.Datapath.LastOffset())
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	if closed, removed := h.Datapath.Ended(); closed != 1 || removed != 0 {
		t.Errorf("closed %d times, removed %d: a signal must leave the data plane", closed, removed)
	}
	if _, err := os.Stat(h.Instance.Socket()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := h.Client.Status(context.Background()); !errors.Is(err, api.ErrNoAgent) {
		t.Errorf("status without an agent: %v", err)
	}
}

func TestBadFileStartsNothing(t *testing.T) {
	h := newHarness(t, "node: {id: 2}\ninterfaces: [{nome: eth0}]\nnamespaces: [{id: 70000}]\n")
	err := h.Run()
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) < 2 {
		t.Fatalf("error %v, want every error", err)
	}
	if h.Datapath.Applications() != 0 {
		t.Error("a bad file reached the data plane")
	}
	if _, err := os.Stat(h.Instance.Dir); err == nil {
		t.Error("a bad file made a runtime directory")
	}
}

// A strict file's missing interfaces are reported with its other errors.
func TestStrictFaultsTogether(t *testing.T) {
	h := newHarness(t, "strict: true\ninterfaces: [{name: eth9}]\nnamespaces: [{id: 70000}]\n")
	var faults config.Faults
	if err := h.Run(); !errors.As(err, &faults) || len(faults) != 2 || faults[0].Line != 2 || faults[1].Line != 3 {
		t.Errorf("error %v, want one in line 2 and one in line 3", err)
	}
}

func TestDatapathRefusalEndsTheStart(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Datapath.SetRefusal(errors.New("attach tcx egress on eth0: not supported; set attach: clsact"))
	if err := h.Run(); err == nil || !strings.Contains(err.Error(), "set attach: clsact") {
		t.Errorf("error %v, want the data plane's", err)
	}
	if closed, _ := h.Datapath.Ended(); closed != 1 {
		t.Errorf("closed %d times, want once", closed)
	}
}

func TestFailedReloadKeepsWhatRuns(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	before := h.Datapath.Applications()
	missing := filepath.Join(filepath.Dir(h.File), "missing", "x")
	for _, tt := range []struct {
		name, yaml, want string
		refusal          error
	}{
		{"two errors", "node: {id: 2}\ninterfaces: [{nome: eth0}]\nnamespaces: [{id: 70000}]\n", "node.yaml:3:", nil},
		{"data plane refuses", agenttest.BaseConfig, "verifier", errors.New("verifier says no")},
		{"exporter cannot open", agenttest.BaseConfig + "export: [{kind: jsonl, path: " + missing + "}]\n", "name a file in a directory that exists", nil},
		{"strict", strings.Replace(agenttest.BaseConfig, "eth1", "eth9", 1) + "strict: true\n", "there is no interface", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h.Write(tt.yaml)
			h.Datapath.SetRefusal(tt.refusal)
			defer h.Datapath.SetRefusal(nil)
			_, err := h.Client.Reload(context.Background())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("reload: %v; want %s", err, tt.want)
			}
			if h.Datapath.Applications() != before {
				t.Error("a failed reload changed what runs")
			}
			s := h.Status()
			if len(s.Namespaces) != 1 || len(s.Records.Sinks) != 0 || len(s.Interfaces) != 2 || s.Interfaces[1].Name != "eth1" {
				t.Errorf("status shows %+v", s)
			}
			if !h.Warned(health.ReloadFailed) {
				t.Error("no warning reload_failed")
			}
		})
	}
	h.Write("node: {id: 2}\ninterfaces: [{nome: eth0}]\nnamespaces: [{id: 70000}]\n")
	var refused *api.Error
	if _, err := h.Client.Reload(context.Background()); !errors.As(err, &refused) || len(refused.Faults) < 2 ||
		refused.Faults[len(refused.Faults)-1].Line != 3 {
		t.Errorf("the answer %v lacks the errors", err)
	}
	if log := h.Log.String(); strings.Contains(log, `\n`) || strings.Count(log, "node.yaml:3:") < 2 {
		t.Errorf("errors share a line of the log, or are not in it:\n%s", log)
	}
	h.Write(strings.Replace(agenttest.BaseConfig, "id: 2,", "id: 3,", 1))
	if _, err := h.Client.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if h.Datapath.Running().Node.ID != 3 || h.Warned(health.ReloadFailed) {
		t.Errorf("after a good reload: node %d, warning %v", h.Datapath.Running().Node.ID, h.Warned(health.ReloadFailed))
	}
}

func TestRuntimeChangesLiveUntilReload(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	add := config.Namespace{ID: 124, Data: 1, DataWide: 2}
	if _, err := h.Client.AddNamespace(ctx, add); err != nil {
		t.Fatal(err)
	}
	if err := h.Client.AddSchema(ctx, api.Schema{ID: 5, Data: "unbound"}); err != nil {
		t.Fatal(err)
	}
	has := func() bool { return len(h.Datapath.Running().Node.Namespaces) == 2 }
	if !has() || !h.Status().Modified || !h.Warned(health.RuntimeChanges) {
		t.Fatalf("the change is not in force, or not said: %+v", h.Datapath.Running())
	}

	h.Crash()
	h.Start()
	if !has() || !h.Status().Modified {
		t.Error("a crash lost the runtime change")
	}
	if ss, err := h.Client.Schemas(ctx); err != nil || len(ss) != 2 || ss[0].Data != "unbound" {
		t.Errorf("schemas after a crash: %+v, %v", ss, err)
	}

	h.Crash()
	h.Write(agenttest.BaseConfig + "# edited\n")
	h.Start()
	if has() || h.Status().Modified || !strings.Contains(h.Log.String(), "configuration file has changed") {
		t.Errorf("an edited file is not the truth at start; log:\n%s", h.Log)
	}

	if _, err := h.Client.AddNamespace(ctx, add); err != nil {
		t.Fatal(err)
	}
	if done, err := h.Client.Reload(ctx); err != nil || !done.RuntimeChangesEnded {
		t.Fatal(done, err)
	}
	if has() || h.Status().Modified || h.Warned(health.RuntimeChanges) {
		t.Error("a reload did not end the runtime change")
	}
	if !strings.Contains(h.Log.String(), "changes made at runtime have ended") {
		t.Errorf("the log does not say so:\n%s", h.Log)
	}
	h.Crash()
	h.Start()
	if has() {
		t.Error("a change that a reload ended came back")
	}
}

func TestUnusableKeptStateFallsBackToTheFile(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	if _, err := h.Client.AddNamespace(context.Background(), config.Namespace{ID: 124}); err != nil {
		t.Fatal(err)
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Instance.RunningFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Start()
	if n := len(h.Datapath.Running().Node.Namespaces); n != 1 {
		t.Errorf("%d namespaces, want the file's one", n)
	}
}

func TestRefusedEditKeepsWhatRuns(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	before := h.Datapath.Applications()
	rule := config.Encapsulation{
		Name:      "x",
		Interface: "eth7",
		Frequency: model.Frequency{K: 1, N: 1},
		Options:   []config.Option{{Trace: &config.TraceOption{Namespace: 123, Type: 0x800000, Size: 4}}},
	}
	for _, tt := range []struct {
		name string
		call func() error
		want string
	}{
		{"namespace twice", func() error { _, err := h.Client.AddNamespace(ctx, config.Namespace{ID: 123}); return err }, "namespace 123 exists already; remove it first with: waymark ioam namespace del 123"},
		{"no such namespace", func() error { return failure(h.Client.RemoveNamespace(ctx, 9)) }, "there is no namespace 9"},
		{"export of no namespace", func() error {
			_, err := h.Client.SetExport(ctx, 9, api.NamespaceExport{Export: model.ExportEvery})
			return err
		}, "add it with: waymark ioam namespace add 9"},
		{"schema of no namespace", func() error { return h.Client.SetSchema(ctx, 9, nil) }, "add it with: waymark ioam namespace add 9"},
		{"schema twice", func() error { return h.Client.AddSchema(ctx, api.Schema{ID: 777, Data: "x"}) }, "schema 777 already exists; remove it first with: waymark ioam schema del 777"},
		{"empty schema", func() error { return h.Client.AddSchema(ctx, api.Schema{ID: 1}) }, "0 bytes"},
		{"no such schema", func() error { return h.Client.RemoveSchema(ctx, 9) }, "there is no schema 9"},
		{"unknown interface", func() error { return failure(h.Client.AddEncapsulation(ctx, rule)) }, "eth7"},
		{"replace by a bad rule", func() error { return failure(h.Client.ReplaceEncapsulation(ctx, rule, false)) }, "eth7"},
		{"no such rule", func() error { return h.Client.RemoveEncapsulation(ctx, "a/b c") }, `there is no encapsulation "a/b c"`},
	} {
		err := tt.call()
		var answer *api.Error
		if !errors.As(err, &answer) || answer.Status != 422 || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want 422 and %s", tt.name, err, tt.want)
		}
	}
	if h.Datapath.Applications() != before || h.Status().Modified {
		t.Error("a refused edit changed something")
	}
}

func TestSchemas(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	bound := func() *model.Schema { return h.Datapath.Running().Node.Namespaces[0].Schema }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(h.Client.AddSchema(ctx, api.Schema{ID: 5, Data: "five"}))
	five := ioam.SchemaID(5)
	must(h.Client.SetSchema(ctx, 123, &five))
	if bound() == nil || bound().ID != 5 || string(bound().Data) != "five" {
		t.Errorf("bound %+v, want schema 5", bound())
	}
	ss, err := h.Client.Schemas(ctx)
	must(err)
	if len(ss) != 2 || len(ss[0].Namespaces) != 1 || ss[1].ID != 777 || len(ss[1].Namespaces) != 0 {
		t.Errorf("schemas %+v, want 5 in use and 777 kept", ss)
	}
	must(h.Client.SetSchema(ctx, 123, nil))
	if bound() != nil {
		t.Errorf("bound %+v, want none", bound())
	}
	must(h.Client.SetSchema(ctx, 123, &five))
	must(h.Client.RemoveSchema(ctx, 5))
	if bound() != nil {
		t.Errorf("a removed schema is still bound: %+v", bound())
	}
	must(failure(h.Client.RemoveNamespace(ctx, 123)))
	if ss, err := h.Client.Schemas(ctx); err != nil || len(ss) != 1 || ss[0].ID != 777 {
		t.Errorf("schemas %+v, %v; want 777", ss, err)
	}
}

func TestExportIsSet(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	for _, want := range []api.NamespaceExport{{Export: model.ExportSample, Sample: 100}, {Export: model.ExportEvery}, {}} {
		if _, err := h.Client.SetExport(context.Background(), 123, want); err != nil {
			t.Fatal(err)
		}
		if got := h.Datapath.Running().Node.Namespaces[0]; got.Export != want.Export || got.Sample != want.Sample {
			t.Errorf("%+v after %+v", got, want)
		}
	}
}

func TestInterfacesComeAndGo(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	served := func() map[string]model.IfIndex {
		m := map[string]model.IfIndex{}
		for _, i := range h.Datapath.Running().Node.Interfaces {
			m[i.Name] = i.Index
		}
		return m
	}
	h.System.SetLinks(func(l map[string]config.Link) { delete(l, "eth1") })
	agenttest.Eventually(t, "eth1 left", func() bool { return len(served()) == 1 })
	if !h.Warned(health.InterfaceMissing) {
		t.Error("no warning interface_missing")
	}
	if s := h.Status(); s.Interfaces[1].Index != 0 {
		t.Errorf("status shows the missing eth1 as %+v", s.Interfaces[1])
	}
	h.System.SetLinks(func(l map[string]config.Link) { l["eth1"] = config.Link{Index: 9, MTU: 1700} })
	agenttest.Eventually(t, "eth1 came back", func() bool { return served()["eth1"] == 9 })

	before := h.Datapath.Applications()
	h.System.SetLinks(func(l map[string]config.Link) { l["eth1"] = config.Link{Index: 9, MTU: 9000} })
	agenttest.Eventually(t, "the new MTU is known", func() bool { return h.Status().Interfaces[1].MTU == 9000 })
	if h.Datapath.Applications() != before {
		t.Error("an MTU alone made a new generation")
	}

	time.Sleep(3 * settleTime) // no refresh is due any more: the next one is for this change
	h.Datapath.SetRefusal(errors.New("gone again"))
	h.System.SetLinks(func(l map[string]config.Link) { l["eth1"] = config.Link{Index: 10, MTU: 1700} })
	agenttest.Eventually(t, "the refusal is logged", func() bool { return strings.Contains(h.Log.String(), "gone again") })
	h.Datapath.SetRefusal(nil)
	agenttest.Eventually(t, "the look was repeated", func() bool { return served()["eth1"] == 10 })
}

// Problems found at start and reload are logged with their cure, one per line; a reload only counts
// those that the log has already.
func TestWarningsAreLogged(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.System.SetLinks(func(l map[string]config.Link) { clear(l) })
	h.Start()
	missing := func(name string) int {
		lines := 0
		for line := range strings.SplitSeq(h.Log.String(), "\n") {
			if strings.Contains(line, "level=WARN") && strings.Contains(line, "warning=interface_missing interface="+name+" cure=") {
				lines++
			}
		}
		return lines
	}
	if missing("eth0") != 1 || missing("eth1") != 1 {
		t.Errorf("after the start the log is\n%s", h.Log)
	}
	h.System.SetLinks(func(l map[string]config.Link) { l["eth1"] = config.Link{Index: 3, MTU: 1700, Up: true} })
	agenttest.Eventually(t, "eth1 is served", func() bool { return len(h.Datapath.Running().Node.Interfaces) == 1 })
	if _, err := h.Client.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if missing("eth0") != 1 || missing("eth1") != 1 || !strings.Contains(h.Log.String(), " warnings_as_before=1\n") {
		t.Errorf("after a reload the log is\n%s", h.Log)
	}
	h.System.SetLinks(func(l map[string]config.Link) { delete(l, "eth1") })
	agenttest.Eventually(t, "eth1 is missing again", func() bool { return missing("eth1") == 2 })
	if _, err := h.Client.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if missing("eth0") != 1 || missing("eth1") != 2 || !strings.Contains(h.Log.String(), " warnings_as_before=2\n") {
		t.Errorf("after another reload the log is\n%s", h.Log)
	}
}

// A strict file's interfaces must exist at start and at reload; later, a vanished one
// does not block other changes.
func TestStrictIsForStartAndReload(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig+"strict: true\n")
	h.Start()
	h.System.SetLinks(func(l map[string]config.Link) { delete(l, "eth1") })
	agenttest.Eventually(t, "eth1 left", func() bool { return len(h.Datapath.Running().Node.Interfaces) == 1 })
	if _, err := h.Client.AddNamespace(context.Background(), config.Namespace{ID: 124}); err != nil {
		t.Errorf("a runtime change while an interface is missing: %v", err)
	}
	if _, err := h.Client.Reload(context.Background()); err == nil || !strings.Contains(err.Error(), "eth1") {
		t.Errorf("a reload of a strict file while an interface is missing: %v", err)
	}
}

func TestClockIsFollowed(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	agenttest.Eventually(t, "numbers of proofs follow the clock", func() bool {
		h.Datapath.Mu.Lock()
		defer h.Datapath.Mu.Unlock()
		return h.Datapath.Followed > 1
	})
	h.System.SetClock(health.Clock{Synchronised: true, TAIOffset: 38 * time.Second})
	agenttest.Eventually(t, "a leap second reached the data plane", func() bool { return h.Datapath.LastOffset() == 38*time.Second })
}

func TestUnknownClockStopsNothing(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.System.ClockState, h.System.NoClock = health.Clock{}, errors.New("adjtimex: operation not permitted")
	h.Start()
	if h.Datapath.LastOffset() != 0 || !h.Warned(health.ClockUnsynced) || !strings.Contains(h.Log.String(), "operation not permitted") {
		t.Errorf("offset %v; log:\n%s", h.Datapath.LastOffset(), h.Log)
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	second := *h
	second.Datapath = agenttest.NewDatapath()
	err := second.Run()
	if !errors.Is(err, instances.ErrAgentRuns) || !strings.Contains(err.Error(), "waymark agent stop") {
		t.Errorf("error %v, want a refusal with a cure", err)
	}
	if second.Datapath.Applications() != 0 {
		t.Error("the second agent reached the data plane")
	}
	if h.Status().PID != os.Getpid() {
		t.Error("the first agent no longer answers")
	}
	other := newHarness(t, agenttest.BaseConfig) // another namespace
	other.Start()
}

func TestStop(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	if _, err := h.Client.AddNamespace(ctx, config.Namespace{ID: 124}); err != nil {
		t.Fatal(err)
	}
	stopped, err := h.Client.Stop(ctx, api.Stop{Remove: true})
	if err != nil {
		t.Fatal(err)
	}
	if ws := stopped.Warnings; len(ws) != 1 || ws[0].Code != health.TunnelEndRemoved || !strings.Contains(ws[0].Text, "2001:db8:3::1") {
		t.Errorf("warnings %+v, want one of the tunnel that ended here", ws)
	}
	if _, removed := h.Datapath.Ended(); removed != 1 {
		t.Errorf("removed %d times when the answer came, want once", removed)
	}
	if err := <-h.Done; err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	h.Done <- nil
	if _, err := os.Stat(h.Instance.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the runtime directory is left: %v", err)
	}

	h.Datapath = agenttest.NewDatapath()
	h.Start()
	if stopped, err := h.Client.Stop(ctx, api.Stop{}); err != nil || len(stopped.Warnings) != 0 {
		t.Fatalf("%+v, %v", stopped, err)
	}
	if err := <-h.Done; err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	h.Done <- nil
	if closed, removed := h.Datapath.Ended(); closed != 1 || removed != 0 {
		t.Errorf("closed %d times, removed %d; want the data plane to stay", closed, removed)
	}
}

func TestBrokenReaderEndsTheAgent(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	h.Datapath.Broken <- errors.New("map the ring of CPU 1: cannot allocate memory")
	err := <-h.Done
	h.Done <- err
	if err == nil || !strings.Contains(err.Error(), "ring of CPU 1") {
		t.Errorf("the agent ended with %v", err)
	}
}

func mustAddr(s string) netip.Addr { return netip.MustParseAddr(s) }
