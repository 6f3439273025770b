// SPDX-License-Identifier: Apache-2.0

// Command waymark-dashboards writes the dashboards for Grafana into a directory. `make dashboards`
// runs it.
package main

import (
	"fmt"
	"os"

	"github.com/waymark-net/waymark/packaging/dashboards"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: waymark-dashboards DIRECTORY")
		os.Exit(2)
	}
	if err := dashboards.Write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "waymark-dashboards:", err)
		os.Exit(1)
	}
}
