// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/ioam"
)

func TestVainExports(t *testing.T) {
	n := healthyNode()
	n.Unsent, n.Encapsulations[0].Unjoined = []ioam.NamespaceID{1, 20}, true
	ws := CheckNode(n)
	if len(ws) != 2 || ws[0].Code != ExportsUnsent || !strings.Contains(ws[0].Text, "namespaces 1, 20,") ||
		ws[1].Code != SequenceUnjoined || ws[1].Interface != "eth1" || !strings.Contains(ws[1].Text, "encapsulation core ") {
		t.Errorf("%+v", ws)
	}
	n = healthyNode()
	n.Unsent = []ioam.NamespaceID{1}
	if ws := CheckNode(n); !slices.ContainsFunc(ws, func(w Warning) bool { return strings.Contains(w.Text, "for namespace 1,") }) {
		t.Errorf("%+v", ws)
	}
}

// A node that inserts Direct Exports has to know which packets are exports.
func TestCollectorsUnknown(t *testing.T) {
	for _, tt := range []struct{ exporting, none, want bool }{
		{true, true, true},
		{true, false, false},
		{false, true, false},
	} {
		n := healthyNode()
		n.Encapsulations[0].Exporting, n.NoCollectors = tt.exporting, tt.none
		ws := CheckNode(n)
		if got := len(ws) == 1 && ws[0].Code == CollectorsUnknown && ws[0].Severity == Degraded; got != tt.want || len(ws) > 0 && !tt.want {
			t.Errorf("%+v: %+v", tt, ws)
		}
	}
	w := CollectorUnspared("udp://x:4739", "nobody has it")
	if w.Code != CollectorsUnknown || !strings.Contains(w.Text, "udp://x:4739") || !strings.HasSuffix(w.Text, ": nobody has it") {
		t.Errorf("%+v", w)
	}
}

// What an RFC advises against and may be wanted all the same is a hint: it comes
// behind all else, and only where one asks for it.
func TestHints(t *testing.T) {
	n := healthyNode()
	n.Unsecured, n.Encapsulations[0].Unselective, n.PrivatePins = []string{"udp://a:1", "tcp://b:2"}, true, true
	ws := CheckNode(n)
	if len(ws) != 3 || ws[1].Code != ExportsUnsecured || !strings.Contains(ws[1].Text, "udp://a:1 and tcp://b:2 ") ||
		ws[2].Code != ExportsUnselective || ws[2].Interface != "eth1" || !strings.Contains(ws[2].Text, "encapsulation core ") {
		t.Fatalf("%+v", ws)
	}
	if Worst(ws[1:]) != Hint {
		t.Errorf("hints have the severity %q", Worst(ws[1:]))
	}
	if rest := WithoutHints(ws); len(rest) != 1 || rest[0].Code != BPFFSPrivate {
		t.Errorf("without hints: %+v", rest)
	}
}
