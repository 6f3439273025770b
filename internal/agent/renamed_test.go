// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
)

// A key with a former name is served, and warned of in the status and the log, until the file that its
// warning's cure makes is loaded.
func TestFormerNameOfAKey(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig+"trace: {allow: [any]}\n")
	h.Start()
	var found health.Warning
	for _, w := range h.agent.warnings() {
		if w.Code == health.KeyRenamed {
			found = w
		}
	}
	if found.Severity != health.Info || !strings.Contains(found.Text, `: the key "trace" in the file is now called "path-trace"`) ||
		!strings.Contains(found.Text, h.File+":") ||
		!strings.HasSuffix(found.Cure, "or run: waymark config migrate "+h.File+" --write; then run: waymark agent reload") {
		t.Errorf("%+v", found)
	}
	if said := lines(h, "warning=key_renamed"); len(said) != 1 || !strings.Contains(said[0], "config migrate") {
		t.Errorf("the log has %q", said)
	}
	text, err := os.ReadFile(h.File)
	if err != nil {
		t.Fatal(err)
	}
	if text, _, err = config.Migrate(h.File, text); err != nil {
		t.Fatal(err)
	}
	h.Write(string(text))
	if _, err := h.Client.Reload(t.Context()); err != nil || h.Warned(health.KeyRenamed) {
		t.Errorf("still warned of after the cure: %v", err)
	}
}
