// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/test/testnet"
)

// TestInstructions compares the programs with the committed table.
func TestInstructions(t *testing.T) {
	testnet.NeedRoot(t)
	table, err := ReadInstructions("../instructions.txt")
	if err != nil {
		t.Fatal(err)
	}
	now, err := CountInstructions(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range now.Counts {
		if n == 0 {
			t.Errorf("%s: the kernel reports no number", name)
		}
	}
	if now.Kernel != table.Kernel {
		t.Skipf("bench/instructions.txt is of Linux %s; the verifier of %s counts differently", table.Kernel, now.Kernel)
	}
	faults, err := now.Exceeding(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
	if len(faults) > 0 {
		t.Error("if it has to be so, run: make instructions")
	}
}

func TestInstructionTable(t *testing.T) {
	table := Instructions{Kernel: "6.18", Counts: map[string]uint32{"a program": 1000, "another, of ours": 20}}
	var text bytes.Buffer
	if _, err := table.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "instructions.txt")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := ReadInstructions(path)
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(table, read); difference != "" {
		t.Error(difference)
	}
	if err := os.WriteFile(path, []byte("many a program\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadInstructions(path); err == nil || !strings.Contains(err.Error(), "instructions.txt:1: ") {
		t.Errorf("a table without a number: %v", err)
	}
}

func TestInstructionGrowth(t *testing.T) {
	table := Instructions{Kernel: "6.18", Counts: map[string]uint32{"a": 1000, "b": 1000}}
	for _, test := range []struct {
		name   string
		counts map[string]uint32
		want   []string
	}{
		{"as before", map[string]uint32{"a": 1000, "b": 1000}, nil},
		{"as much as allowed", map[string]uint32{"a": 1050, "b": 1}, nil},
		{"more", map[string]uint32{"a": 1051, "b": 1000}, []string{"a: 1051 instructions, +5.1% beyond the 1000 of the table"}},
		{"new", map[string]uint32{"a": 1000, "b": 1000, "c": 1}, []string{"c: not in the table"}},
		{"gone", map[string]uint32{"a": 1000}, []string{"b: in the table, but no such program is loaded"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Instructions{Kernel: "6.18", Counts: test.counts}.Exceeding(table)
			if err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(test.want, got); difference != "" {
				t.Error(difference)
			}
		})
	}
	if _, err := (Instructions{Kernel: "6.1"}).Exceeding(table); err == nil {
		t.Error("counts of different kernels were compared")
	}
}
