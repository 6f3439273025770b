// SPDX-License-Identifier: Apache-2.0

// Package directexport tests what Direct Exports come to, from the option to the
// collector.
package directexport

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
