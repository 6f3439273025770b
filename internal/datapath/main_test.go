// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/internal/kmsgtest"
)

// These tests run BPF programs on all kinds of packets: the kernel must log no
// warning.
func TestMain(m *testing.M) { os.Exit(kmsgtest.Run(m)) }
