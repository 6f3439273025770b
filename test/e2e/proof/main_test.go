// SPDX-License-Identifier: Apache-2.0

// Package proof tests proofs of transit on a path of real nodes.
package proof

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
