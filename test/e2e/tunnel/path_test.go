// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// narrow is `line` whose second inner link carries no more than the edge: full
// packets that have grown at athos are too big for porthos to forward.
func narrow(t *testing.T, tt e2e.Transfer) *lab.Lab {
	t.Helper()
	top := e2e.Domain(t, tt)
	e2e.SetMTU(top, 1500, 1700)
	for i := range top.Links {
		if ends := top.Links[i].Ends; ends[0].Node == "porthos" && ends[1].Node == "aramis" {
			top.Links[i].MTU = 1500
		}
	}
	return e2e.Raise(t, top)
}
