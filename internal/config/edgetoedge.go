// SPDX-License-Identifier: Apache-2.0

package config

import (
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// EdgeToEdgeOption is an Edge-to-Edge option to insert.
type EdgeToEdgeOption struct {
	Namespace ioam.NamespaceID    `key:"namespace" required:"true"`
	Type      ioam.EdgeToEdgeType `key:"type" required:"true"`
}

// edgeToEdgeOptionTexts say what the keys of e2e in options mean.
var edgeToEdgeOptionTexts = yamlfile.KeyTexts{
	"namespace": "Namespace-ID; each Edge-to-Edge option of a packet needs its own. At the node that decapsulates, e2e " +
		"under namespaces measures its flows.",
	"type": "IOAM-E2E-Type, 16 bits, which fields the option has: 0x4000 a Sequence Number of 32 bits, 0x8000 one of 64 " +
		"bits instead, 0x3000 a timestamp in the node's format; 0x7000 is the first and the last.",
}

func (o *EdgeToEdgeOption) node() *model.EdgeToEdgeOption {
	if o == nil {
		return nil
	}
	return &model.EdgeToEdgeOption{Namespace: o.Namespace, Type: o.Type}
}
