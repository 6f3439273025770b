// SPDX-License-Identifier: Apache-2.0

package config

// Marshal writes the configuration as YAML, with every default.
func (c *Config) Marshal() []byte { return nodeFile.Marshal(c) }

// Equal reports whether two configurations say the same.
func (c *Config) Equal(other *Config) bool { return nodeFile.Equal(c, other) }

// MarshalJSON writes the configuration with the keys of the file, as jsonKey spells them.
func (c *Config) MarshalJSON() ([]byte, error) { return marshalJSON(c) }

// MarshalJSON writes the namespace with the keys of the file, as jsonKey spells them.
func (n Namespace) MarshalJSON() ([]byte, error) { return marshalJSON(&n) }

// UnmarshalJSON reads a namespace as strictly as the file.
func (n *Namespace) UnmarshalJSON(data []byte) error { return decodeFragment(data, n) }

// MarshalJSON writes the schema with the keys of the file, as jsonKey spells them.
func (s Schema) MarshalJSON() ([]byte, error) { return marshalJSON(&s) }

// UnmarshalJSON reads a schema as strictly as the file.
func (s *Schema) UnmarshalJSON(data []byte) error { return decodeFragment(data, s) }

// MarshalJSON writes the encapsulation with the keys of the file, as jsonKey spells them.
func (e Encapsulation) MarshalJSON() ([]byte, error) { return marshalJSON(&e) }

// UnmarshalJSON reads an encapsulation as strictly as the file.
func (e *Encapsulation) UnmarshalJSON(data []byte) error { return decodeFragment(data, e) }

// MarshalJSON writes the interface with the keys of the file.
func (in Interface) MarshalJSON() ([]byte, error) { return marshalJSON(&in) }

// UnmarshalJSON reads an interface as strictly as the file.
func (in *Interface) UnmarshalJSON(data []byte) error { return decodeFragment(data, in) }

// MarshalJSON writes the decapsulation with the keys of the file.
func (d Decapsulation) MarshalJSON() ([]byte, error) { return marshalJSON(&d) }

// UnmarshalJSON reads a decapsulation as strictly as the file.
func (d *Decapsulation) UnmarshalJSON(data []byte) error { return decodeFragment(data, d) }

// MarshalJSON writes the flow with the keys of the file, as jsonKey spells them.
func (f Flow) MarshalJSON() ([]byte, error) { return marshalJSON(&f) }

// UnmarshalJSON reads a flow as strictly as the file.
func (f *Flow) UnmarshalJSON(data []byte) error { return decodeFragment(data, f) }
