// SPDX-License-Identifier: Apache-2.0

// Package pathtrace tests "waymark trace" in laboratories.
package pathtrace

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
