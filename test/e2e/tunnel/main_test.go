// SPDX-License-Identifier: Apache-2.0

// Package tunnel tests what tunnels do to path MTUs and ICMPv6 errors.
package tunnel

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
