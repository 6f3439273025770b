// SPDX-License-Identifier: Apache-2.0

// Package probes tests the probes that an agent sends in laboratories.
package probes

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
