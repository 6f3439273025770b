// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/internal/kmsgtest"
)

// BPF programs of all kinds meet packets here: the kernel must have nothing to
// say about it.
func TestMain(m *testing.M) { os.Exit(kmsgtest.Run(m)) }
