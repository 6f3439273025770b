// SPDX-License-Identifier: Apache-2.0

package config

// Marshal writes the configuration as YAML, with every default.
func (c *Config) Marshal() []byte { return nodeFile.Marshal(c) }

// Equal reports whether two configurations say the same.
func (c *Config) Equal(other *Config) bool { return nodeFile.Equal(c, other) }

// MarshalJSON writes the configuration with the keys of the file, as jsonKey spells them.
func (c *Config) MarshalJSON() ([]byte, error) { return marshalJSON(c) }
