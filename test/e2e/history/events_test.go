// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/prometheustest"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// found are the events of a node, as they come.
type found struct {
	mu   sync.Mutex
	list []*record.Event
}

// follow follows the events of a node until the test ends.
func follow(t *testing.T, l *lab.Lab, node string) *found {
	t.Helper()
	instance, err := l.Node(node).Instance()
	if err != nil {
		t.Fatal(err)
	}
	f := &found{}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		_ = api.NewClient(instance.Socket()).Events(ctx, api.EventQuery{Follow: true}, func(line []byte) error {
			r, err := record.Parse(line)
			if e, ok := r.(*record.Event); ok {
				f.mu.Lock()
				f.list = append(f.list, e)
				f.mu.Unlock()
			}
			return err
		})
	})
	t.Cleanup(func() { cancel(); ended.Wait() })
	return f
}

// where is at which places events of a name were found.
func (f *found) where(name string) (places []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.list {
		if e.Name != name {
			continue
		}
		place := e.Label("interface")
		if place == "" {
			place = strings.Join(strings.Fields(e.Label("from_node")+" "+e.Label("egress")+" > "+e.Label("to_node")+" "+e.Label("ingress")), " ")
		}
		places = append(places, place)
	}
	return places
}

// await waits until an event of a name was found at a place.
func (f *found) await(t *testing.T, name, place string, limit time.Duration) {
	t.Helper()
	e2e.Await(t, name+" at "+place, limit, func() bool {
		places := f.where(name)
		for _, one := range places {
			if one == place {
				return true
			}
		}
		return false
	})
}

// prometheus is one that scrapes a node's agent, with the rules of the packages.
type prometheus struct{ node *lab.Node }

func scrape(t *testing.T, l *lab.Lab, node string) *prometheus {
	t.Helper()
	directory := t.TempDir()
	rules, err := filepath.Abs("../../../packaging/prometheus/waymark.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: ['" + rules +
		"']\nscrape_configs: [{job_name: waymark, static_configs: [{targets: ['[::1]:9598']}]}]\n"
	file := filepath.Join(directory, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said e2e.Transcript
	ctx, cancel := context.WithCancel(t.Context())
	c := l.Node(node).Command(ctx, prometheustest.Program(t, "prometheus"),
		"--config.file="+file, "--storage.tsdb.path="+filepath.Join(directory, "data"), "--web.listen-address=[::1]:9090")
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = c.Wait() // it was killed
		if t.Failed() {
			t.Logf("%s", said.String())
		}
	})
	return &prometheus{l.Node(node)}
}

// await waits until an expression has a result that has a text.
func (p *prometheus) await(t *testing.T, expression, text string, limit time.Duration) {
	t.Helper()
	promtool, last := prometheustest.Program(t, "promtool"), ""
	for end := time.Now().Add(patience.Of(limit)); ; time.Sleep(300 * time.Millisecond) {
		out, err := p.node.Command(t.Context(), promtool, "query", "instant", "http://[::1]:9090", expression).CombinedOutput()
		if last = string(out); err == nil && strings.Contains(last, text) {
			return
		}
		if time.Now().After(end) {
			t.Errorf("%s is not %s: %s", expression, text, last)
			return
		}
	}
}
