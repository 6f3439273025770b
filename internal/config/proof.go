// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/internal/stamp/keyfile"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// Proof is the proof of transit of a namespace.
type Proof struct {
	KeyFile      string      `key:"key-file" required:"true"`
	DropRejected bool        `key:"drop-rejected" default:"false"`
	Difference   BlockLength `key:"clock-difference" default:"1s"`
}

// proofTexts say what the keys of pot in namespaces mean.
var proofTexts = yamlfile.KeyTexts{
	"key-file": `This node's key, made by "waymark pot generate", mode 0600 or stricter. It says whether this node ` +
		"encapsulates, verifies, or does neither. A relative path starts from the directory in which the agent was " +
		"started.",
	"drop-rejected": "At the verifying node: drop packets whose option does not prove that they passed every node once, " +
		"or was accepted before. Packets without the option are not affected.",
	"clock-difference": "At the first and the last node: by how much their clocks may differ, 10ms to 10m. The last " +
		"node refuses proofs with a number that is further ahead of its clock (pot_ahead). An attacker who makes " +
		"right proofs of such numbers keeps those of others from being accepted for as long, so more is more " +
		"dangerous.",
}

// ProofOption is a Proof of Transit to insert.
type ProofOption struct {
	Namespace ioam.NamespaceID `key:"namespace" required:"true"`
}

// proofOptionTexts say what the keys of pot in options mean.
var proofOptionTexts = yamlfile.KeyTexts{
	"namespace": "Namespace-ID; its pot, under namespaces, must have the key of node 1. Each proof of a header needs " +
		"its own.",
}

// keys are those that the configuration names, by their files.
type keys map[string]*pot.Key

// readKeys reads the keys of a host's node.
func (c *Config) readKeys(h Host) (known keys, faults Faults) {
	known = keys{}
	for i, ns := range c.Namespaces {
		if ns.Proof == nil {
			continue
		}
		key, err := h.ProofKey(ns.Proof.KeyFile)
		if err != nil {
			faults = append(faults, c.keyFault(i, err))
			continue
		}
		known[ns.Proof.KeyFile] = key
	}
	return known, faults
}

func (c *Config) keyFault(namespace int, err error) *Fault {
	path := fmt.Sprintf("namespaces[%d].pot.key-file", namespace)
	return c.source.Fault(path, path+": "+err.Error(), "")
}

// keyFiles lists the errors in the files of keys of proofs.
func (d *decoder) keyFiles(c *Config) (unusable []unusableFile) {
	for i, ns := range c.Namespaces {
		if ns.Proof == nil || d.followsFrom(fmt.Sprintf("namespaces[%d].pot.key-file", i)) {
			continue
		}
		if _, err := pot.Read(ns.Proof.KeyFile); err != nil {
			unusable = append(unusable, unusableFile{c.keyFault(i, err), err})
		}
	}
	return unusable
}

// messageKeys lists the errors in the files with keys of messages.
func (d *decoder) messageKeys(c *Config) (unusable []unusableFile) {
	checkFile := func(path, file string) {
		if file == "" || d.followsFrom(path) {
			return
		}
		if _, err := keyfile.Read(file); err != nil {
			unusable = append(unusable, unusableFile{c.source.Fault(path, path+": "+err.Error(), ""), err})
		}
	}
	if c.Stamp != nil {
		checkFile("stamp.key-file", c.Stamp.KeyFile)
	}
	if c.Trace != nil {
		checkFile("path-trace.key-file", c.Trace.KeyFile)
	}
	if c.Probes != nil {
		checkFile("probes.key-file", c.Probes.KeyFile)
	}
	return unusable
}

func (p *Proof) node(known keys) *model.Proof {
	if p == nil {
		return nil
	}
	return &model.Proof{Key: known[p.KeyFile], DropRejected: p.DropRejected, ClockDifference: time.Duration(p.Difference)}
}
