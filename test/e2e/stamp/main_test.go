// SPDX-License-Identifier: Apache-2.0

// Package stamp tests `waymark stamp` as users run it, and next to an implementation
// that others have written, stamp-suite.
package stamp

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
