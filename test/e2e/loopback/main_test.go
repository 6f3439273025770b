// SPDX-License-Identifier: Apache-2.0

// Package loopback tests the Loopback and Active flags on a path of real nodes.
package loopback

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
