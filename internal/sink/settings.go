// SPDX-License-Identifier: Apache-2.0

package sink

import "github.com/waymark-net/waymark/ioam"

// Kind is the settings of one kind of sink, as a file has them. Each kind has its keys in its own
// package.
type Kind interface {
	// SetDefaults fills in the defaults that are known without a host: node is nil when
	// it may be the kernel's id.
	SetDefaults(node *ioam.NodeID)
	// Place is where the sink writes, and the key that sets it; no two sinks may write
	// to the same place.
	Place() (text, key string)
	// Check adds the errors in the settings, which stand at path in the file.
	Check(path string, add func(path, problem, cure string))
	// Files lists the errors in the files that the sink reads or writes.
	Files() []FileFault
	// Remote is where records go over the network; nil: nowhere.
	Remote() *Remote
	// Open makes the sink for the node with that id.
	Open(node ioam.NodeID, env Environment) (Sink, error)
	// DependsOnNode reports whether the sink depends on the node's id.
	DependsOnNode() bool
}

// Remote is a host that a sink sends to.
type Remote struct {
	Host     string
	Port     uint16
	Protocol ioam.NextHeader
	Clear    bool   // not encrypted
	Text     string // as in the file
}

// FileFault is an error in a file that a key names.
type FileFault struct {
	Key           string
	Unread        error // why it cannot be used; nil: it can
	Problem, Cure string
}
