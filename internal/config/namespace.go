// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// Namespace is one IOAM namespace that the node takes part in.
type Namespace struct {
	ID              ioam.NamespaceID `key:"id" required:"true"`
	Data            Data             `key:"data" default:"0xffffffff"`
	DataWide        DataWide         `key:"data-wide" default:"0xffffffffffffffff"`
	Schema          *Schema          `key:"schema" optional:"true"`
	Remove          bool             `key:"remove" default:"false"`
	Export          model.ExportMode `key:"export" default:"none"`
	Sample          Sample           `key:"sample" optional:"true"`
	Proof           *Proof           `key:"pot" optional:"true"`
	EdgeToEdge      bool             `key:"e2e" default:"false"`
	Loopback        bool             `key:"loopback" default:"false"`
	TerminateActive bool             `key:"terminate-active" default:"false"`
	Incremental     bool             `key:"incremental" default:"false"`
}

// Schema is the opaque state snapshot of a namespace.
type Schema struct {
	ID   ioam.SchemaID `key:"id" required:"true"`
	Data string        `key:"data" required:"true"`
}

// namespaceTexts say what the keys of namespaces mean.
var namespaceTexts = yamlfile.KeyTexts{
	"id":             "Namespace-ID (RFC 9197 §4.3).",
	"data":           `Namespace data of trace field 5; all-ones is "not available".`,
	"data-wide":      `Namespace data of trace field 10; all-ones is "not available".`,
	"schema":         "The opaque state snapshot that the node adds (trace bit 22, RFC 9197 §4.4.2.13).",
	"schema, absent": "no snapshot",
	"remove": "Remove inline options of this namespace (traces, Direct Exports, proofs of transit, Edge-to-Edge) on " +
		"receipt: they end at this node.",
	"export": "What this node exports for packets with a Direct Export option of this namespace (RFC 9326): every makes " +
		"a postcard for every packet; aggregate adds packets to their flow, which is exported every " +
		"export-interval; sample does both, with a postcard for every n-th packet: the same packets at all nodes if " +
		"they carry a Sequence Number.",
	"sample":         "The n of export: sample, where it is required.",
	"sample, absent": "no sampling",
	"pot": "The proof of transit of this namespace (RFC 9197 §4.5, POT-Type 0): this node updates the option of " +
		"arriving packets, and the last node of the path verifies it. At most 16 namespaces.",
	"pot, absent": "proofs pass unchanged",
	"e2e": "Measure the flows whose Edge-to-Edge options (RFC 9197 §4.6) of this namespace end at this node, which " +
		"decapsulates them or has remove: packets that are lost, duplicated or reordered, and their one-way delay, " +
		"every export-interval.",
	"loopback": "Return a copy of each packet that arrives with a trace of this namespace and type 0x800000 that has " +
		"the Loopback flag to the packet's source, within loopback-limit and loopback-rate (RFC 9322 §4.2). The " +
		"copy ends with the IOAM options; the packet goes on. Of packets with an incremental trace, only if the " +
		"namespace has incremental, too.",
	"terminate-active": "Where this node is to remove a trace of this namespace that has the Active flag, at the end of " +
		"a tunnel or by remove, report the packet and drop it, whatever else its headers hold (RFC 9322 §5). " +
		"Without it, such a packet goes on like any other.",
	"incremental": "Let packets with an incremental trace of this namespace (RFC 9197 §4.4) grow by this node's data " +
		"where they leave it. Set it only inside of a domain whose nodes agree to it, as RFC 8200 §4 forbids it " +
		"elsewhere. Without it, such traces pass unchanged.",
	"schema.id":   "Schema ID.",
	"schema.data": "The snapshot's content; padded with zeros to a multiple of 4 bytes on the wire.",
}

// Data is the namespace data of trace field 5.
type Data uint32

// DataWide is the namespace data of trace field 10.
type DataWide uint64

// Sample is the n of every n-th packet, 0 for no sampling.
type Sample uint32

// NamespaceChange says what this node does with the options of a namespace; nil leaves a
// setting as it is.
type NamespaceChange struct {
	Remove          *bool `json:"remove,omitempty"`
	EdgeToEdge      *bool `json:"e2e,omitempty"`
	Incremental     *bool `json:"incremental,omitempty"`
	Loopback        *bool `json:"loopback,omitempty"`
	TerminateActive *bool `json:"terminate_active,omitempty"`

	Proof ProofChange `json:"pot,omitzero"`
}

// ProofChange is what becomes of a namespace's proof of transit; nil leaves it.
type ProofChange struct {
	KeyFile      *string `json:"key_file,omitempty"` // "" ends it
	DropRejected *bool   `json:"drop_rejected,omitempty"`
}

// SetNamespace changes settings of a namespace.
func (c *Config) SetNamespace(id ioam.NamespaceID, change NamespaceChange) (*Config, error) {
	i := c.namespace(id)
	if i < 0 {
		return nil, noNamespace(id, fmt.Sprintf("add it with: waymark ioam namespace add %d", id))
	}
	ns := c.Namespaces[i]
	if err := change.Apply(&ns); err != nil {
		return nil, err
	}
	return c.edit(func(next *Config) { next.Namespaces[i] = ns })
}

// Switch is a key of a namespace that is on or off, and that may change at run time.
type Switch struct {
	Key      string
	in       func(*Namespace) *bool
	changeIn func(*NamespaceChange) **bool
}

