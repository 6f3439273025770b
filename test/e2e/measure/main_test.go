// SPDX-License-Identifier: Apache-2.0

// Package measure tests the measurement of SRv6 flows next to the
// kernel's segment routing.
package measure

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
