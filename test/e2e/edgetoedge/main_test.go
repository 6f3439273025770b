// SPDX-License-Identifier: Apache-2.0

// Package edgetoedge tests flows that are measured from edge to edge, by real nodes.
package edgetoedge

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
