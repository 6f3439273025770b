// SPDX-License-Identifier: Apache-2.0

// Package agent tests how agents start, reload, end and handle errors.
package agent

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
