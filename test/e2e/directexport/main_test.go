// SPDX-License-Identifier: Apache-2.0

// Package directexport tests Direct Exports from the option to the collector.
package directexport

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
