// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/test/testnet"
)

// TestExecuted compares what programs execute for a packet with the committed table.
// Executed compares the packets with the kernel's.
func TestExecuted(t *testing.T) {
	testnet.NeedRoot(t)
	list, err := Executed()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range list {
		if each.Ours.Instructions <= each.Bare.Instructions || each.Bare.Instructions == 0 || each.Ours.MapLines == 0 ||
			each.Ours.PacketLines == 0 {
			t.Errorf("%s: %+v", each.Name, each)
		}
	}
	table, err := ReadInstructions("../executed.txt")
	if err != nil {
		t.Fatal(err)
	}
	now := InstructionsOf(list)
	if now.Kernel != table.Kernel {
		t.Skipf("bench/executed.txt is of Linux %s; the verifier of %s inlines other functions", table.Kernel, now.Kernel)
	}
	faults, err := now.Exceeding(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
	var text bytes.Buffer
	if err := WriteExecuted(&text, list); err != nil || !strings.Contains(text.String(), "plain packets: ") {
		t.Errorf("%v: %s", err, text.String())
	}
}
