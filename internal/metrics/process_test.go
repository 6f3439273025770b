// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"strings"
	"testing"
)

// Each metric of the process has a help, and its type is that which its name promises, as promtool wants.
func TestProcessMetricsAreDescribed(t *testing.T) {
	var b bytes.Buffer
	writeProcess(&b)
	list, totals := parseText(b.String()), 0
	for _, f := range list {
		if f.Help == "" || f.Help == f.Name {
			t.Errorf("%s has no help", f.Name)
		}
		if strings.HasSuffix(f.Name, "_total") {
			if totals++; f.kind() != counter {
				t.Errorf("%s is a %s", f.Name, kindNames[f.kind()])
			}
		}
	}
	if len(list) < 20 || totals < 5 {
		t.Errorf("%d metrics, %d totals:\n%s", len(list), totals, &b)
	}
}
