// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

// A topology of a lab is told from a configuration with a wrong key.
func TestTopologyIsRecognised(t *testing.T) {
	checkFaults(t, []faultCase{
		{"topology", "name: pair\nnodes:\n  - name: a\nlinks: []", []string{
			`1:1: this is a topology of a lab, not an agent's configuration; raise it with 'waymark lab up F', which checks it, its agents' configurations included`}},
		{"misspelt node", "nodes: {id: 1}", []string{`1:1: unknown key "nodes" in the file; did you mean "node"?`}},
	})
}
