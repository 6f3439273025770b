// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lossquery"
	"github.com/waymark-net/waymark/internal/stamp/reflector"
	"github.com/waymark-net/waymark/test/e2e"
)

// A responder whose port is taken answers once it is free, and its counters outlive it.
func TestResponders(t *testing.T) {
	taken, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.LocalAddr().String()
	const flow = "flows: [{name: red, direction: in, source: 2001:db8::1, segments: [\"fc00:2::e\"], session: 1}]\n" +
		"measurement: {block: 200ms}\n"
	h := newHarness(t, agenttest.BaseConfig+flow+"responders: [{protocol: twamp-light, listen: \""+address+"\", allow: [\"::1/128\"]}]\n")
	h.Start()
	answering := h.responders
	agenttest.Eventually(
		t,
		"a line in the log",
		func() bool { return strings.Contains(h.Log.String(), "the responder of twamp-light does not answer") },
	)
	if !h.Warned(health.NotAnswering) {
		t.Error("no warning")
	}
	taken.Close()
	conn, err := net.Dial("udp6", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func() bool {
		reply := make([]byte, 100)
		conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := conn.Write(lossquery.Query{Sequence: 1}.Append(nil)); err != nil {
			return false
		}
		n, err := conn.Read(reply)
		if err != nil {
			return false
		}
		r, err := lossquery.DecodeResponse(reply[:n])
		return err == nil && r.Control == lossquery.Failure && r.Received == 0 // of no session
	}
	e2e.Await(t, "a response", 20*time.Second, ask)
	if h.Warned(health.NotAnswering) {
		t.Error("a warning, although it answers")
	}
	agenttest.Eventually(t, "the query in the status", func() bool { // it is counted after the answer
		return h.Status().Measurement.ResponderQueries["twamp-light"]["session_unknown"] > 0
	})
	count := func() uint64 {
		answering.mu.Lock()
		defer answering.mu.Unlock()
		n := answering.counts["twamp-light"].Outcomes
		var sum uint64
		for _, o := range n {
			sum += o
		}
		return sum
	}
	if n := count(); n != 0 {
		t.Errorf("%d queries before the responder has ended", n)
	}
	answering.set(nil, "")
	if n := count(); n == 0 || ask() {
		t.Errorf("%d queries after the responder has ended, or it answers", n)
	}
}

// A reload reads the contents of a key file again, whose name is the same; other reloads
// leave sessions alone.
func TestReloadReadsKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	write := func(digits string) {
		if err := os.WriteFile(file, []byte(strings.Repeat(digits, 32)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("5a")
	h := newHarness(t, agenttest.BaseConfig+"stamp: {listen: \"[::1]:42862\", allow: [\"::1/128\"], key-file: "+file+"}\n")
	h.Start()
	answering := h.reflector
	runs := func() (one *reflector.Reflector) {
		answering.mu.Lock()
		defer answering.mu.Unlock()
		answering.each(func(_ *config.Stamp, r *reflector.Reflector) { one = r })
		return one
	}
	agenttest.Eventually(t, "a reflector", func() bool { return runs() != nil })
	key, first := keyOf(answering.d.State.Load()), runs()
	if _, err := h.Client.Reload(t.Context()); err != nil || runs() != first || keyOf(answering.d.State.Load()) != key {
		t.Errorf("a reload without a change: %v, another reflector or key", err)
	}
	write("a5")
	if _, err := h.Client.Reload(t.Context()); err != nil || runs() == first || keyOf(answering.d.State.Load()) == key {
		t.Errorf("a reload with another key: %v, the same reflector or key", err)
	}
}
