// SPDX-License-Identifier: Apache-2.0

package yamlfile

import "testing"

func TestPeriods(t *testing.T) {
	for _, text := range []string{"1s", "1m", "1m30s", "1h", "1h1m", "1h0m1s", "24h"} {
		if p, err := ParsePeriod(text); err != nil || FormatPeriod(p) != text {
			t.Errorf("%s: %s, %v", text, FormatPeriod(p), err)
		}
	}
	for _, bad := range []string{"", "1", "0s", "-1m", "500ms", "1.5s", "25h", "x"} {
		if p, err := ParsePeriod(bad); err == nil {
			t.Errorf("%q is read as %s", bad, FormatPeriod(p))
		}
	}
}