// NamespaceSwitches are all of them: the change, the command line and the API have what stands here.
var NamespaceSwitches = []Switch{
	{"remove", func(n *Namespace) *bool { return &n.Remove }, func(c *NamespaceChange) **bool { return &c.Remove }},
	{"e2e", func(n *Namespace) *bool { return &n.EdgeToEdge }, func(c *NamespaceChange) **bool { return &c.EdgeToEdge }},
	{"incremental", func(n *Namespace) *bool { return &n.Incremental }, func(c *NamespaceChange) **bool { return &c.Incremental }},
	{"loopback", func(n *Namespace) *bool { return &n.Loopback }, func(c *NamespaceChange) **bool { return &c.Loopback }},
	{
		"terminate-active",
		func(n *Namespace) *bool { return &n.TerminateActive },
		func(c *NamespaceChange) **bool { return &c.TerminateActive },
	},
}

// IsOn reports whether the switch is on in a namespace.
func (s Switch) IsOn(ns *Namespace) bool { return *s.in(ns) }

// Set makes a change turn the switch on or off.
func (s Switch) Set(change *NamespaceChange, on bool) { *s.changeIn(change) = &on }

// Apply changes a namespace.
func (change NamespaceChange) Apply(ns *Namespace) error {
	for _, s := range NamespaceSwitches {
		if wanted := *s.changeIn(&change); wanted != nil {
			*s.in(ns) = *wanted
		}
	}
	return change.Proof.apply(ns)
}

// apply changes the proof of transit, which other copies of the namespace may share.
func (change ProofChange) apply(ns *Namespace) error {
	if change == (ProofChange{}) {
		return nil
	}
	proof := Proof{Difference: BlockLength(model.DefaultClockDifference)}
	if ns.Proof != nil {
		proof = *ns.Proof
	}
	if change.KeyFile != nil {
		proof.KeyFile = *change.KeyFile
	}
	if change.DropRejected != nil {
		proof.DropRejected = *change.DropRejected
	}
	switch {
	case proof.KeyFile != "":
		ns.Proof = &proof
	case change.DropRejected != nil && *change.DropRejected:
		return refuse("namespaces", fmt.Sprintf("namespace %d has no proof of transit whose packets could be dropped", ns.ID),
			"name the file with this node's key, too: pot FILE drop-rejected on")
	default:
		ns.Proof = nil
	}
	return nil
}

func (n Namespace) node(known keys) model.Namespace {
	out := model.Namespace{
		ID: n.ID, Data: uint32(n.Data), DataWide: uint64(n.DataWide), Remove: n.Remove,
		Export: n.Export, Sample: uint32(n.Sample), Proof: n.Proof.node(known),
		EdgeToEdge: n.EdgeToEdge,
		Loopback:   n.Loopback, TerminateActive: n.TerminateActive, Incremental: n.Incremental,
	}
	if n.Schema != nil {
		out.Schema = &model.Schema{ID: n.Schema.ID, Data: []byte(n.Schema.Data)}
	}
	return out
}

// AddNamespace adds a namespace.
func (c *Config) AddNamespace(ns Namespace) (*Config, error) {
	if c.namespace(ns.ID) >= 0 {
		return nil, refuse(
			"namespaces",
			fmt.Sprintf("namespace %d exists already", ns.ID),
			fmt.Sprintf(
				"remove it first with: waymark ioam namespace del %d, or change it with: waymark ioam namespace set %d, or take another id",
				ns.ID,
				ns.ID,
			),
		)
	}
	return c.edit(func(next *Config) { next.Namespaces = append(next.Namespaces, ns) })
}

// RemoveNamespace removes a namespace, as the kernel does also one that encapsulations use: their traces
// then leave without this node's data. A proof needs the namespace's key, so it stays.
func (c *Config) RemoveNamespace(id ioam.NamespaceID) (*Config, error) {
	i := c.namespace(id)
	if i < 0 {
		return nil, noNamespace(id, "list them with: waymark ioam namespace show")
	}
	if err := c.needed(id); err != nil {
		return nil, err
	}
	return c.edit(func(next *Config) { next.Namespaces = slices.Delete(next.Namespaces, i, i+1) })
}

// SetSchema gives a namespace its snapshot; nil removes it.
func (c *Config) SetSchema(id ioam.NamespaceID, schema *Schema) (*Config, error) {
	i := c.namespace(id)
	if i < 0 {
		return nil, noNamespace(id, fmt.Sprintf("add it with: waymark ioam namespace add %d", id))
	}
	return c.edit(func(next *Config) { next.Namespaces[i].Schema = schema })
}

// SetExport sets what this node does with the Direct Exports of a namespace; n is for
// [model.ExportSample].
func (c *Config) SetExport(id ioam.NamespaceID, mode model.ExportMode, n Sample) (*Config, error) {
	i := c.namespace(id)
	if i < 0 {
		return nil, noNamespace(id, fmt.Sprintf("add it with: waymark ioam namespace add %d", id))
	}
	return c.edit(func(next *Config) { next.Namespaces[i].Export, next.Namespaces[i].Sample = mode, n })
}

func (c *Config) namespace(id ioam.NamespaceID) int {
	return slices.IndexFunc(c.Namespaces, func(ns Namespace) bool { return ns.ID == id })
}

// MarshalJSON writes the namespace with the keys of the file, as jsonKey spells them.
func (n Namespace) MarshalJSON() ([]byte, error) { return marshalJSON(&n) }

// UnmarshalJSON reads a namespace as strictly as the file.
func (n *Namespace) UnmarshalJSON(data []byte) error { return decodeFragment(data, n) }

// MarshalJSON writes the schema with the keys of the file, as jsonKey spells them.
func (s Schema) MarshalJSON() ([]byte, error) { return marshalJSON(&s) }

// UnmarshalJSON reads a schema as strictly as the file.
func (s *Schema) UnmarshalJSON(data []byte) error { return decodeFragment(data, s) }
