// SPDX-License-Identifier: Apache-2.0

// Package lab tests `waymark lab`, including its demonstration.
package lab

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
