// SPDX-License-Identifier: Apache-2.0

// Package kernel compares Waymark with the kernel's own IOAM.
package kernel

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
