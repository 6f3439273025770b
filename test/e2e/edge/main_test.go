// SPDX-License-Identifier: Apache-2.0

// Package edge tests the domain's edge: what crosses it, and packets that
// outsiders send.
package edge

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
