// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
)

// Words of the configuration file, indexed by value.
var (
	compatibilityWords = []string{"default", "mainline"}
	boundaryWords      = []string{"drop", "strip", "ignore"}
	modeWords          = []string{"inline", "encap", "auto"}
	exportModeWords    = []string{"none", "every", "aggregate", "sample"}
	directionWords     = []string{"out", "in", "transit"}
	exchangeWords      = []string{"stamp", "twamp-light", "rfc6374"}
	probesWords        = []string{"none", "out-of-band", "in-band", "in-band-encap"}
	nodeRoleWords      = []string{"none", "encapsulating", "transit", "decapsulating"}
)

func word[T ~uint8](v T, words []string) string {
	if int(v) < len(words) {
		return words[v]
	}
	return fmt.Sprintf("%d", uint8(v))
}

func marshalWord[T ~uint8](v T, words []string, what string) ([]byte, error) {
	if int(v) < len(words) {
		return []byte(words[v]), nil
	}
	return nil, fmt.Errorf("%d is not a %s", uint8(v), what)
}

func unmarshalWord[T ~uint8](v *T, text []byte, words []string, what string) error {
	for i, w := range words {
		if string(text) == w {
			*v = T(i)
			return nil
		}
	}
	return problem.New(fmt.Sprintf("%q is not a %s", text, what), fmt.Sprintf("use %s", strings.Join(words, ", ")))
}

// String returns "default" or "mainline".
func (c Compatibility) String() string { return word(c, compatibilityWords) }

// MarshalText is [Compatibility.String]; an unknown value is an error.
func (c Compatibility) MarshalText() ([]byte, error) {
	return marshalWord(c, compatibilityWords, "compatibility")
}

// UnmarshalText reads what MarshalText writes.
func (c *Compatibility) UnmarshalText(text []byte) error {
	return unmarshalWord(c, text, compatibilityWords, "compatibility")
}

// String returns "drop", "strip" or "ignore".
func (b Boundary) String() string { return word(b, boundaryWords) }

// MarshalText is [Boundary.String]; an unknown value is an error.
func (b Boundary) MarshalText() ([]byte, error) {
	return marshalWord(b, boundaryWords, "boundary policy")
}

// UnmarshalText reads what MarshalText writes.
func (b *Boundary) UnmarshalText(text []byte) error {
	return unmarshalWord(b, text, boundaryWords, "boundary policy")
}

// String returns "inline", "encap" or "auto".
func (m Mode) String() string { return word(m, modeWords) }

// MarshalText is [Mode.String]; an unknown value is an error.
func (m Mode) MarshalText() ([]byte, error) { return marshalWord(m, modeWords, "mode") }

// UnmarshalText reads what MarshalText writes.
func (m *Mode) UnmarshalText(text []byte) error {
	return unmarshalWord(m, text, modeWords, "mode")
}

// String returns "none", "every", "aggregate" or "sample".
func (m ExportMode) String() string { return word(m, exportModeWords) }

// MarshalText is [ExportMode.String]; an unknown value is an error.
func (m ExportMode) MarshalText() ([]byte, error) {
	return marshalWord(m, exportModeWords, "export mode")
}

// UnmarshalText reads what MarshalText writes.
func (m *ExportMode) UnmarshalText(text []byte) error {
	return unmarshalWord(m, text, exportModeWords, "export mode")
}

// String returns "encapsulating", "transit" or "decapsulating"; "none" for 0.
func (r NodeRole) String() string { return word(r, nodeRoleWords) }

// String returns "none", "ingress", "egress" or "ingress,egress".
func (r Role) String() string {
	switch r {
	case 0:
		return "none"
	case RoleIngress:
		return "ingress"
	case RoleEgress:
		return "egress"
	case RoleIngress | RoleEgress:
		return "ingress,egress"
	}
	return fmt.Sprintf("%d", uint8(r))
}

// MarshalText is [Role.String]; an unknown value is an error.
func (r Role) MarshalText() ([]byte, error) {
	if r&^(RoleIngress|RoleEgress) != 0 {
		return nil, fmt.Errorf("%d is not a role", uint8(r))
	}
	return []byte(r.String()), nil
}

// UnmarshalText reads "ingress", "egress", both with a comma between them, or
// "none".
func (r *Role) UnmarshalText(text []byte) error {
	if string(text) == "none" {
		*r = 0
		return nil
	}
	var roles Role
	for w := range strings.SplitSeq(string(text), ",") {
		switch strings.TrimSpace(w) {
		case "ingress":
			roles |= RoleIngress
		case "egress":
			roles |= RoleEgress
		default:
			return problem.New(fmt.Sprintf("%q is not a role", w), "use ingress, egress, both with a comma between them, or none")
		}
	}
	*r = roles
	return nil
}
