// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/config"
)

// The address of the metrics also serves the node's health; the default is the loopback
// address.
func TestHealthzBesideMetrics(t *testing.T) {
	file, err := config.Parse("F", []byte("node: {}"))
	if err != nil {
		t.Fatal(err)
	}
	if at, err := netip.ParseAddrPort(string(file.Metrics.Listen)); err != nil || !at.Addr().IsLoopback() {
		t.Errorf("metrics listen on %q by default, %v; want a loopback address", file.Metrics.Listen, err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	h := newHarness(t, strings.Replace(agenttest.BaseConfig, "listen: none", `listen: "`+free.Addr().String()+`"`, 1))
	h.Start()
	at, err := url.Parse(h.Status().Metrics)
	if err != nil {
		t.Fatal(err)
	}
	at.Path = "/healthz"
	ask := func(code int, state string) {
		t.Helper()
		resp, err := http.Get(at.String())
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != code || !strings.Contains(string(body), state) {
			t.Errorf("%s: %d %s, %v; want %d %s", at, resp.StatusCode, body, err, code, state)
		}
	}
	ask(http.StatusOK, `"ok"`)
	h.System.SetIOAM6(true)
	ask(http.StatusServiceUnavailable, `"error"`)
}
