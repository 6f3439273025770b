// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// A surplus argument, or a word without its group, gives an error that says what to
// type.
func TestMisplacedArguments(t *testing.T) {
	program.Usage(t, map[string]string{
		"agent run node.yaml": "waymark agent run takes no argument; use --config node.yaml",
		"config check a b":    "waymark config check takes one FILE, but got 2: a b; see 'waymark config check --help'",
		"config check":        "FILE is missing; see 'waymark config check --help'",
		"decode":              "FILE is missing; see 'waymark decode --help'",
	})
}

func TestEmptyValues(t *testing.T) { program.EmptyValues(t, 15) }
