// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"strings"
	"testing"
)

// Bits are counted, and those that are missing between the first and the last,
// also where numbers start again at 0.
func TestRun(t *testing.T) {
	for _, test := range []struct {
		name         string
		words        []uint64
		set, missing uint64
	}{
		{"none", []uint64{0, 0}, 0, 0},
		{"one", []uint64{0, 1 << 63}, 1, 0},
		{"all", []uint64{^uint64(0), ^uint64(0)}, 128, 0},
		{"in a row", []uint64{0xf0, 0}, 4, 0},
		{"over the border of words", []uint64{1 << 63, 1}, 2, 0},
		{"over the end", []uint64{1, 1 << 63}, 2, 0},
		{"one is missing", []uint64{0xd0, 0}, 3, 1},
		{"two are missing over the end", []uint64{2, 1 << 62}, 2, 2},
		{"two gaps", []uint64{1<<60 | 1<<62, 2}, 3, 3},
	} {
		if set, missing := run(test.words); set != test.set || missing != test.missing {
			t.Errorf("%s: %d set, %d missing, want %d and %d", test.name, set, missing, test.set, test.missing)
		}
	}
}

// Every number is given once and none is left out, unless its packet was lost; and
// as many packets get one as the frequency says.
func TestAudit(t *testing.T) {
	for _, test := range []struct {
		name  string
		oneIn int
		found audited
		want  string
	}{
		{"right", 1, audited{handled: 1000, given: 1000, distinct: 1000}, ""},
		{"lost after the node", 1, audited{handled: 1000, given: 1000, distinct: 990, missing: 8}, ""},
		{"a number twice", 1, audited{handled: 1000, given: 1000, distinct: 999, repeated: 1}, "1 of 1000 numbers were given again"},
		{"a number left out", 1, audited{handled: 1000, given: 1000, distinct: 1000, missing: 1}, "1 of 1000 numbers are missing"},
		{"none", 1, audited{handled: 1000}, "no packet"},
		{"from nowhere", 1, audited{handled: 1000, given: 1000, distinct: 1001}, "1001 chosen packets arrived; 1000 were chosen"},
		{"not every packet", 1, audited{handled: 1000, given: 999, distinct: 999}, "999 of 1000 packets were chosen instead of 1000"},
		{"unchanged", 1, audited{handled: 1000, given: 1000}, "none of 1000 chosen packets arrived"},
		{"one in 100", 100, audited{handled: 100_000, given: 1000, distinct: 1000}, ""},
		{"one in 100, a block not used up", 100, audited{handled: 100_000, given: 998, distinct: 998}, ""},
		{"one in 100, too few", 100, audited{handled: 100_000, given: 990, distinct: 990}, "instead of 1000"},
		{"one in 100, too many", 100, audited{handled: 100_000, given: 1010, distinct: 1010}, "instead of 1000"},
	} {
		err := test.found.fault(Audit{Number: 90, OneIn: test.oneIn}, 2)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v instead of %q", test.name, err, test.want)
		}
	}
}

// Without numbers, the share is checked all the same, and that no packet was chosen
// without being counted.
func TestAuditWithoutNumbers(t *testing.T) {
	for _, test := range []struct {
		name  string
		found audited
		want  string
	}{
		{"right", audited{handled: 100_000, given: 1000, distinct: 1, repeated: 999}, ""},
		{"lost after the node", audited{handled: 100_000, given: 1000, distinct: 1, repeated: 900}, ""},
		{"blocks not used up", audited{handled: 100_000, given: 996, distinct: 1, repeated: 995}, ""},
		{"too few", audited{handled: 100_000, given: 994, distinct: 1, repeated: 993}, "994 of 100000 packets were chosen instead of 1000"},
		{"too many", audited{handled: 100_000, given: 1006, distinct: 1, repeated: 1005}, "1006 of 100000 packets were chosen instead of 1000"},
		{"not counted", audited{handled: 100_000, given: 1000, distinct: 1, repeated: 1000}, "1001 chosen packets arrived"},
		{"unchanged", audited{handled: 100_000, given: 1000}, "none of 1000"},
	} {
		err := test.found.fault(Audit{OneIn: 100}, 2)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v instead of %q", test.name, err, test.want)
		}
	}
}
