// SPDX-License-Identifier: Apache-2.0

// Package stamp tests `waymark stamp` as users run it, and next to implementations
// that others have written, stamp-suite and Scapy.
package stamp

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
