// SPDX-License-Identifier: Apache-2.0

// Command waymark shows, for live IPv6 traffic, which way packets took and how long
// each hop held them: it runs the node agent, and is the tool to control it.
package main

import (
	"os"

	"github.com/waymark-net/waymark/internal/commandline"
)

func main() { os.Exit(commandline.Run(run)) }
