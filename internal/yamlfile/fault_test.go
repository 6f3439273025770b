// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"fmt"
	"testing"

	"github.com/waymark-net/waymark/internal/problem"
)

// Who shows problem and cure apart finds both in an error of a file, with its place in the former.
func TestPartsOfFault(t *testing.T) {
	fault := &Fault{File: "a.yaml", Line: 3, Column: 5, Problem: "no number", Cure: "write 7"}
	for _, err := range []error{fault, fmt.Errorf("reload: %w", Faults{fault})} {
		text, cure := problem.Of(err)
		if cure != fault.Cure || text+"; "+cure != err.Error() {
			t.Errorf("%v: %q and %q", err, text, cure)
		}
	}
	// Those of several do not pass for that of the first.
	several := Faults{fault, {File: "a.yaml", Line: 4, Column: 1, Problem: "no key", Cure: "write a key"}}
	if text, cure := problem.Of(several); text != several.Error() || cure != "" {
		t.Errorf("%q and %q", text, cure)
	}
}
