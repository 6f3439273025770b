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
